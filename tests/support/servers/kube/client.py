"""A client of the test API server: plain JSON over HTTPS, and the real kubectl."""

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""

_ANSWER_S = 30
_KUBECTL_S = 240
_MERGE = "application/merge-patch+json"


class Refused(Exception):  # noqa: N818 - an answer, not an error of ours
    """The API server answered with ``status``."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


def kubeconfig(
    file: Path, url: str, user: Mapping[str, Any] | None = None, *, authority: Path | None = None,
    namespace: str = "default",
) -> Path:  # fmt: skip
    """Write one of a cluster and a user, by default one with a token; ``authority`` signs for the cluster.

    It is readable by its owner alone, which is what keeps tools from warning.
    """
    cluster = {"server": url} | ({"certificate-authority": str(authority)} if authority else {})
    context = {"cluster": "test", "user": "test", "namespace": namespace}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": dict(user or {"token": "t0ken"})}],
        "contexts": [{"name": "test", "context": context}],
    }  # fmt: skip
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(config))
    return file


@dataclass(frozen=True, slots=True)
class Access:
    """Who one is to the API server: its address, its authority's certificate, and a token; and the namespace
    that one means."""

    url: str
    authority: Path
    token: str
    namespace: str = "default"

    def write_kubeconfig(self, file: Path) -> Path:
        """Write it for tools that are to be this one."""
        user = {"token": self.token}
        return kubeconfig(file, self.url, user, authority=self.authority, namespace=self.namespace)


class Client:
    """Speaks to the API server as ``access``. Raises ``Refused`` for an answer that is no success."""

    def __init__(self, access: Access, kubectl: Path, folder: Path) -> None:
        self.access = access
        self._program = kubectl
        self.kubeconfig = access.write_kubeconfig(folder / "kubeconfig")
        self._home = folder
        self._tls = ssl.create_default_context(cafile=str(access.authority))
        self._plurals: dict[tuple[str, str], str] = {}

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """What the real kubectl prints. With ``check`` a failure fails the test, with what it said."""
        command = [str(self._program), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=_KUBECTL_S,
            env={"HOME": str(self._home), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert not check or done.returncode == 0, f"kubectl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout + ("" if check else done.stderr)

    def create(self, thing: Mapping[str, Any]) -> Object:
        """Make the object; where it has a status, that is written as well, as its controller would do it."""
        meta = thing["metadata"]
        path = self._path(thing["apiVersion"], thing["kind"], meta.get("namespace"))
        made = self.request("POST", path, thing)
        if "status" in thing:
            made = self.patch(made, {"status": thing["status"]}, "status")
        return made

    def get(self, thing: Mapping[str, Any]) -> Object:
        """The object as it is now."""
        return self.request("GET", self._path_of(thing))

    def patch(self, thing: Mapping[str, Any], change: Mapping[str, Any], subresource: str = "") -> Object:
        """Merge ``change`` into the object."""
        end = f"/{subresource}" if subresource else ""
        return self.request("PATCH", self._path_of(thing) + end, change, _MERGE)

    def delete(self, thing: Mapping[str, Any]) -> None:
        """Take the object away at once, as a kubelet does with a pod that has ended."""
        self.request(
            "DELETE", self._path_of(thing), {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        )

    def delete_all(self, things: str, namespace: str) -> None:
        """Take all of ``things`` away at once, such as ``apis/batch/v1/jobs``, in this namespace."""
        group, _, plural = things.rpartition("/")
        self.request(
            "DELETE", f"/{group}/namespaces/{namespace}/{plural}",
            {"gracePeriodSeconds": 0, "propagationPolicy": "Background"},
        )  # fmt: skip

    def exists(self, thing: Mapping[str, Any]) -> bool:
        """Whether this very object, by uid, is there."""
        try:
            return cast("bool", self.get(thing)["metadata"]["uid"] == thing["metadata"]["uid"])
        except Refused as answer:
            if answer.status != 404:
                raise
            return False

    def answers(self, path: str) -> bool:
        """Whether the API server answers this with success."""
        try:
            self._ask("GET", path, None, "")
        except (Refused, OSError):  # not there yet, or not ready
            return False
        return True

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content: str = "application/json"
    ) -> Object:
        """One request; the JSON of its answer."""
        return cast("Object", json.loads(self._ask(method, path, body, content)))

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, content: str) -> bytes:
        headers = {"Authorization": f"Bearer {self.access.token}", "Content-Type": content}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.access.url + path, data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S, context=self._tls) as answer:  # noqa: S310 - ours
                return cast("bytes", answer.read())
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode(errors="replace")[:500]) from error

    def _path_of(self, thing: Mapping[str, Any]) -> str:
        meta = thing["metadata"]
        return f"{self._path(thing['apiVersion'], thing['kind'], meta.get('namespace'))}/{meta['name']}"

    def _path(self, version: str, kind: str, namespace: str | None) -> str:
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plurals:
            for one in self.request("GET", group)["resources"]:
                if "/" not in one["name"]:
                    self._plurals[version, one["kind"]] = one["name"]
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{group}{place}/{self._plurals[version, kind]}"
