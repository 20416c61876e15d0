"""The Go that builds: the one on this machine, or the one that go.mod asks for, fetched through it.

From 1.21 on, Go fetches the toolchain that a module asks for by itself. An older one (Debian 12 has 1.19)
does not know how, but can download toolchains, which are published as modules.
"""

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from tests.support.servers.missing import ServerMissingError

_USUAL = "/usr/local/go/bin/go"
_SWITCHES = (1, 21)
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_DOWNLOAD_S = 900


def go_command(module: Path) -> list[str]:
    """What to run in the folder ``module``. Raises ``ServerMissingError`` where no Go is installed."""
    found = shutil.which("go") or shutil.which(_USUAL)
    if not found:
        raise ServerMissingError("building needs Go (Debian: apt-get install golang-go)")
    installed = _numbers(_ask([found, "env", "GOVERSION"]))
    wanted = re.search(r"^go (\S+)$", (module / "go.mod").read_text(), re.MULTILINE)
    assert wanted, "go.mod says which Go it is for"
    if installed >= _numbers(wanted[1]):
        return [found]
    if installed >= _SWITCHES:
        return ["env", "GOTOOLCHAIN=auto", found]
    return [str(_toolchain(found, wanted[1]))]


def _toolchain(go: str, version: str) -> Path:
    system = f"{platform.system().lower()}-{_MACHINES.get(platform.machine(), platform.machine())}"
    answer = _ask([go, "mod", "download", "-json", f"golang.org/toolchain@v0.0.1-go{version}.{system}"])
    folder = Path(json.loads(answer)["Dir"])
    for program in (*folder.glob("bin/*"), *folder.glob("pkg/tool/*/*")):
        program.chmod(0o755)  # a module's files are not executable; Go that knows toolchains does this, too
    return folder / "bin" / "go"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _ask(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, cwd="/", env=os.environ, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_S
        )
    except subprocess.TimeoutExpired as error:
        raise ServerMissingError(f"{command[1:]}: no end after {_DOWNLOAD_S} s") from error
    if done.returncode:
        raise ServerMissingError(f"{command[1:]} failed: {done.stderr[-500:]}")
    return done.stdout
