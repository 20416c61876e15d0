"""The command for tests that are not about how it starts: in a process that has its imports already.

The imports of ``replay`` or ``report`` take a second or two, and what such a test asks for often far less.
One server for each pytest process imports it all once, and makes a process for each command by a fork. A
small program stands for that process: it has the same input, output and exit status, and passes on signals;
where it is killed, so is the process.

On two quiet cores 107 tests with 110 commands take 27 s with it and 48 s without, 40 s and 81 s of CPU.
``make test`` starts five and would not miss it. 293 of the slow tests start 270: ``make test-all``, of 14
minutes, would take at least 6 % longer.

All commands have the hash seed of the server: who compares the bytes of two starts them anew. So does who
needs what is read at the start of a process, as LD_LIBRARY_PATH is, or is about how an interpreter takes down
its modules at its end.
"""

import os
import secrets
import subprocess
import sys
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_CLIENT = Path(__file__).with_name("warm_client.py")


def command(module: str = "dutycycle") -> list[str]:
    """What to write in place of ``sys.executable -m module``."""
    return [sys.executable, "-IS", str(_CLIENT), _server(), module]


def install(folder: Path, name: str = "dutycycle", module: str = "dutycycle") -> None:
    """A program of this name, to be found by PATH."""
    (folder / name).write_text('#!/bin/sh\nexec {} "$@"\n'.format(" ".join(command(module))))
    (folder / name).chmod(0o755)


@cache
def _server() -> str:
    """The abstract name of its socket. It ends when its standard input does: with this process."""
    name = f"dutycycle-tests-{os.getpid()}-{secrets.token_hex(8)}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.warm_server", name],
        cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    _SERVERS.append(process)
    return name


_SERVERS: list[subprocess.Popen[bytes]] = []
