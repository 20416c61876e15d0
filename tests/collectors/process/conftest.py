"""Real processes with real libraries under the names of others."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.data.torch_site import torch_site

Started = subprocess.Popen[str]
Start = Callable[..., Started]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with a PyTorch and its CUDA."""
    return torch_site(tmp_path)


LOADS = """
import ctypes, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path)
"""
WAITS = """
print("ready", flush=True); sys.stdin.read()
"""
"""On one line: it can stand behind a condition."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts Python with a script, and waits until that says that it is ready."""
    with ExitStack() as stack:

        def run(script: str, *arguments: str | Path, name: str = "train.py", **environ: str) -> Started:
            file = tmp_path / name
            file.write_text(script)
            child = subprocess.Popen(
                [sys.executable, file, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=environ, cwd=tmp_path,
            )  # fmt: skip
            stack.enter_context(child)
            stack.callback(child.kill)
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            return child

        yield run
