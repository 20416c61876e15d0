"""Writes topics to a trace, in the order of each partition, or to tables."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from dutycycle.contract.log import ConsumerRecord, key_bytes
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.kafka.consumer import Consumer, Start
from dutycycle.kafka.reachability import StoppedError, answered_within, run_until, wait_for_broker
from dutycycle.kafka.topics import topics_there
from dutycycle.process import print_remark, stop_on_signals
from dutycycle.progress import Progress
from dutycycle.tables.writer import TableWriter, writer
from dutycycle.telemetry.events import Telemetry
from dutycycle.words import counts_text

_WAIT_S = 0.2


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """Says what to record: ``topics`` without prefix, event time ``[start_ms, end_ms)``, for ``duration_s``.

    With a start or an end but no duration the recording ends where the topics end now; with neither it
    begins now and goes on until a signal.
    """

    topics: tuple[str, ...]
    start_ms: int | None
    end_ms: int | None
    duration_s: float | None
    those_there: bool = False
    """Whether a topic that does not exist is left out, and is no error."""

    @property
    def begin(self) -> Start:
        """Return where the consumer starts."""
        if self.start_ms is not None:
            return self.start_ms
        return "end" if self.end_ms is None else "beginning"

    @property
    def bounded(self) -> bool:
        """Tell whether what lies on the broker now is all that is wanted."""
        return self.duration_s is None and (self.start_ms is not None or self.end_ms is not None)

    def accepts(self, ts_ms: int) -> bool:
        """Tell whether a record's event time is wanted."""
        late_enough = self.start_ms is None or ts_ms >= self.start_ms
        return late_enough and (self.end_ms is None or ts_ms < self.end_ms)


def record(
    out: str, form: str, wanted: RecordRequest, settings: Settings, *, overwrite: bool, timeout_s: float
) -> int:
    """Record; 0 when the trace is whole. A broker is waited for ``timeout_s``, seconds."""
    with writer(out, form, settings.topic_prefix, overwrite=overwrite) as trace:
        counts = asyncio.run(_record(trace, wanted, settings, timeout_s))
    print_remark(f"recorded: {counts_text(counts)}")
    return 0


async def _record(
    trace: TraceWriter | TableWriter, wanted: RecordRequest, settings: Settings, timeout_s: float
) -> Counter[str]:
    stop = stop_on_signals()
    waiting = wait_for_broker(settings, Telemetry("record"))
    try:
        await run_until(stop, answered_within(timeout_s, settings, waiting))
    except StoppedError:
        return Counter()
    names = [full_name(settings.topic_prefix, topic) for topic in wanted.topics]
    if wanted.those_there:
        names = await topics_there(settings, names) or names  # with none at all, the reader names them
    consumer = Consumer(settings, "dutycycle-record", names, wanted.begin)
    await consumer.start()
    try:
        with Progress("records") as progress:
            return await _until_done(consumer, trace, wanted, stop, progress)
    finally:
        await consumer.stop()


async def _until_done(
    consumer: Consumer, trace: TraceWriter | TableWriter, wanted: RecordRequest, stop: asyncio.Event,
    progress: Progress,
) -> Counter[str]:  # fmt: skip
    counts: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    ends = await consumer.ends() if wanted.bounded else None
    most = 0 if ends is None else await consumer.left(ends)
    began_s, length_s = loop.time(), wanted.duration_s
    progress.whole = length_s if ends is None else most
    while not stop.is_set() and (length_s is None or loop.time() - began_s < length_s):
        messages = await consumer.take(_WAIT_S)
        if ends is not None and not messages:
            consumer.refuse_silence()  # who goes on until a signal waits for the broker
        for message in messages:
            if wanted.accepts(message.ts_ms):
                trace.write(trace_record(message))
                counts[message.topic] += 1
        left = 0 if ends is None else await consumer.left(ends)
        progress.show(loop.time() - began_s if ends is None else most - left, counts.total())
        if ends is not None and not left:
            break
    return counts


def trace_record(record: ConsumerRecord, ts_ms: int | None = None) -> TraceRecord:
    """Return a record as a line of a trace, which is UTF-8; ``ts_ms``: instead of its own time."""
    key = key_bytes(record.key)
    return TraceRecord(
        topic=record.topic, key=None if key is None else key.decode(errors="replace"),
        payload=record.value, partition=record.partition, offset=record.offset,
        ts_ms=record.ts_ms if ts_ms is None else ts_ms,
    )  # fmt: skip
