"""Docker's compose program, which reads a compose file without an engine.

Used as installed, else from the cache folder. Under ``CI=true`` it is built into the cache from its Go
module where Go is installed. It is never demanded: what it would say about the compose file is checked by
the other tests of tests/deploy as well, all but compose's own reading of it.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.missing import ServerMissingError, run_or_miss

_VERSION = "v5.5.1"
_MODULE = "github.com/docker/compose/v5"
_BUILD_S = 900


def compose_command() -> list[str]:
    """What to run. Raises ``ServerMissingError`` where there is none."""
    for command in (["docker", "compose"], ["docker-compose"], [str(_cached())]):
        if shutil.which(command[0]) and _is_current(command):
            return command
    raise ServerMissingError("docker compose is not installed (Docker's compose plugin, version 2 or newer)")


def build_compose() -> None:
    """Build it into the cache, unless there is one. Raises ``ServerMissingError`` where that cannot be."""
    try:
        compose_command()
    except ServerMissingError:
        if not (os.environ.get("CI") == "true" and shutil.which("go")):
            raise
        with locked("docker-compose"):
            if not _cached().exists():
                _build()


def _cached() -> Path:
    return cache_folder() / f"docker-compose-{_VERSION}"


def _is_current(command: list[str]) -> bool:
    """Whether it runs, and is no version 1, which knows an older format."""
    done = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stdout.strip().startswith("1.")


def _build() -> None:
    # `go install` refuses a module whose go.mod excludes versions, so its source is built in a copy.
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        module = json.loads(_go("mod", "download", "-json", f"{_MODULE}@{_VERSION}", folder=Path(temporary)))
        shutil.copytree(module["Dir"], source, copy_function=shutil.copyfile)
        source.chmod(0o755)  # Go keeps its modules read-only
        binary = Path(temporary) / "docker-compose"
        link = f"-s -w -X {_MODULE}/internal.Version={_VERSION}"
        _go("build", "-trimpath", "-ldflags", link, "-o", str(binary), "./cmd", folder=source)
        shutil.move(binary, _cached())


def _go(*arguments: str, folder: Path) -> str:
    return run_or_miss(["go", *arguments], "building docker compose", _BUILD_S, folder=folder)
