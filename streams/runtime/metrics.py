"""Counts the metrics of the streams, as a worker serves them."""

import time
from collections.abc import Sequence

from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import (
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
from streams.runtime.stage_task import Checkpoint, StageTask

STUCK_S = 60.0
"""A commit is due every few seconds, also when there is nothing to commit."""


class StreamsMetrics:
    """Counts what one worker does. What tasks count is read when somebody scrapes: a lock would double a
    record's cost."""

    def __init__(self, telemetry: Telemetry, tasks: Sequence[StageTask]) -> None:
        metrics = telemetry.metrics
        self._commits, self._commit_s = metrics.counter(COMMITS), metrics.counter(COMMIT_SECONDS)
        names = [task.stage.name for task in tasks]
        self._snapshots = {name: metrics.counter(SNAPSHOTS, stage=name) for name in names}
        self._snapshot_bytes = {name: metrics.counter(SNAPSHOT_BYTES, stage=name) for name in names}
        self._tasks = tasks
        self.now_s = time.monotonic
        self._committed_s = self.now_s()
        self.state_bytes = 0
        """What was written of states since the start."""
        metrics.read(SNAPSHOT_AGE, self.age_s)
        metrics.read(WATERMARK_DELAY, self.delays_s)
        metrics.read(LIVE_KEYS, lambda: {(task.stage.name,): float(task.resident) for task in tasks})
        metrics.read(RECORDS_TAKEN, lambda: {(task.stage.source,): float(task.processed) for task in tasks})
        metrics.read(RECORDS_USED, lambda: {(task.stage.source,): float(task.used) for task in tasks})

    def stored(self, task: StageTask, checkpoint: Checkpoint) -> None:
        """Count the states of a checkpoint that have arrived on the broker since it was last asked."""
        records = [
            piece for write in checkpoint.writes for piece in (*write.packed.pieces, write.packed.head)
        ]
        size = sum(len(key) + len(value) for key, value in records)
        self._snapshots[task.stage.name].inc(len(checkpoint.writes))
        self._snapshot_bytes[task.stage.name].inc(size)
        self.state_bytes += size

    def committed(self, took_s: float) -> None:
        """Count a commit that has succeeded, with all of its checkpoints."""
        self._committed_s = self.now_s()
        self._commits.inc()
        self._commit_s.inc(took_s)

    def assigned(self) -> None:
        """Begin the time of commits anew."""
        self._committed_s = self.now_s()

    def age_s(self) -> float:
        """Return the seconds since the last commit, or since the assignment."""
        return self.now_s() - self._committed_s

    def overdue(self, most_s: float) -> str | None:
        """Return a probe: whether nothing has been committed for too long."""
        age_s = self.age_s()
        return f"nothing could be committed for {age_s:.0f} s" if age_s > most_s else None

    def delays_s(self) -> dict[tuple[str, ...], float]:
        """Tell how old the newest record of each source is."""
        now = time.time()
        newest = {task.stage.source: task.newest_ms for task in self._tasks}
        return {(source,): now - ms / 1000 for source, ms in newest.items() if ms is not None}
