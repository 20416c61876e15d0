"""Helm, which renders and checks the chart: as installed, else built once from go.mod beside this."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.support.servers.kube.go import build, built
from tests.support.servers.missing import ServerMissingError

_HERE = Path(__file__).parent
_OLDEST = 3


def find_helm() -> Path:
    """The program, without building it. Raises ``ServerMissingError`` that says how to get it."""
    installed = shutil.which("helm")
    if installed and _major(Path(installed)) >= _OLDEST:
        return Path(installed)
    return built(_HERE, "helm", "helm")


def build_helm() -> None:
    """Build it, unless there is one. Raises ``ServerMissingError`` where that cannot be."""
    try:
        find_helm()
    except ServerMissingError:
        build(_HERE, "helm", ["helm.sh/helm/v4/cmd/helm"], "five minutes")


@cache
def _major(program: Path) -> int:
    """0 for what does not run."""
    try:
        done = subprocess.run([program, "version", "--short"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    version = done.stdout.strip().removeprefix("v")
    return int(version.partition(".")[0]) if version[:1].isdigit() else 0
