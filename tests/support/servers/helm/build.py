"""Helm, which renders and checks the chart: as installed, else built once from go.mod beside this."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.kube.go_build import built_folder, go_build
from tests.support.servers.missing import ServerMissingError

_HERE = Path(__file__).parent
_MODULE = "helm.sh/helm/v4"
_OLDEST = 3


def find_helm() -> Path:
    """The program, without building it. Raises ``ServerMissingError`` that says how to get it."""
    installed = shutil.which("helm")
    for program in (*([Path(installed)] if installed else []), _cached()):
        if program.exists() and _major(program) >= _OLDEST:
            return program
    raise ServerMissingError(
        "helm is not installed, nor built (make servers builds it; it needs Go 1.21 or newer)"
    )


def build_helm() -> None:
    """Build it, unless there is one. Raises ``ServerMissingError`` where that cannot be."""
    with locked("helm"):
        try:
            find_helm()
        except ServerMissingError:
            _build()


def _cached() -> Path:
    return built_folder(_HERE, "helm") / "helm"


@cache
def _major(program: Path) -> int:
    """0 for what does not run."""
    try:
        done = subprocess.run([program, "version", "--short"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    version = done.stdout.strip().removeprefix("v")
    return int(version.partition(".")[0]) if version[:1].isdigit() else 0


def _build() -> None:
    print("building helm, once: about five minutes on two cores", flush=True)
    _cached().parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
        program = Path(temporary) / "helm"
        go_build(_HERE, "helm", [f"{_MODULE}/cmd/helm"], program, "-s -w")
        program.rename(_cached())
