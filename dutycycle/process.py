"""Handles processes: signals that mean "stop", from the first moment on, and children that end with their
parent.

Imports next to nothing: what follows the first lines of a process takes a second or two to import.
"""

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

SERVICES = frozenset(
    {"up", "top", "collect", "stream", "sink", "serve", "adapter", "extender", "webhook", "cull"}
)
"""The commands that run until SIGTERM or SIGINT, which is success."""
PARENT_VARIABLE = "DUTYCYCLE_UP_PID"
"""Set for the children of ``dutycycle up``: its process id."""
RESTARTS_VARIABLE = "DUTYCYCLE_UP_RESTARTS"
"""Set for the children of ``dutycycle up``: how often each was started again."""
NOT_BEGUN = 128 + signal.SIGTERM
"""How a child of ``dutycycle up`` ends that was asked to before its work began."""
_PR_SET_PDEATHSIG = 1  # linux/prctl.h: Python has no call for it


def command_name(arguments: Iterable[str]) -> str:
    """Return the sub-command that is asked for: the first word that is no flag; empty for none."""
    return next((argument for argument in arguments if not argument.startswith("-")), "")


class _Signals:
    """Decides what SIGTERM and SIGINT do in a process of ours, from its first line to its last.

    One handler stays for all that time, and what it does changes. The handlers of an event loop are removed
    when it is closed: a signal that came then, or before the loop ran, would end the process as a failure.
    """

    def __init__(self) -> None:
        self.action: Callable[[], object] | None = None
        """None: this process did not begin with ``end_on_signals``, and its signals are not ours."""

    def handle(self, _number: int, _frame: object) -> None:
        """Do what is to be done now."""
        if self.action is not None:
            self.action()

    def install(self, numbers: Iterable[int]) -> None:
        """Handle these signals, until Python itself ends: from then on they are ignored."""
        for number in numbers:
            signal.signal(number, self.handle)
            atexit.register(signal.signal, number, signal.SIG_IGN)  # runs last, as it was the first


_BOTH = (signal.SIGTERM, signal.SIGINT)
_HEARD_S = 0.5
_signals = _Signals()


def end_on_signals(arguments: Iterable[str]) -> None:
    """Handle signals from now on: call this in the first line of a process.

    Until there is anything to end in good order, SIGTERM and SIGINT end a service at once, as a success (a
    child of ``dutycycle up`` with ``NOT_BEGUN``), and SIGINT ends another command with one line and status 1.
    Without an exception: raised inside of an import it would be ignored at times, and the process go on.
    """
    if command_name(arguments) in SERVICES:
        _signals.action = lambda: os._exit(NOT_BEGUN if PARENT_VARIABLE in os.environ else 0)
        _signals.install(_BOTH)
    else:
        _signals.action = _leave_interrupted
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            _signals.install([signal.SIGINT])


def interrupt_on_signals(arguments: Iterable[str]) -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt`` from now on in a command that is no service: it cleans up."""
    if _signals.action is not None and command_name(arguments) not in SERVICES:
        _signals.action = _raise_interrupt


def stop_on_signals() -> "asyncio.Event":
    """Return an event that SIGTERM and SIGINT set, once each is a wish to end in good order.

    From then on they do nothing else, also after the event loop was closed: whatever else was asked for, the
    process already ends.
    """
    import asyncio

    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def set_stop() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(stop.set)

    if _signals.action is not None:
        # A signal may come just before the loop waits for events: then only what it can read wakes it.
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        loop.add_reader(reader, os.read, reader, 512)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        _signals.action = set_stop
        # A shell lets what it starts in the background ignore SIGINT, which stays so.
        _signals.install(number for number in _BOTH if signal.getsignal(number) is not signal.SIG_IGN)
    return stop


def print_remark(line: object) -> None:
    """Print a line for people on stderr, at once: beside what a command, or what it runs, itself writes."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _leave_interrupted() -> NoReturn:
    os.write(2, b"dutycycle: interrupted\n")
    os._exit(1)


def _raise_interrupt() -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def temporary_folder() -> "Iterator[Path]":
    """Make a folder that is deleted at the end, also by SIGTERM: meanwhile that ends the process as an
    exception would."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    alarm_before: object = None
    is_asked = False

    def leave(*_: object) -> None:
        nonlocal alarm_before, is_asked
        if not is_asked:
            # Raised inside of a ``__del__`` or an import it is ignored at times: once more until heard.
            is_asked, alarm_before = True, signal.signal(signal.SIGALRM, leave)
        signal.setitimer(signal.ITIMER_REAL, _HEARD_S)
        if not isinstance(sys.exception(), SystemExit):
            sys.exit(128 + signal.SIGTERM)

    term_before = signal.signal(signal.SIGTERM, leave)
    try:
        with TemporaryDirectory(prefix="dutycycle-") as folder:
            yield Path(folder)
        if is_asked:
            sys.exit(128 + signal.SIGTERM)
    finally:
        if is_asked:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm_before)  # type: ignore[arg-type]
        signal.signal(signal.SIGTERM, term_before)


def die_with_parent(environ: Mapping[str, str]) -> None:
    """Ask the kernel for SIGTERM when ``dutycycle up`` ends, however it ends; Linux only."""
    if PARENT_VARIABLE not in environ:
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if str(os.getppid()) != environ[PARENT_VARIABLE]:  # it ended before the kernel knew
        raise SystemExit(0)


async def stopped_within(stop: "asyncio.Event", seconds: float | None) -> bool:
    """Wait for ``stop``, ``seconds`` at most; whether it came."""
    import asyncio

    # No ``asyncio.wait_for``: before Python 3.12 it loses a cancellation that comes together with the event.
    try:
        async with asyncio.timeout(seconds):
            return await stop.wait()
    except TimeoutError:
        return False
