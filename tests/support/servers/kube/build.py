"""The programs of the API server: those that a user brings, else built once from their pinned Go module.

``KUBEBUILDER_ASSETS`` is the folder of etcd, kube-apiserver and kubectl that Kubernetes' own envtest takes.
Without it etcd is as installed, kube-apiserver is built into the cache folder from go.mod beside this file,
and kubectl is as installed or, where it is missing or too old, built too. kube-controller-manager and
kube-scheduler are no part of envtest: they are built in either case, and few tests need them.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.kube.go import build, built
from tests.support.servers.missing import ServerMissingError, program

_HERE = Path(__file__).parent
_MODULE = "k8s.io/kubernetes"
_CONTROLLERS, _SCHEDULER = "kube-controller-manager", "kube-scheduler"
_OLDEST_KUBECTL = (1, 26)
"""From here on ``auth can-i --list`` and ``describe`` print what the tests read."""


@dataclass(frozen=True, slots=True)
class Programs:
    """What is run."""

    etcd: Path
    kube_apiserver: Path
    kubectl: Path


def find_programs() -> Programs:
    """The programs, without building any. ``ServerMissingError`` says how to get what is missing."""
    if folder := os.environ.get("KUBEBUILDER_ASSETS"):
        return Programs(*(_brought(Path(folder), name) for name in ("etcd", "kube-apiserver", "kubectl")))
    return Programs(_etcd(), _built("kube-apiserver"), find_kubectl())


def find_kubectl() -> Path:
    """kubectl alone, which needs no server for much of what it does. As ``find_programs``."""
    if folder := os.environ.get("KUBEBUILDER_ASSETS"):
        return _brought(Path(folder), "kubectl")
    return _installed_kubectl() or _built("kubectl")


def find_controllers() -> Path:
    """kube-controller-manager. As ``find_programs``."""
    return _built(_CONTROLLERS)


def find_scheduler() -> Path:
    """kube-scheduler. As ``find_programs``."""
    return _built(_SCHEDULER)


def build_programs() -> None:
    """Build what is not in the cache yet. Raises ``ServerMissingError`` where that cannot be."""
    wanted = [_CONTROLLERS, _SCHEDULER]
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        _etcd()
        wanted += ["kube-apiserver", *([] if _installed_kubectl() else ["kubectl"])]
    packages = [f"{_MODULE}/cmd/{name}" for name in wanted]
    build(_HERE, "kube", packages, "ten minutes", _link_options())
    find_programs()


def _brought(folder: Path, name: str) -> Path:
    if not os.access(folder / name, os.X_OK):
        raise ServerMissingError(f"KUBEBUILDER_ASSETS={folder} has no program {name}")
    return folder / name


def _etcd() -> Path:
    return Path(program("etcd"))


def _built(name: str) -> Path:
    return built(_HERE, "kube", name)


def _installed_kubectl() -> Path | None:
    """The kubectl on PATH, if it is new enough."""
    found = shutil.which("kubectl")
    if not found:
        return None
    command = [found, "version", "--client", "--output=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        version = json.loads(done.stdout)["clientVersion"]["gitVersion"]
    except (json.JSONDecodeError, KeyError):
        return None
    numbers = re.match(r"v(\d+)\.(\d+)\.", version)
    return Path(found) if numbers and tuple(map(int, numbers.groups())) >= _OLDEST_KUBECTL else None


def pinned_version() -> str:
    """Kubernetes' version in go.mod, such as ``v1.36.3``."""
    pinned = re.search(rf"^\s*(?:require )?{_MODULE} (v\S+)", (_HERE / "go.mod").read_text(), re.MULTILINE)
    assert pinned, "go.mod pins Kubernetes"
    return pinned[1]


def _link_options() -> str:
    """No symbols, a third less to write; and the version, which Kubernetes' programs take from the linker."""
    major, minor, _ = pinned_version().split(".")
    values = {"gitVersion": pinned_version(), "gitMajor": major.removeprefix("v"), "gitMinor": minor}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{key}={one}" for key, one in values.items())
