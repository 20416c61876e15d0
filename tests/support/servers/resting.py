"""Servers that no test has used for a while are stopped: an idle Kafka takes a fortieth of a core."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

IDLE_S = 60.0


class Server(Protocol):
    """What lasts as long as a worker's tests. Its data outlive ``rest``."""

    def ensure_running(self) -> None: ...

    def rest(self) -> None: ...

    def discard(self) -> None: ...


@dataclass(slots=True)
class _Use:
    server: Server
    last_s: float


class Servers:
    """Those of this process, by the fixture that made them. ``clock`` is in seconds, and only goes on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    def add(self, fixture: str, server: Server) -> None:
        """It runs, and somebody is about to use it."""
        self._uses[fixture] = _Use(server, self._clock())

    def remove(self, fixture: str) -> None:
        """It is gone."""
        del self._uses[fixture]

    def used(self, fixture: str) -> None:
        """Somebody is about to use it, who has seen to it that it runs. It may be somebody else's."""
        if use := self._uses.get(fixture):
            use.last_s = self._clock()

    def before(self, wanted: Collection[str]) -> None:
        """A test begins that uses those ``wanted``: they run, and others may rest."""
        for fixture, use in self._uses.items():
            if fixture in wanted:
                use.server.ensure_running()
                self.used(fixture)
            elif self._clock() - use.last_s > IDLE_S:
                use.server.rest()
