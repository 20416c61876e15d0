"""Sees from a thread of its own that a process stalls, says so, and ends it.

Three things can stall, and none of them says so itself:

- the whole process: SIGSTOP, a paused container, a suspended machine. Afterwards the thread's own beat is
  late, and others may own its partitions: what it would write is old;
- the event loop, in a call that does not return: the beat of a task in it is late;
- the work, while both run: Faust and its Kafka client stop for good after some errors, without a word. Probes
  look for that.

Waiting is no stall. A stall of ``said_s`` is said on ``/healthz`` or ``/readyz``; after ``ended_s`` the
process ends, so that its supervisor starts it anew: compose and systemd do not look at pages.
"""

import asyncio
import logging
import math
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from dutycycle.telemetry.status import Probe

_BEAT_S = 1.0
_LOOKS = 12
"""In the longest stall that a process may have: the beat is as old as a look when the process is well."""
_LOG = logging.getLogger("dutycycle.watchdog")


@dataclass(frozen=True, slots=True, kw_only=True)
class StallLimits:
    """Says how long something may stall, seconds. A check is made every ``poll_s``,
    and twelve times in the ``process_limit_s`` of a detector.

    No single step of ours takes ``said_s``, not even a commit of ten thousand keys on a slow machine.
    ``orderly_s`` is how long an end may take before the process is left where it stands.
    """

    said_s: float = 30.0
    ended_s: float = 180.0
    orderly_s: float = 5.0
    poll_s: float = 2.0


class StallTimer:
    """Measures how long an observation has been the same. Observed in the event loop, read from any
    thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self.seen: object = None

    def observe(self, seen: object) -> None:
        """Take what is seen now; None while there is nothing to wait for."""
        if seen is None or seen != self.seen:
            self.seen, self._since = seen, self._clock()

    @property
    def stalled_s(self) -> float:
        """Return the seconds without a change; 0 while there is nothing to wait for."""
        return 0.0 if self.seen is None else self._clock() - self._since


@dataclass(frozen=True, slots=True)
class _Watch:
    probes: tuple[Probe, ...]
    end: Callable[[str], None]
    on_beat: Callable[[], None]
    over: threading.Event = field(default_factory=threading.Event)


class StallDetector:
    """Watches one process. ``leave`` ends it with an exit status."""

    def __init__(
        self,
        limits: StallLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        self.limits = limits or StallLimits()
        self._process_limit_s = math.inf
        self._clock = clock
        self._leave = leave
        self._process_at: float | None = None
        self._loop_at: float | None = None
        self._process_stalled = False
        self._watches: list[_Watch] = []
        self._look = threading.Event()
        """Has the thread look before its time."""

    @property
    def process_limit_s(self) -> float:
        """Return after how long a stall of the whole process its work is somebody else's."""
        return self._process_limit_s

    @process_limit_s.setter
    def process_limit_s(self, most_s: float) -> None:
        # The beat of before may be as old as ``poll_s``: it does not count, and the thread looks at once.
        self._process_limit_s, self._process_at = most_s, None
        self._look.set()

    def process_stalled(self) -> bool:
        """Tell whether the whole process ever stalled for over ``process_limit_s``.

        Whoever asks first after a stall learns of it, before the thread does.
        """
        if self._process_at is not None and self._clock() - self._process_at > self.process_limit_s:
            self._process_stalled = True
        return self._process_stalled

    def loop_stalled(self) -> str | None:
        """Return a probe: for how long the event loop has been blocked, if that has to be said."""
        return self._loop_blocked(self.limits.said_s)

    def beat(self) -> None:
        """Note that the process runs. A beat after a stall does not hide it."""
        self.process_stalled()
        self._process_at = self._clock()

    @asynccontextmanager
    async def watching(
        self,
        *probes: Probe,
        end: Callable[[str], None] | None = None,
        on_beat: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[None]:
        """Watch the running event loop until the block ends.

        Two bad answers in a row, of the loop or of one of ``probes``, call ``end`` with the reason, from the
        thread and once; if the block has not ended ``orderly_s`` later, the process is left with status 1.
        ``on_beat`` is called every second in the event loop. An inner block takes the place of the outer one.
        """
        watch = _Watch(
            (self._loop_dead, *probes), end or partial(_LOG.error, "%s: this process ends"), on_beat
        )
        self._watches.append(watch)
        try:
            if len(self._watches) > 1:
                yield
                return
            self._loop_at = self._clock()
            thread = threading.Thread(target=self._run, args=(watch.over,), name="watchdog", daemon=True)
            thread.start()
            beating = asyncio.create_task(self._beat_in_loop())
            try:
                yield
            finally:
                beating.cancel()
                watch.over.set()
                self._look.set()
                thread.join(_BEAT_S)
                self._process_at = self._loop_at = None
        finally:
            watch.over.set()
            self._watches.remove(watch)

    async def _beat_in_loop(self) -> None:
        while True:
            self._loop_at = self._clock()
            try:
                self._watches[-1].on_beat()
            except Exception:  # noqa: BLE001 - it looks into a client's insides, and the beat must go on
                _LOG.debug("on a beat", exc_info=True)
            await asyncio.sleep(_BEAT_S)

    def _run(self, over: threading.Event) -> None:
        was_bad = False
        while not over.is_set():
            self.beat()
            for watch in self._watches[-1:]:  # none, once the last block has ended
                reason = None
                for probe in watch.probes:
                    try:
                        reason = probe()
                    except Exception:  # noqa: BLE001 - other threads change what it looks into; asked again
                        _LOG.debug("asking a probe", exc_info=True)
                    if reason is not None:
                        break
                if reason is not None and was_bad:
                    watch.end(reason)
                    if not watch.over.wait(self.limits.orderly_s):
                        _LOG.error("%s; it does not end in order: leaving", reason)
                        self._leave(1)
                        watch.over.wait()
                was_bad = reason is not None
            self._look.wait(min(self.limits.poll_s, self.process_limit_s / _LOOKS))
            self._look.clear()

    def _loop_dead(self) -> str | None:
        blocked = self._loop_blocked(self.limits.ended_s)
        return None if blocked is None else f"the event loop is {blocked}"

    def _loop_blocked(self, most_s: float) -> str | None:
        blocked_s = 0.0 if self._loop_at is None else self._clock() - self._loop_at
        return f"blocked for {blocked_s:.0f} s" if blocked_s > most_s else None
