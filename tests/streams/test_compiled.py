"""Where compiled code is kept, and when it is compiled anew."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streams import compile as compile_all
from streams import compiled

MODULE = """
from streams.compiled import entry, kernel
from other import twice

@entry("float64(float64)")
def value(x: float) -> float:
    return twice(x) + 1

print(value(3.0), sum(value.stats.cache_hits.values()), *value.nopython_signatures)
"""
OTHER = """
from streams.compiled import kernel

TIMES = {times}

@kernel
def twice(x: float) -> float:
    return TIMES * x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "package"
    made.mkdir()
    (made / "module.py").write_text(MODULE)
    (made / "other.py").write_text(OTHER.format(times=2))
    return made


def imported(folder: Path, **environ: str) -> list[str]:
    """What the module prints in a process of its own: the value, and how often it was found compiled."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environ}
    command = [sys.executable, str(folder / "module.py")]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.split()[:2]


def test_it_is_compiled_once_and_anew_when_what_it_is_made_of_changes(folder: Path) -> None:
    assert imported(folder) == ["7.0", "0"]
    assert imported(folder) == ["7.0", "1"]
    (folder / "other.py").write_text(OTHER.format(times=3))
    assert imported(folder) == ["10.0", "0"]
    (folder / "other.py").write_text(OTHER.format(times=3).replace("TIMES * x", "TIMES * x - 1"))
    assert imported(folder) == ["9.0", "0"]


def test_a_kernel_that_moves_to_another_module_is_no_longer_looked_for_in_the_old_one(folder: Path) -> None:
    assert imported(folder) == ["7.0", "0"]
    (folder / "other.py").rename(folder / "third.py")
    (folder / "module.py").write_text(MODULE.replace("from other", "from third"))
    assert imported(folder) == ["7.0", "0"]


def test_what_it_is_not_made_of_may_change(folder: Path) -> None:
    assert imported(folder) == ["7.0", "0"]
    (folder / "module.py").write_text("# A comment moves it down.\n" + MODULE)
    (folder / "third.py").write_text("")
    assert imported(folder) == ["7.0", "1"]


def test_it_is_found_where_nothing_can_be_written(folder: Path, tmp_path: Path) -> None:
    """As in an image, whose root file system is read-only in Kubernetes; as root nothing is read-only, so the
    folder is one that the process cannot make a file in."""
    assert imported(folder) == ["7.0", "0"]
    assert imported(folder, **_nowhere_to_write(folder, tmp_path)) == ["7.0", "1"]


def test_it_is_kept_in_the_users_cache_where_the_package_cannot_be_written(
    folder: Path, tmp_path: Path
) -> None:
    environ = _nowhere_to_write(folder, tmp_path) | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert imported(folder, **environ) == ["7.0", "0"]
    assert imported(folder, **environ) == ["7.0", "1"]
    assert list((tmp_path / "cache").rglob("*.nbi"))


def _nowhere_to_write(folder: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which no file can be made below the ``folder``."""
    (tmp_path / "sitecustomize.py").write_text(
        "import tempfile\n"
        "made = tempfile.TemporaryFile\n"
        "def refused(*args, dir=None, **kwargs):\n"
        f"    if str(dir).startswith({str(folder)!r}):\n"
        "        raise PermissionError(dir)\n"
        "    return made(*args, dir=dir, **kwargs)\n"
        "tempfile.TemporaryFile = refused\n"
    )
    return {"PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{tmp_path}"}


def test_whoever_has_to_wait_for_the_compiler_is_told(tmp_path: Path) -> None:
    package = tmp_path / "streams"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(compiled.__file__, package)

    def said() -> str:
        command = [sys.executable, "-c", "import streams.compiled"]
        environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(
            command, env=environ, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stderr

    assert "compiling the loops of the streams, once" in said()
    (package / "__pycache__" / "one.nbi").touch()
    assert said() == ""


def test_python_calls_entries_and_is_refused_by_kernels(folder: Path) -> None:
    """Compiled by the call itself, or before it as a part of an entry."""
    for first in ("import other", "import module, other"):
        script = f"{first}\nother.twice(3.0)"
        environ = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{folder}"}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "TypeError" in done.stderr


def test_what_is_compiled_beside_the_detector_does_not_import_it() -> None:
    detector = "streams.operators.cycles.detect.detector"
    looks = f"import sys, {', '.join(compile_all.APART)}; print({detector!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", looks], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
    looks = f"import sys, {compile_all.CYCLES}; print({detector!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", looks], check=True, capture_output=True, text=True)
    assert done.stdout == "True\n"
