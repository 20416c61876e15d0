"""A server process of the tests: started, waited for, stopped, never left behind."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LOG_TAIL_CHARS = 4000

# To Linux, the parent that a child dies with is the thread that started it. A test may start a server from a
# short-lived thread (asyncio.to_thread), so every server is started from this one, which ends with pytest.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server spawner")


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged user for servers that refuse to run as root."""

    uid: int
    gid: int

    def arguments(self) -> dict[str, Any]:
        """What makes ``subprocess`` switch to this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


class ServerProcess:
    """One run of a server program. Its output is appended to ``log``."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        account: Account | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self._log = log
        self._stop_signal = stop_signal
        arguments = {
            "env": {**os.environ, **(environment or {})},
            "cwd": log.parent,
            "start_new_session": True,  # Ctrl-C reaches pytest, which then stops the server in order
            **(account.arguments() if account else {}),
        }
        self._process = _spawner.submit(_spawn, [*_dies_with_parent(), *command], log, arguments).result()

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, ready: Callable[[], bool], deadline_s: float) -> None:
        """Return as soon as ``ready()``; raise with the end of the log if it exits or takes too long."""
        end = time.monotonic() + deadline_s
        while not ready():
            if not self.running():
                raise RuntimeError(f"server exited with {self._process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > end:
                raise TimeoutError(f"server not ready after {deadline_s} s:\n{self.log_tail()}")
            time.sleep(0.05)

    def stop(self, deadline_s: float = 30) -> None:
        """Ask the server to end, and wait; end it by force past the deadline."""
        if self.running():
            self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL: the server has no chance to put anything in order."""
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]


def _spawn(command: list[str | Path], log: Path, arguments: dict[str, Any]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, **arguments
        )


def _dies_with_parent() -> list[str]:
    """A prefix by which Linux ends the server when pytest itself is killed. util-linux brings setpriv."""
    return ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
