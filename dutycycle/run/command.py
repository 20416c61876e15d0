"""Runs a command as a child: in our terminal, with our signals, and with its own exit status.

The child stays in our process group. So what is typed (Ctrl-C, Ctrl-Z) reaches it from the terminal, as it
would without us. A signal that somebody sends to us alone is passed on.
"""

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PASSED_ON = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
)
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells have it: POSIX, Shell Command Language, 2.8.2
_OF_A_SIGNAL = 128
_FROM_KERNEL = 0x80
"""``SI_KERNEL`` as the code of a signal: the terminal sent it, and to the child as well (sigaction(2))."""
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h: Python has no call for it


class CannotStartError(Exception):
    """Says that the command cannot be run; ``status`` is what a shell would give."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Ended:
    """Says how the command ended. ``status``: its own, or 128 and the signal that ended it, as in a shell.
    ``cpu_s``, ``mem_bytes``: CPU time of all its processes, and the memory of the largest."""

    status: int
    signal: signal.Signals | None
    cpu_s: float
    mem_bytes: int
    read_bytes: int
    written_bytes: int


class Command:
    """Holds a running command. It is made in the main thread, before any other thread: a new thread inherits
    the mask."""

    def __init__(self, arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        """Start it; ``variables`` come to those of our environment. Raises ``CannotStartError``."""
        # What it leaves behind becomes our child, not init's: its processes are still known, and counted.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - to run it is what we were asked for
                list(arguments),
                env={**os.environ, **(variables or {})},
                close_fds=False,  # what is open and inheritable is meant for it
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
            )
        except FileNotFoundError as error:
            raise CannotStartError(f"{arguments[0]}: command not found", NOT_FOUND) from error
        except OSError as error:
            raise CannotStartError(f"{arguments[0]}: {error.strerror}", NOT_EXECUTABLE) from error
        self.pid = self._process.pid
        self._over = False

        def pass_on() -> None:
            while True:
                received = signal.sigwaitinfo(PASSED_ON)
                if received.si_code != _FROM_KERNEL and not self._over:
                    os.kill(self.pid, received.si_signo)

        threading.Thread(target=pass_on, name="signals", daemon=True).start()

    def wait(self) -> Ended:
        """Wait until the command itself has ended. What it left running goes on."""
        cpu_s, mem_bytes, read, written = 0.0, 0, 0, 0
        while True:
            # Not reaped before ``_over``: until then its number cannot be another process's.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if ended is None:
                continue
            self._over = self._over or ended.si_pid == self.pid
            pid, status, used = os.wait4(ended.si_pid, 0)
            cpu_s += used.ru_utime + used.ru_stime
            mem_bytes = max(mem_bytes, used.ru_maxrss * 1024)
            read, written = read + used.ru_inblock * 512, written + used.ru_oublock * 512
            if pid == self.pid:
                break
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code
        by = signal.Signals(-code) if code < 0 else None
        return Ended(_OF_A_SIGNAL - code if code < 0 else code, by, cpu_s, mem_bytes, read, written)
