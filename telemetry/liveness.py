"""A thread that sees what the event loop cannot: that the worker is alive, silent and stuck.

Faust and its Kafka client stop for good, without a word, after some errors: the group coordinator waits for
somebody to collect its exception, or recovery gives up on a time limit. A worker in that state must end, so
that whoever supervises it starts another. A worker that stood still for long must end, too: others own its
partitions by now, and what it would write is old.
"""

import logging
import os
import threading
import time
from collections.abc import Callable

_POLL_S = 0.5
_ORDERLY_S = 5.0
_LOG = logging.getLogger("dutycycle.liveness")

Probe = Callable[[], str | None]
"""Says what is wrong, or None. Called from a thread."""


class Pulse:
    """Beaten by a thread, whatever the event loop does: silent only while the whole process stands still.

    That is what SIGSTOP, a paused container or a suspended machine look like afterwards.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._last: float | None = None
        self._stalled = False

    def beat(self) -> None:
        """The process runs."""
        self.stalled()
        self._last = self._clock()

    def stalled(self) -> bool:
        """Whether it ever stood still for over ``limit_s``; the beat that ends a standstill hides nothing."""
        if self._last is not None and self._clock() - self._last > self._limit_s:
            self._stalled = True
        return self._stalled


class Patience:
    """A probe of something that has to change while it is not well; ``observe`` answers None when it is."""

    def __init__(
        self, observe: Callable[[], object], limit_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._observe = observe
        self._limit_s = limit_s
        self._clock = clock
        self._seen: object = None
        self._since = clock()

    def __call__(self) -> str | None:
        now, seen = self._clock(), self._observe()
        if seen is None or seen != self._seen:
            self._seen, self._since = seen, now
        if now - self._since <= self._limit_s:
            return None
        return f"no progress in {self._limit_s:g} s: {seen}"


class Liveness(threading.Thread):
    """Asks each probe twice a second; two bad answers in a row call ``sick`` and, later, end the process.

    ``sick`` gets the reason and has 5 s to end things in order. Both happen once.
    """

    def __init__(
        self,
        probes: list[Probe],
        sick: Callable[[str], None],
        *,
        pulse: Pulse,
        leave: Callable[[int], None] = os._exit,
        poll_s: float = _POLL_S,
        orderly_s: float = _ORDERLY_S,
    ) -> None:
        super().__init__(name="liveness", daemon=True)
        self._probes = probes
        self._sick = sick
        self._pulse = pulse
        self._leave = leave
        self._poll_s = poll_s
        self._orderly_s = orderly_s
        self._over = threading.Event()

    def run(self) -> None:
        """Poll until ``stop``, or until the process has to end."""
        before = False
        while not self._over.wait(self._poll_s):
            self._pulse.beat()
            reason = self._reason()
            if reason is not None and before:
                self._end(reason)
                return
            before = reason is not None

    def stop(self) -> None:
        """No more polling; what is left of an orderly end is called off."""
        self._over.set()

    def _reason(self) -> str | None:
        return next((reason for probe in self._probes if (reason := probe()) is not None), None)

    def _end(self, reason: str) -> None:
        self._sick(reason)
        if not self._over.wait(self._orderly_s):
            _LOG.error("%s; it does not end in order: leaving", reason)
            self._leave(1)
