"""Where compiled code is kept, and when it is compiled anew."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streams import compile as compilation
from streams import compiled

MODULE = """
from streams.compiled import entry, kernel
from other import twice

@entry("float64(float64)")
def value(x: float) -> float:
    return twice(x) + 1

print(value(3.0), sum(value.stats.cache_hits.values()))
"""
ROOT = Path(compilation.__file__).parents[1]
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


def imported(folder: Path, name: str = "module.py", **environ: str) -> list[str]:
    """What a module prints in a process of its own: the value, how often it was found compiled, and more."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environ}
    command = [sys.executable, str(folder / name)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.split()


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


def test_what_only_compiling_needs_is_not_imported_where_all_is_compiled(folder: Path) -> None:
    (folder / "module.py").write_text(MODULE + "import sys; print('numba.np.arrayobj' in sys.modules)")
    assert imported(folder)[1:] == ["0", "True"]
    assert imported(folder)[1:] == ["1", "False"]


def test_an_entry_that_was_loaded_is_linked_into_a_new_one(folder: Path) -> None:
    user = folder / "fourth.py"
    user.write_text("from streams.compiled import entry\nfrom module import value\n")
    assert imported(folder, name="fourth.py") == ["7.0", "0"]
    square = "def square(x: float) -> float:\n    return value(x) * value(x)\nprint(square(3.0))\n"
    user.write_text(user.read_text() + "@entry('float64(float64)')\n" + square)
    assert imported(folder, name="fourth.py") == ["7.0", "1", "49.0"]
    assert imported(folder, name="fourth.py") == ["7.0", "1", "49.0"]


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


def test_the_first_import_compiles_all_side_by_side_and_says_so(tmp_path: Path) -> None:
    package = tmp_path / "streams"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(compiled.__file__, package)
    (package / "compile.py").write_text(
        "COMPILING, PART_VARIABLE = 'compiling', 'A_PART'\ncompile_all = lambda: print('all')\n"
    )

    def said(**environ: str) -> tuple[str, str]:
        command = [sys.executable, "-c", "import streams.compiled"]
        environ = {**os.environ, "PYTHONPATH": str(tmp_path), **environ}
        done = subprocess.run(command, env=environ, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout, done.stderr

    assert said() == ("all\n", "compiling: up to a minute\n")
    assert said(A_PART="1") == ("", ""), "which is one of those that compile"
    (package / "__pycache__" / "one.nbi").touch()
    assert said() == ("", "")


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


def test_a_kernel_is_compiled_once_for_all_constants_that_it_is_given(folder: Path) -> None:
    user = folder / "fifth.py"
    user.write_text(
        "from other import twice\nfrom streams.compiled import entry\n"
        "@entry('int64(int64)')\n"
        "def value(x: int) -> int:\n    return twice(x) + twice(3) + twice(4)\n"
        "print(value(5), len(twice._dispatcher.overloads))\n"
    )
    assert imported(folder, name="fifth.py") == ["24", "1"]


def test_arrays_of_an_entry_are_freed(folder: Path) -> None:
    """Those that it returns, within a tuple too, and those that end within it."""
    user = folder / "sixth.py"
    user.write_text(
        "import numpy as np\nfrom numba.core.runtime import rtsys\n"
        "from streams.compiled import entry, kernel\n"
        "@kernel\n"
        "def rows(n):\n    return n, np.ones((n, 2))[1:], np.ones(n)\n"
        "@entry('Tuple((int64, float64[:, ::1]))(int64)')\n"
        "def ones(n):\n    count, rest, other = rows(n)\n    return count + len(other), rest\n"
        "for _ in range(100):\n    count, rest = ones(3)\n"
        "stats = rtsys.get_allocation_stats()\n"
        "print(count, rest.sum(), stats.mi_alloc, stats.mi_alloc - stats.mi_free)\n"
    )
    assert imported(folder, name="sixth.py", NUMBA_NRT_STATS="1") == ["6", "4.0", "200", "1"]


def test_functions_of_others_are_compiled_as_ever(folder: Path) -> None:
    """By the same process, which has compiled an entry: constants, tuples of several types, linked lists."""
    user = folder / "seventh.py"
    user.write_text(
        "import numpy as np\nfrom numba import deferred_type, int64, literally, njit, optional\n"
        "from numba.experimental import jitclass\nfrom numba.core.runtime import rtsys\n"
        "from streams.compiled import entry\n"
        "@entry('int64(int64)')\n"
        "def value(x):\n    return x + 1\n"
        "@njit\ndef pick(pair, n):\n    return pair[literally(n)]\n"
        "node = deferred_type()\n"
        "@jitclass([('data', int64), ('next', optional(node))])\n"
        "class Node:\n"
        "    def __init__(self, data, next):\n        self.data, self.next = data, next\n"
        "node.define(Node.class_type.instance_type)\n"
        "@njit\ndef chain(n):\n"
        "    head = None\n"
        "    for at in range(n):\n        head = Node(at, head)\n"
        "    return head\n"
        "head, total = chain(5), 0\n"
        "while head is not None:\n    total, head = total + head.data, head.next\n"
        "print(value(4), pick((3, 1.5), 1), total)\n"
    )
    assert imported(folder, name="seventh.py") == ["5", "1.5", "10"]


def test_each_loop_is_compiled_by_one_process() -> None:
    shown = "print(*(name for name in sys.modules if name.startswith('streams.')))"
    loaded = [
        subprocess.run(
            [sys.executable, "-c", f"import sys, {', '.join(modules)}; {shown}"],
            check=True, capture_output=True, text=True,
        ).stdout.split()
        for modules in compilation.PARTS
    ]  # fmt: skip
    files = {file: file.read_text() for file in (ROOT / "streams").rglob("*.py")}
    with_loops = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file, text in files.items()
        if "\n@entry(" in text
    }
    assert with_loops
    assert sorted(name for names in loaded for name in names if name in with_loops) == sorted(with_loops)
