"""The running API server with its etcd."""

import itertools
import json
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.servers.kafka.certificates import make_certificate, make_certificates
from tests.support.servers.kube.build import find_programs
from tests.support.servers.kube.client import Access, Client
from tests.support.servers.kube.crds import KINDS, manifests
from tests.support.servers.ports import free_port
from tests.support.servers.process import ServerProcess

_START_S = 240
_ENVIRONMENT = {"GOGC": "400"}
"""Its garbage is collected at five times what is live, not at two: a start takes 2.4 s of CPU and not 3.5."""
_MAKERS = ("deployments", "replicasets", "statefulsets", "daemonsets")
_WORKLOADS = (
    *(f"apis/apps/v1/{one}" for one in _MAKERS), "apis/batch/v1/cronjobs", "apis/batch/v1/jobs", "api/v1/pods"
)  # fmt: skip

# ServiceAccount: no controller makes the account "default", which this admission would ask of every pod.
# A watch cache is what real servers have, so it stays.
_OPTIONS = [
    "--authorization-mode=RBAC",
    "--disable-admission-plugins=ServiceAccount",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    "--enable-priority-and-fairness=true",
    "--profiling=false",
    # The aggregation layer: how it says to other API servers that it is the one that asks, and for whom.
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
]
AUDITED = "system:serviceaccounts:dutycycle"
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": [AUDITED]}, {"level": "None"}],
}  # fmt: skip
"""Of the accounts that are shipped, in their own namespace, it logs what they ask for."""
FRONT_PROXY_CA = "front-proxy-ca"
"""The authority that signs its certificate as a front proxy, in the folder of a server."""


class Kube:
    """One API server with all ``KINDS``; it may be stopped and started. ``admin`` may do everything.

    ``options``: more of its command line.
    """

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = [*_OPTIONS, *options]
        self.programs = find_programs()
        self._folder = Path(tempfile.mkdtemp(prefix="dutycycle-kube-"))
        self._names = itertools.count(1)
        certificates = make_certificates(self._folder)
        make_certificate(self._folder, "front-proxy", "front-proxy-client", FRONT_PROXY_CA)
        self.port = free_port()
        self._access = Access(f"https://127.0.0.1:{self.port}", certificates.authority, secrets.token_hex(16))
        self.admin = self.client(self._access.token)
        self._etcd_port, self._peer_port = free_port(), free_port()
        self._etcd: ServerProcess | None = None
        self._server: ServerProcess | None = None
        try:
            self.start()
            for one in manifests():
                self.admin.create(one)
            paths = [f"/apis/{k.group}/{version}/{k.plural}" for k in KINDS for version in k.versions]
            assert self._server is not None
            self._server.wait_until(lambda: all(map(self.admin.answers, paths)), _START_S)
        except BaseException:
            self.discard()
            raise

    @property
    def front_proxy(self) -> Path:
        """Its certificate as a front proxy, and its key beside it, without ``.crt`` and ``.key``."""
        return self._folder / "front-proxy"

    def start(self) -> None:
        """Start what does not run, on the ports and data of before."""
        if self._etcd is None or not self._etcd.running():
            url, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
            where = [f"--data-dir={self._folder / 'etcd'}", "--log-level", "error"]
            client = ["--listen-client-urls", url, "--advertise-client-urls", url]
            cluster = ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            member = ["--initial-cluster", f"default={peer}"]
            self._etcd = ServerProcess(
                [self.programs.etcd, *where, *client, *cluster, *member],
                self._folder / "etcd.log",
                environment=_ENVIRONMENT,
            )
        if self._server is None or not self._server.running():
            self._server = self._start_server()

    def stop(self) -> None:
        """End the API server in order; etcd stays. ``start`` goes on with the same objects."""
        if self._server is not None:
            self._server.stop()

    ensure_running = start

    def stop_all(self) -> None:
        """End the API server and its etcd. ``start`` goes on with the same objects."""
        self.stop()
        if self._etcd is not None:
            self._etcd.stop()

    def discard(self) -> None:
        """End both, and remove their data."""
        self.stop_all()
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_namespace(self) -> str:
        """A namespace of the test's own."""
        name = f"test-{next(self._names)}"
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def empty(self, namespace: str) -> None:
        """Take its pods away, and what would make new ones: a scheduler of another test would place them."""
        for one in _WORKLOADS:
            self.admin.delete_all(one, namespace)

    def client(self, token: str, namespace: str = "default") -> Client:
        """Who has this token, and means this namespace."""
        access = replace(self._access, token=token, namespace=namespace)
        return Client(access, self.programs.kubectl, Path(tempfile.mkdtemp(dir=self._folder)))

    def _start_server(self) -> ServerProcess:
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{self._access.token},admin,admin,system:masters\n")
        (self._folder / "audit.yaml").write_text(json.dumps(_AUDIT))
        files = {
            "audit-policy-file": "audit.yaml", "audit-log-path": "audit.log",
            "tls-cert-file": "server.crt", "tls-private-key-file": "server.key",
            "token-auth-file": "tokens.csv",
            "service-account-key-file": "server.key", "service-account-signing-key-file": "server.key",
            "requestheader-client-ca-file": f"{FRONT_PROXY_CA}.crt",
            "proxy-client-cert-file": "front-proxy.crt", "proxy-client-key-file": "front-proxy.key",
        }  # fmt: skip
        where = [f"--etcd-servers=http://127.0.0.1:{self._etcd_port}", f"--secure-port={self.port}"]
        where += [f"--{option}={self._folder / name}" for option, name in files.items()]
        command: list[str | Path] = [self.programs.kube_apiserver, *where, *self._options]
        process = ServerProcess(command, self._folder / "kube-apiserver.log", environment=_ENVIRONMENT)
        process.wait_until(self._ready, _START_S)
        return process

    def audited(self, account: str) -> list[dict[str, Any]]:
        """What an account of the namespace ``dutycycle`` has asked for so far, by the server's audit."""
        user = f"system:serviceaccount:dutycycle:{account}"
        lines = (self._folder / "audit.log").read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["user"]["username"] == user]

    def _ready(self) -> bool:
        """Past its start-up hooks too, which make the namespaces and roles that every cluster has."""
        return self.admin.answers("/readyz")
