"""Compiles the fake NVML, once for each version of its source, and says how a process comes to see it."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.servers.missing import program

NAME = "libnvidia-ml.so.1"
_SOURCE = Path(__file__).parent / "src"
_CACHE = Path(__file__).resolve().parents[4] / ".cache" / "fake-nvml"
_FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden"]


def build(*, without: Sequence[str] = ()) -> Path:
    """The folder that holds the library, compiled if it is not yet.

    ``without`` names NVML functions that this variant does not export, as an older driver's would not.
    Without a C compiler the test is skipped; under ``CI=true`` it fails.
    """
    folder = _CACHE / _digest(without)
    if not (folder / NAME).exists():
        compiler = shutil.which("gcc") or program("cc")
        folder.mkdir(parents=True, exist_ok=True)
        objects = _objects(compiler)
        # Test processes may build at the same moment: each builds for itself, the last rename wins.
        with TemporaryDirectory(dir=folder) as scratch:
            versions = Path(scratch) / "hidden.map"
            hidden = " ".join(f"{name};" for name in ("no_function", *without))
            versions.write_text(f"{{ local: {hidden} }};\n")
            built = Path(scratch) / NAME
            command = [compiler, *_FLAGS, "-o", str(built), *map(str, objects)]
            _run([*command, f"-Wl,-soname,{NAME}", f"-Wl,--version-script,{versions}", "-lm", "-lpthread"])
            built.rename(folder / NAME)
    return folder


def driver(scenario: Path, library: Path | None = None) -> dict[str, str]:
    """The variables by which a process finds the library, before any other, and the scenario."""
    paths = [str(library or build()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {"LD_LIBRARY_PATH": os.pathsep.join(paths), "FAKE_NVML_SCENARIO": str(scenario)}


def _digest(without: Sequence[str]) -> str:
    digest = hashlib.sha256(" ".join([*_FLAGS, *sorted(without)]).encode())
    for source in sorted(_SOURCE.iterdir()):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _objects(compiler: str) -> list[Path]:
    """The sources, each compiled once for all variants."""
    folder = _CACHE / f"{_digest(())}.objects"
    folder.mkdir(parents=True, exist_ok=True)
    objects = [folder / f"{source.stem}.o" for source in sorted(_SOURCE.glob("*.c"))]
    with TemporaryDirectory(dir=folder) as scratch:
        for target in objects:
            if not target.exists():
                built = Path(scratch) / target.name
                _run([compiler, *_FLAGS, "-c", "-o", str(built), str(_SOURCE / f"{target.stem}.c")])
                built.rename(target)
    return objects


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"the fake {NAME} does not compile:\n{done.stderr}")
