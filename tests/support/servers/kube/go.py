"""Builds programs from a Go module whose versions are pinned in its folder, and finds them in the cache.

The Go that builds is the one on this machine, or the one that go.mod asks for, fetched through it.

From 1.21 on, Go fetches the toolchain that a module asks for by itself. An older one (Debian 12 has 1.19)
does not know how, but can download toolchains, which are published as modules.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.missing import ServerMissingError, run_or_miss

_USUAL = "/usr/local/go/bin/go"
_SWITCHES = (1, 21)
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_DOWNLOAD_S = 900
_BUILD_S = 3600
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def built(module: Path, kind: str, name: str) -> Path:
    """The program ``name`` of a module, of whose kind are the folders in the cache. Raises
    ``ServerMissingError`` that says how to get it."""
    program = _folder(module, kind) / name
    if not program.exists():
        raise ServerMissingError(f"{name} is not built (make servers builds it; it needs Go)")
    return program


def build(module: Path, kind: str, packages: Sequence[str], takes: str, link: str = "-s -w") -> None:
    """Compile those of ``packages`` that are not built yet, with ``link`` as the linker's options. Raises
    ``ServerMissingError`` that says why not. What Go had compiled when it was interrupted is in its cache."""
    folder = _folder(module, kind)
    with locked(kind):
        missing = [one for one in packages if not (folder / one.rpartition("/")[2]).exists()]
        if not missing:
            return
        names = [one.rpartition("/")[2] for one in missing]
        began, listed = time.monotonic(), " and ".join(names)
        print(f"building {listed}, once: about {takes} on two cores", flush=True)
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            options = ["-trimpath", "-ldflags", link, "-o", temporary]
            run_or_miss(
                [*go_command(module), "build", *options, *missing], f"building {listed}", _BUILD_S,
                folder=module, env={**os.environ, **_ENVIRONMENT},
            )  # fmt: skip
            folder.mkdir(exist_ok=True)
            for name in names:
                (Path(temporary) / name).rename(folder / name)
        print(f"built in {time.monotonic() - began:.0f} s", flush=True)


def _folder(module: Path, kind: str) -> Path:
    """Where programs of ``module`` are kept: one folder for each set of pinned modules."""
    digest = hashlib.sha256((module / "go.mod").read_bytes() + (module / "go.sum").read_bytes())
    return cache_folder() / f"{kind}-{digest.hexdigest()[:16]}"


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
    return run_or_miss(command, f"{command[1:]}", _DOWNLOAD_S, folder=Path("/"))
