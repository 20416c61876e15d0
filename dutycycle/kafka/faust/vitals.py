"""Tells the state of a Faust app for health pages: read from any thread, without a request to the broker.

A worker is ready if it reads: it is in the group, its partitions are assigned, its tables are recovered, and
the broker has answered lately. A worker without partitions, because there are more workers than partitions,
is on standby and ready. A rebalance, or a pause in reading, makes a worker unready only when it lasts.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.faust.app import ExactApp
from dutycycle.kafka.faust.offsets import describe_truncation
from dutycycle.telemetry.metrics import ASSIGNED, LAG, LAG_MAX, REBALANCES, RECOVERY, UNASSIGNED, Labels
from dutycycle.telemetry.watchdog import StallTimer

_TRUNCATED_OBSERVATIONS = 3


class Vitals:
    """Watches one app. ``observe`` is called in the event loop, once a second or so; the rest from any
    thread."""

    def __init__(self, app: ExactApp, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._silence_s = float(app.conf.broker_session_timeout)
        self._waiting, self._recovering, self._reading, self._unread = (StallTimer(clock) for _ in range(4))
        self._waiting.observe("to be ready")
        self._ever_ready = False
        self._truncated: str | None = None
        self._truncated_for = 0

    def register(self) -> None:
        """Let the app's telemetry know; from now on these probes say what is waited for."""
        telemetry = self._app.telemetry
        telemetry.status.alive["worker"] = self.liveness_error
        telemetry.status.ready["group"] = self.readiness_error
        metrics = telemetry.metrics
        metrics.read(LAG, lambda: {topic: float(sum(lags)) for topic, lags in self.lags().items()})
        metrics.read(LAG_MAX, lambda: {topic: float(max(lags)) for topic, lags in self.lags().items()})
        metrics.read(ASSIGNED, self.assigned)
        metrics.read(
            UNASSIGNED, lambda: {(topic,): float(count) for topic, count in self.unassigned_topics().items()}
        )
        metrics.read(REBALANCES, lambda: float(self._app.rebalancing_count))
        metrics.read(RECOVERY, self.recovery_s)
        telemetry.status.waiting = None

    def observe(self) -> None:
        """Note since when it is not ready, how far it has read, and hear its heartbeats."""
        ready = self._app.ready
        self._unread.observe(self._nobody_reads())
        could_read = ready and self._consumer is not None and not self._app.is_backpressured()
        self._reading.observe(self._consumer.behind() if could_read else None)
        self._waiting.observe(None if ready else "to be ready")
        if not ready:
            tables: Any = self._app.tables
            offsets = sum(offset or 0 for offset in list(tables.recovery.active_offsets.values()))
            recovered = f"since rebalance {self._app.rebalancing_count}, changelogs read to {offsets}"
            self._recovering.observe(f"not reading {recovered}")
            return
        self._recovering.observe(None)
        self._ever_ready = True
        if self._silent_s() > self._silence_s:
            self._app.reachability.mark_down(
                BrokerUnreachableError("timeout", f"no answer for {self._silence_s:g} s")
            )
        else:
            self._app.reachability.mark_up()
        self._truncated = next(
            (
                describe_truncation(topic, partition, taken, end)
                for topic, partition, end, _ in self._places()
                if (taken := self._app.next_offset(topic, partition)) is not None
                and end is not None and taken > end
            ),
            None,
        )  # fmt: skip
        self._truncated_for = 0 if self._truncated is None else self._truncated_for + 1

    def _nobody_reads(self) -> str | None:
        """Return what of the topics no worker of the group reads, as far as this one knows, and why."""
        if self._consumer is None:
            return None
        missing = self._consumer.missing_topics()
        if missing:
            return (
                f"topic {', '.join(missing)} is gone, and nothing is read without it: it was deleted, or the "
                "user may not see it any more (Kafka's ACLs)"
            )
        unassigned = [f"{topic} ({count})" for topic, count in self.unassigned_topics().items() if count]
        return f"nobody reads partitions of {', '.join(unassigned)}" if unassigned else None

    def unassigned_topics(self) -> dict[str, int]:
        """Return of each topic, by name without prefix, how many partitions nobody has; no changelogs."""
        unread = sorted(self._app.unread_partitions.items())
        names = ((topic.removeprefix(self._app.topic_prefix), count) for topic, count in unread)
        return {name: count for name, count in names if name in TOPICS}

    def _silent_s(self) -> float:
        """Return seconds since the broker last counted this worker in; 0 before it did."""
        return 0.0 if self._consumer is None else max(self._clock() - self._consumer.counted_in_s, 0.0)

    @property
    def _consumer(self) -> Any:
        return self._app._consumer  # app.consumer would make one, in this thread

    @property
    def _client(self) -> Any:
        return None if self._consumer is None else self._consumer._thread._consumer

    def liveness_error(self) -> str | None:
        """Tell why the process ends, or has to."""
        return self._app.failure or self.stuck()

    def stalled(self) -> str | None:
        """Tell why the process has to end although nothing has failed."""
        if self._app.telemetry.stall_detector.process_stalled():
            return "the process stalled for too long"
        most_s = self._app.telemetry.stall_detector.limits.ended_s
        still = next((timer for timer in (self._recovering, self._reading) if timer.stalled_s > most_s), None)
        unread = str(self._unread.seen) if self._unread.stalled_s > most_s else None
        stuck = self.stuck() or self.truncated() or unread
        return stuck if still is None else stuck or f"no progress in {most_s:g} s: {still.seen}"

    def stuck(self) -> str | None:
        """Tell why it will never read again, although it does not say so."""
        if self._app.crashed:
            return f"crashed: {self._app.crash_reason!r}"
        return None if self._consumer is None or self._app.should_stop else self._consumer.trouble()

    def truncated(self) -> str | None:
        """Return the log that was shorter than what was taken of it several times in a row; its records would
        all count as read.

        Not at once: for a moment, a new leader of a partition may not know how much is acknowledged.
        """
        return self._truncated if self._truncated_for >= _TRUNCATED_OBSERVATIONS else None

    def readiness_error(self) -> str | None:
        """Tell why it does not read now."""
        waited, still = self._waiting.stalled_s, self._reading.stalled_s
        said_s = self._app.telemetry.stall_detector.limits.said_s
        if self._unread.stalled_s > said_s:
            return f"{self._unread.seen}, for {self._unread.stalled_s:.0f} s"
        if not self._ever_ready or waited > said_s:
            phase = "recovering state"
            if self._client is None:
                phase = "connecting"
            elif not self._consumer.is_member():
                phase = "joining the group"
            elif self._app.rebalancing:
                phase = f"in rebalance {self._app.rebalancing_count}"
            return f"{phase} for {waited:.0f} s"
        silent = self._silent_s() if self._waiting.seen is None else 0.0
        if silent > self._silence_s:
            return f"the broker has not answered for {silent:.0f} s"
        return f"{self._reading.seen}, and no further for {still:.0f} s" if still > said_s else None

    def lags(self) -> dict[Labels, list[int]]:
        """Return records not yet taken, of each partition, by topic; as of the last answer of the broker."""
        lags_by_topic: dict[Labels, list[int]] = defaultdict(list)
        for topic, partition, end, position in self._places():
            taken = self._app.next_offset(topic, partition)
            at = position if taken is None else taken
            if end is not None and at is not None:
                lags_by_topic[topic,].append(max(end - at, 0))
        return lags_by_topic

    def assigned(self) -> dict[Labels, float]:
        """Return how many partitions are read, by topic."""
        return {(topic,): float(n) for topic, n in Counter(place[0] for place in self._places()).items()}

    def _places(self) -> list[tuple[str, int, int | None, int | None]]:
        """Return topic, partition, end and position of all that is read, changelogs apart."""
        return [
            (tp.topic.removeprefix(self._app.topic_prefix), tp.partition, end, position)
            for tp, end, position in (() if self._consumer is None else self._consumer.positions())
        ]

    def recovery_s(self) -> float | None:
        """Tell how long the last recovery took."""
        tables: Any = self._app.tables
        began, ended = tables.recovery._recovery_started_at, tables.recovery._recovery_ended_at
        return None if began is None or ended is None or ended < began else float(ended - began)
