"""``python -m tests.support.processes.warm_server SOCKET``: imports what commands import, and forks.

A process that it makes is an interpreter as any other from its first line on: it has the client's arguments,
folder, environment and files, and ends as interpreters end (``_end``). The server itself has no thread but
the first.
"""

import atexit
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

_IMPORTS = (
    "dutycycle.cli.main", "dutycycle.report.build", "dutycycle.traces.replay", "dutycycle.traces.extract",
    "dutycycle.traces.backfill", "dutycycle.traces.republish", "dutycycle.experiments.sweep",
    "dutycycle.compare.page", "dutycycle.compare.comparison", "dutycycle.plot.charts",
    "dutycycle.schedule.pictures", "dutycycle.kubectl.run", "sinks.records.query", "sinks.records.usage",
    "streams.service", "sinks.service", "pyarrow.parquet", "sqlalchemy.dialects.sqlite",
    "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "collectors.nvml.collector",
)  # fmt: skip


def main() -> None:
    """Serve until the standard input ends; in a process that is made, run the module that is asked for."""
    for name in _IMPORTS:
        import_module(name)
    gc.freeze()  # what is shared with the processes is not touched by their collections
    arguments = _serve(sys.argv[1])
    if arguments is not None:
        module, *sys.argv[1:] = arguments
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            if not isinstance(ended.code, int | None):
                raise
            _end(ended.code or 0)
        else:
            _end(0)


def _serve(name: str) -> list[str] | None:
    """Give each client a process; in that process, what it is to run. None in the server at its end."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind("\0" + name)
    listening.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch
    os.write(1, b"ready\n")
    while 0 not in select.select([0, listening.fileno()], [], [])[0]:
        client, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _watch(client)
        client.close()
    return None


def _watch(client: socket.socket) -> list[str]:
    """Make the client's process, and tell it that process's pid and end; in the process, what it is to run.

    It is killed when the client goes before it, or the server ends.
    """
    size, files, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as request:
        asked: dict[str, Any] = json.loads(request.read(int.from_bytes(size, "big")))
    pid = os.fork()
    if pid == 0:
        _become(asked, files)
        arguments: list[str] = asked["arguments"]
        return arguments
    for file in files:
        os.close(file)
    with suppress(OSError):
        client.sendall(b"%d\n" % pid)
    ended = os.pidfd_open(pid)
    if ended not in select.select([0, client.fileno(), ended], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _end(status: int) -> None:
    """End as an interpreter does, up to where it takes down its modules.

    That touches all the memory that is shared with the server, for .1 s of CPU. What its own garbage says
    when it is collected is said here, too; what cannot be flushed is left to the interpreter to say.
    """
    threading._shutdown()  # type: ignore[attr-defined] # threads, and what ends with them
    atexit._run_exitfuncs()
    gc.collect()
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
    sys.exit(status)


def _become(asked: dict[str, Any], files: list[int]) -> None:
    """Have the client's files, folder and environment, and nothing of the server's."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False)), line_buffering=os.isatty(1)
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)), errors="backslashreplace", line_buffering=True
    )
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()


if __name__ == "__main__":
    main()
