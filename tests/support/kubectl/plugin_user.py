"""Somebody who types ``kubectl dutycycle``, and annotated objects as they find them."""

import os
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from unittest.mock import patch

from dutycycle.kube.heartbeat import new_lease
from dutycycle.kubectl import cli, complete
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube

ROOT = Path(__file__).parents[3]
MAIN = """import sys
sys.path.insert(0, {!r})
from dutycycle.kubectl.{} import main
sys.exit(main())
"""
UPDATED = "2026-01-01T00:00:00Z"
BUSY = {
    "gpu_util": '{"gpu_0_827505":97,"gpu_0_9":3}', "gpu_mem_util": '{"gpu_0_827505":41}',
    "max_cpu_util": "271.82", "max_cpu_mem_mb": "245.7", "max_network_mbps": "62.4", "max_disk_io": "0",
    "updated": UPDATED, "kind": "training", "bottleneck": "input",
}  # fmt: skip
IDLE = {"gpu_util": '{"gpu_1":0}', "max_cpu_util": "0.3", "max_cpu_mem_mb": "2400", "updated": UPDATED}

POD_TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]},
}  # fmt: skip
SELECTED: Object = {"selector": {"matchLabels": {"app": "web"}}, "template": POD_TEMPLATE}


def install(folder: Path) -> str:
    """A PATH on which kubectl finds the plugin and its completion, as pip installs them."""
    for name, module in (("kubectl-dutycycle", "cli"), ("kubectl_complete-dutycycle", "complete")):
        script = folder / name
        script.write_text(f"#!{sys.executable}\n{MAIN.format(str(ROOT), module)}\n")
        script.chmod(0o755)
    return f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"


class User:
    """Somebody who types ``kubectl dutycycle`` with a kubeconfig of theirs.

    The plugin runs in this process: with kubectl, a shell and imports it would take ten times as long.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.env = {"KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin:/bin", "HOME": str(kubeconfig.parent)}

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Status, stdout, stderr."""
        out = BytesIO()
        stdout, stderr = TextIOWrapper(out, encoding="utf-8", newline="\n"), StringIO()
        with patch.dict(os.environ, self.env, clear=True), redirect_stdout(stdout), redirect_stderr(stderr):
            try:
                status: str | int | None = cli.main(arguments)
            except SystemExit as end:
                status = end.code
            stdout.flush()
        assert isinstance(status, int)
        return status, out.getvalue().decode(), stderr.getvalue()

    def lines(self, *arguments: str) -> list[list[str]]:
        """The words of each line of a table that came without trouble."""
        status, stdout, stderr = self.run(*arguments)
        assert (status, stderr) == (0, "")
        return [line.split() for line in stdout.splitlines()]

    def completes(self, *words: str) -> list[str]:
        """What the shell would offer."""
        with patch.dict(os.environ, self.env, clear=True):
            return complete.candidates(words)


class KubectlUser(User):
    """The same through the real kubectl, which finds the plugin and its completion by ``path``."""

    def __init__(self, kube: Kube, kubeconfig: Path, path: str) -> None:
        super().__init__(kubeconfig)
        self._kubectl = str(kube.programs.kubectl)
        self.env["PATH"] = path

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Status, stdout, stderr."""
        return self._run("dutycycle", *arguments)

    def completes(self, *words: str) -> list[str]:
        """What the shell would offer."""
        _, stdout, _ = self._run("__complete", "dutycycle", *words)
        *offered, directive = stdout.splitlines()
        assert directive == ":4"
        return offered

    def _run(self, *arguments: str) -> tuple[int, str, str]:
        command = [self._kubectl, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.env, timeout=240)
        return done.returncode, done.stdout, done.stderr


def thing(version: str, kind: str, namespace: str | None, name: str, /, **annotations: str) -> Object:
    ours = {f"dutycycle.io/{key.replace('__', '-')}": value for key, value in annotations.items()}
    place = {} if namespace is None else {"namespace": namespace}
    return {
        "apiVersion": version, "kind": kind,
        "metadata": {"name": name, **place, "annotations": ours | {"others.io/gpu_util": '{"gpu_0":50}'}},
    }  # fmt: skip


def pod(namespace: str, name: str, /, **annotations: str) -> Object:
    made = thing("v1", "Pod", namespace, name, **annotations)
    made["metadata"]["labels"] = {"app": name}
    return made | {"spec": {"containers": [{"name": "a", "image": "b"}]}}


def lease(namespace: str, node: str, ago_s: float) -> Object:
    """The heartbeat of a node that was sampled so long ago, and is renewed each minute."""
    return new_lease(node, "uid", namespace, round((time.time() - ago_s) * 1000), 60.0)


def job(namespace: str, name: str, /, **annotations: str) -> Object:
    container = {"name": "a", "image": "b"}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return thing("batch/v1", "Job", namespace, name, **annotations) | {"spec": spec}


def mpijob(namespace: str, name: str, /, **annotations: str) -> Object:
    return thing("kubeflow.org/v2beta1", "MPIJob", namespace, name, **annotations)
