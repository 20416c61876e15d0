"""Builds programs from a Go module whose versions are pinned in its folder."""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.servers.cache import cache_folder
from tests.support.servers.kube.go import go_command
from tests.support.servers.missing import ServerMissingError

_BUILD_S = 3600
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def built_folder(module: Path, name: str) -> Path:
    """Where programs of ``module`` are kept: one folder for each set of pinned modules."""
    digest = hashlib.sha256((module / "go.mod").read_bytes() + (module / "go.sum").read_bytes())
    return cache_folder() / f"{name}-{digest.hexdigest()[:16]}"


def go_build(module: Path, name: str, packages: Sequence[str], out: Path, link: str) -> None:
    """Compile ``packages`` to ``out``, a file or a folder, with ``link`` as the linker's options.

    Raises ``ServerMissingError`` that says why ``name`` was not built.
    """
    options = ["-trimpath", "-ldflags", link, "-o", str(out)]
    try:
        done = subprocess.run(
            [*go_command(module), "build", *options, *packages], cwd=module, timeout=_BUILD_S,
            env={**os.environ, **_ENVIRONMENT}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ServerMissingError(f"{name} was not built after {_BUILD_S} s") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not line.startswith("go: downloading ")]
        raise ServerMissingError(f"{name} could not be built: {' '.join(said)[-1500:]}")
