"""Publishes the samples of traces to Kafka: as fast as it takes them, or paced by event time."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import SAMPLE_TOPICS, TOPICS, full_name
from dutycycle.kafka.producer import Delivery, Producer
from dutycycle.kafka.reachability import StoppedError, run_until, wait_for_broker
from dutycycle.kafka.topic_settings import read_batch_bytes
from dutycycle.kafka.topics import ensure_topics
from dutycycle.process import print_remark, stop_on_signals, stopped_within
from dutycycle.progress import Progress
from dutycycle.telemetry.events import Telemetry
from dutycycle.traces.samples import TraceSamples
from dutycycle.words import counts_text

_DAY_MS = 86_400_000
_KEPT_MS = min(TOPICS[name].retention_ms for name in SAMPLE_TOPICS)
"""Kafka removes records by their own timestamps: those of an old trace perhaps before they are read."""
_AT_ONCE = 2000
"""Deliveries awaited together: bounds memory, and keeps batches full."""


class ReplayPace:
    """Tells when a record is due: ``speed`` times real time, counted from the first record."""

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._start: tuple[float, int] | None = None

    def wait_s(self, ts_ms: int, now_s: float) -> float:
        """Return seconds until a record of ``ts_ms`` is due, 0 if it is already; ``now_s`` is monotonic."""
        if self._speed is None:
            return 0.0
        if self._start is None:
            self._start = now_s, ts_ms
        start_s, first_ms = self._start
        return max(0.0, start_s + (ts_ms - first_ms) / 1000 / self._speed - now_s)


def republish(
    traces: Sequence[str], settings: Settings, speed: float | None, *, skip_bad: bool = False,
    quiet: bool = False,
) -> int:  # fmt: skip
    """Publish; 0 when every sample is acknowledged, or a signal ended it in good order. ``skip_bad``: count
    damaged lines and go on. ``quiet``: show no progress.

    Raises ``DutycycleError`` if there is no sample in them.
    """
    with Progress("samples", quiet=quiet) as progress:
        read = TraceSamples(traces, settings.topic_prefix, bad=progress.print_line if skip_bad else None)
        sent = asyncio.run(_publish(read, settings, ReplayPace(speed), progress))
    for line in (f"published: {counts_text(sent)}", *read.left_out()):
        print_remark(line)
    return 0


async def _publish(
    read: TraceSamples, settings: Settings, pace: ReplayPace, progress: Progress
) -> Counter[str]:
    telemetry, stop = Telemetry("replay"), stop_on_signals()
    try:
        await run_until(stop, wait_for_broker(settings, telemetry))
        topics = await run_until(stop, ensure_topics(settings, SAMPLE_TOPICS))
        batch_bytes = await run_until(stop, read_batch_bytes(settings, topics))
    except StoppedError:
        return Counter()
    producer = Producer(
        settings, "dutycycle-replay", linger_ms=50, batch_bytes=batch_bytes, telemetry=telemetry
    )
    sent: Counter[str] = Counter()
    pending: list[Delivery] = []
    loop, dated = asyncio.get_running_loop(), False
    await producer.start()
    try:
        for record in progress.track(read):
            ts_ms = record.ts_ms or None  # 0: not known yet, and then it is now
            if ts_ms is not None:
                age_ms = time.time_ns() // 1_000_000 - ts_ms
                if not dated and age_ms > _KEPT_MS:
                    print_remark(
                        f"dutycycle: the trace begins {age_ms / _DAY_MS:.0f} days ago, and the topics keep "
                        f"{_KEPT_MS / _DAY_MS:.0f}: Kafka may delete its records within minutes; raise "
                        "retention.ms to keep them longer"
                    )
                dated = True
                if (pause := pace.wait_s(ts_ms, loop.time())) > 0:
                    await stopped_within(stop, pause)
            if stop.is_set():
                break
            topic = full_name(settings.topic_prefix, record.topic)
            pending.append(await producer.send(topic, record.key, record.value, ts_ms))
            sent[record.topic] += 1
            if len(pending) >= _AT_ONCE:
                await run_until(stop, producer.settle(pending))  # for ever, if the broker goes away
                pending.clear()
        await run_until(stop, producer.settle(pending))
        read.check()
    except StoppedError:
        pass  # what is on its way has its time below
    finally:
        await producer.stop()
    return sent
