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
from dataclasses import dataclass
from importlib import import_module
from typing import Any

_IMPORTS = (
    "dutycycle.cli.main", "dutycycle.report.build", "dutycycle.traces.replay", "dutycycle.traces.extract",
    "dutycycle.traces.backfill", "dutycycle.traces.republish", "dutycycle.experiments.sweep",
    "dutycycle.compare.page", "dutycycle.compare.comparison", "dutycycle.plot.write",
    "dutycycle.schedule.pictures", "dutycycle.kubectl.run", "sinks.records.query", "sinks.records.usage",
    "streams.service", "sinks.service", "pyarrow.parquet", "sqlalchemy.dialects.sqlite",
    "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "collectors.nvml.collector",
)  # fmt: skip


@dataclass(slots=True)
class _Life:
    """A process, and the client that stands for it."""

    pid: int
    client: socket.socket
    pidfd: int

    def end(self) -> None:
        """It has ended: tell the client, if that is still there."""
        _, status = os.waitpid(self.pid, 0)
        with suppress(OSError):
            self.client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        self.client.close()
        os.close(self.pidfd)


def main() -> None:
    """Serve until the standard input ends; in a process that is made, run the module that is asked for."""
    for one in _IMPORTS:
        import_module(one)
    gc.freeze()  # what is shared with the processes is not touched by their collections
    asked = _Server(sys.argv[1]).serve()
    if asked is not None:
        module, *sys.argv[1:] = asked["arguments"]
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            if not isinstance(ended.code, int | None):
                raise
            _end(ended.code or 0)
        else:
            _end(0)


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


class _Server:
    def __init__(self, name: str) -> None:
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind("\0" + name)
        self._listening.listen(64)
        self._lives: dict[int, _Life] = {}
        """By the file that tells that it has ended, and by that of its client."""
        self._poll = select.poll()

    def serve(self) -> dict[str, Any] | None:
        """In a process that is made, what is asked for; None in the server at its end."""
        for fd in (0, self._listening.fileno()):
            self._poll.register(fd, select.POLLIN)
        os.write(1, b"ready\n")
        while True:
            for fd, _ in self._poll.poll():
                if fd == 0:
                    self._leave()
                    return None
                if fd in self._lives:
                    self._ended(fd)
                elif fd == self._listening.fileno() and (asked := self._made()):
                    return asked

    def _ended(self, fd: int) -> None:
        life = self._lives[fd]
        for one in (life.pidfd, life.client.fileno()):
            self._poll.unregister(one)
            del self._lives[one]
        if fd != life.pidfd:  # the client has gone before its process
            os.kill(life.pid, signal.SIGKILL)
        life.end()

    def _made(self) -> dict[str, Any] | None:
        """Make a process for the next client; in it, what is asked for."""
        client, _ = self._listening.accept()
        size, files, _, _ = socket.recv_fds(client, 8, 3)
        with client.makefile("rb") as said:
            asked: dict[str, Any] = json.loads(said.read(int.from_bytes(size, "big")))
        pid = os.fork()
        if pid == 0:
            _become(asked, files)
            return asked
        for one in files:
            os.close(one)
        with suppress(OSError):
            client.sendall(b"%d\n" % pid)
        life = _Life(pid, client, os.pidfd_open(pid))
        for one in (life.pidfd, client.fileno()):
            self._poll.register(one, select.POLLIN)
            self._lives[one] = life
        return None

    def _leave(self) -> None:
        for life in self._lives.values():
            os.kill(life.pid, signal.SIGKILL)


def _become(asked: dict[str, Any], files: list[int]) -> None:
    """Have the client's files, folder and environment, and nothing of the server's."""
    for number, one in enumerate(files):
        os.dup2(one, number)
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
