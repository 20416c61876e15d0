"""The figures of the streams, as a worker serves them."""

import time
from collections.abc import Callable, Iterable, Sequence

from streams.runtime.stage_task import Cut, Shell
from telemetry.events import Telemetry
from telemetry.metrics import (
    COMMIT_SECONDS,
    COMMITS,
    LIVE_KEYS,
    RECORDS_TAKEN,
    RECORDS_USED,
    SNAPSHOT_AGE,
    SNAPSHOT_BYTES,
    SNAPSHOTS,
    WATERMARK_DELAY,
)

STUCK_S = 60.0
"""A commit is due every few seconds, also when there is nothing to commit."""


class Figures:
    """Of one worker; ``Flow`` says what it has done."""

    def __init__(
        self,
        telemetry: Telemetry,
        shells: Sequence[Shell],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._telemetry = telemetry
        self._meter = telemetry.meter
        self._shells = {shell.stage.source: shell for shell in shells}
        self._clock = clock
        self._wall = wall
        # Counted in plain numbers, read when somebody scrapes: a lock would double the shell's cost.
        self._taken = dict.fromkeys(self._shells, 0)
        self._newest_ms: dict[str, int] = {}
        self._stored_s = clock()
        self.state_bytes = 0
        """What was written of states since the start."""
        self._meter.read(SNAPSHOT_AGE, self.age_s)
        self._meter.read(WATERMARK_DELAY, self.delays_s)
        self._meter.read(LIVE_KEYS, self.live)
        self._meter.read(RECORDS_TAKEN, lambda: {(topic,): float(n) for topic, n in self._taken.items()})
        self._meter.read(RECORDS_USED, lambda: {(one.stage.source,): float(one.used) for one in shells})

    def now_s(self) -> float:
        """When it is, for ``stored``."""
        return self._clock()

    def took(self, source: str, ts_ms: int) -> None:
        """A record was taken, whatever became of it."""
        self._taken[source] += 1
        if ts_ms > self._newest_ms.get(source, -1):
            self._newest_ms[source] = ts_ms

    def stored(self, cuts: Iterable[tuple[Shell, Cut]], began_s: float) -> None:
        """A commit that began at ``began_s`` has succeeded."""
        self._stored_s = self._clock()
        self._meter.add(COMMITS)
        self._meter.add(COMMIT_SECONDS, self._stored_s - began_s)
        for shell, cut in cuts:
            stored = [one for save in cut.saves for one in (*save.packed.pieces, save.packed.head)]
            self._meter.add(SNAPSHOTS, len(cut.saves), stage=shell.stage.name)
            size = sum(len(key) + len(value) for key, value in stored)
            self._meter.add(SNAPSHOT_BYTES, size, stage=shell.stage.name)
            self.state_bytes += size

    def assigned(self) -> None:
        """Everything begins anew."""
        self._stored_s = self._clock()
        self._newest_ms.clear()

    def age_s(self) -> float:
        """Time since the last commit, or since the assignment."""
        return self._clock() - self._stored_s

    def overdue(self, most_s: float) -> str | None:
        """A probe: whether nothing has been committed for too long."""
        age_s = self.age_s()
        return f"nothing could be committed for {age_s:.0f} s" if age_s > most_s else None

    def delays_s(self) -> dict[tuple[str, ...], float]:
        """How old the newest record of each source is."""
        now = self._wall()
        return {(source,): now - ms / 1000 for source, ms in list(self._newest_ms.items())}

    def live(self) -> dict[tuple[str, ...], float]:
        """Keys whose operator is in memory, by stage."""
        return {(shell.stage.name,): float(shell.live) for shell in self._shells.values()}

    def taken(self, source: str, partition: int) -> int | None:
        """The offset that is to be taken next; None if nothing was taken since the assignment."""
        shell = self._shells.get(source)
        return None if shell is None else shell.taken(partition)
