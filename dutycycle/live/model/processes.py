"""Reads what this machine knows of the processes on its GPUs, as ``ps`` would say it. Only of its own
node."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import psutil

from collectors.attribution.processes import printable
from dutycycle.contract.settings.groups import Settings

_T = TypeVar("_T")
_AGAIN_S = 0.9
"""The screen is drawn once a second, and asks several times for it."""
_FORGOTTEN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """Describes one process. ``started_s``: Unix seconds; ``cpu_pct``: of one core since the look before,
    None at the first; ``command``: its whole command line; ``parent``: name and id. None is unknown."""

    pid: int
    user: str | None = None
    command: str | None = None
    cpu_pct: float | None = None
    mem_bytes: float | None = None
    started_s: float | None = None
    threads: int | None = None
    parent: str | None = None


@dataclass(slots=True)
class LocalProcesses:
    """Asks the machine ``node``, which has to be the one that we run on, with its process ids.

    ``may_signal``: whether ``send`` may be asked for. ``clock`` is monotonic, in seconds.
    """

    node: str
    may_signal: bool = False
    clock: Callable[[], float] = time.monotonic
    _handles: dict[int, psutil.Process] = field(default_factory=dict)
    """Kept, as CPU time is told since the look before, and as a process id may be given to another."""
    _facts: dict[int, tuple[float, ProcessFacts | None]] = field(default_factory=dict)
    _is_frozen: bool = False

    def facts(self, pid: int) -> ProcessFacts | None:
        """Look at a process; what was seen a moment ago holds. None for one that has ended."""
        known = self._facts.get(pid)
        now_s = self.clock()
        if known is not None and (self._is_frozen or now_s - known[0] < _AGAIN_S):
            return known[1]
        if self._is_frozen:
            return None
        facts = None
        handle = self._handles.get(pid)
        try:
            is_new = handle is None or not handle.is_running()
            if handle is None or is_new:
                handle = self._handles[pid] = psutil.Process(pid)
            with handle.oneshot():
                cpu_pct = _allowed(handle.cpu_percent)
                parent = _allowed(handle.parent)
                memory = _allowed(handle.memory_info)
                program, *arguments = _allowed(handle.cmdline) or ("",)
                command = printable(" ".join((program.rpartition("/")[2], *arguments)))
                facts = ProcessFacts(
                    pid=pid, user=_allowed(handle.username), command=command,
                    cpu_pct=None if is_new else cpu_pct, mem_bytes=None if memory is None else memory.rss,
                    started_s=handle.create_time(), threads=_allowed(handle.num_threads),
                    parent=None if parent is None else f"{_allowed(parent.name) or 'process'} {parent.pid}",
                )  # fmt: skip
        except psutil.NoSuchProcess:
            self._handles.pop(pid, None)
        self._facts[pid] = now_s, facts
        for old in [old for old, (at_s, _) in self._facts.items() if now_s - at_s > _FORGOTTEN_S]:
            del self._facts[old]
            self._handles.pop(old, None)
        return facts

    def send(self, pid: int, number: int) -> str | None:
        """Send a signal to the process that was looked at; why that was refused, None where it was sent."""
        if not self.may_signal:
            return "signals are switched off: DUTYCYCLE_SIGNALS=off"
        handle = self._handles.get(pid)
        try:
            if handle is None:
                return f"process {pid} has ended"
            handle.send_signal(number)  # not to another one that has its id by now: psutil compares the start
        except psutil.NoSuchProcess:
            return f"process {pid} has ended"
        except psutil.AccessDenied:
            return f"process {pid} belongs to another user: not permitted"
        return None

    def frozen(self) -> "LocalProcesses":
        """Give what is known now, whatever comes later."""
        return LocalProcesses(
            self.node, self.may_signal, self.clock, dict(self._handles), dict(self._facts), _is_frozen=True
        )


def local_processes(settings: Settings) -> LocalProcesses | None:
    """Return what can be asked of this machine; None where process ids are those of another one, or
    simulated."""
    if settings.demo == "on" or settings.host_root != "/":
        return None
    return LocalProcesses(settings.node, may_signal=settings.signals == "on")


def _allowed(ask: Callable[[], _T]) -> _T | None:
    """Return what we may know; None where the system does not let us."""
    try:
        return ask()
    except psutil.AccessDenied:
        return None
