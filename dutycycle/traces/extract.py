"""Writes what the topics hold of a job, of a pod or of all, in order of time: what a report is made of.

Pods come first: they say on which nodes the samples are. Who knows them gives them, and the topic of pods is
read from the beginning of the time that is wanted; else all of it is, as the record of a pod that did not
change may be of any time. Of the samples the partitions of these nodes are read, up to the end of that time.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from dutycycle.contract.codec import DecodeError, decode, encode
from dutycycle.contract.errors import DutycycleError, NotMeasuredError
from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TICK_TOPICS, full_name
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.kafka.consumer import Consumer, Start
from dutycycle.kafka.errors import BrokerUnreachableError, MissingTopicError
from dutycycle.kafka.producer import partition_of
from dutycycle.kafka.reachability import answered_within, wait_for_broker
from dutycycle.kafka.topics import topics_there
from dutycycle.process import temporary_folder
from dutycycle.progress import Progress
from dutycycle.telemetry.events import Telemetry
from dutycycle.traces.record import trace_record
from dutycycle.traces.sorting import Sorting
from dutycycle.traces.subject import subject_of
from dutycycle.words import bytes_text

_WAIT_S = 0.2
_YOUNGER = "gpu-events"
_LATE_MS = 3_600_000
"""A node of which nothing later was read is waited for up to the records of so long after the end: its
collector may have kept them while it could not send."""


class TooManySamplesError(DutycycleError):
    """Says that more lies on the topics than may be read."""


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """Says how much of the samples may be read at most, in records and in bytes of them."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ExtractRequest:
    """Names a job or pod by its name or uid, None for all, in ``[start_ms, end_ms)``.

    ``pods``: all of it, and others of that time on its nodes, where who asks knows them; ``limit``: None for
    none.
    """

    name: str | None
    start_ms: int
    end_ms: int
    pods: tuple[Pod, ...] = ()
    limit: ReadLimit | None = None


def extract(
    out: Path, wanted: ExtractRequest, settings: Settings, *, overwrite: bool, timeout_s: float
) -> None:
    """Write the trace ``out``. A broker is waited for ``timeout_s``, seconds.

    Raises ``DutycycleError``: for a name that is not there, and if nothing was measured.
    """
    with temporary_folder() as folder:
        sorting = Sorting(folder, settings.topic_prefix)
        asyncio.run(_read(wanted, settings, sorting, timeout_s))
        out.parent.mkdir(exist_ok=True)
        with TraceWriter(str(out), overwrite=overwrite) as trace:
            for record in sorting.merged():
                trace.write(record)


async def _read(wanted: ExtractRequest, settings: Settings, sorting: Sorting, timeout_s: float) -> None:
    await answered_within(timeout_s, settings, wait_for_broker(settings, Telemetry("report")))
    start: Start = wanted.start_ms if wanted.pods else "beginning"
    end_ms = wanted.end_ms + _LATE_MS if wanted.pods else None
    pods = [
        *_given_pods(wanted, full_name(settings.topic_prefix, "pods")),
        *known_pods(await read_all(settings, "pods", timeout_s, start, end_ms), wanted),
    ]
    where = f"the topics {_times_text(wanted)}"
    nodes: set[str] | None = None
    if wanted.name is not None:
        subject = subject_of([pod for _, pod in pods], job=wanted.name, pod=wanted.name, where=where)
        nodes = {pod.node for pod in subject.pods}
        if wanted.pods:  # a profile is of a pod that had started
            start = min(wanted.start_ms, *(pod.started_ms or wanted.start_ms for pod in subject.pods))
    for record, pod in pods:
        if nodes is None or pod.node in nodes:
            sorting.add(record)
    with suppress(MissingTopicError):  # nobody has profiled anything yet
        # Often after the job: they all count.
        for message in await read_all(settings, "profiles", timeout_s, start):
            sorting.add(trace_record(message, min(max(message.ts_ms, wanted.start_ms), wanted.end_ms - 1)))
    named = sorting.count
    # A collector of before has no events of GPUs; without any other topic it is no cluster of ours.
    younger = await topics_there(settings, [full_name(settings.topic_prefix, _YOUNGER)])
    topics = [name for name in TICK_TOPICS if younger or name != _YOUNGER]
    reading = _TickReading(wanted, nodes)
    with Progress("records") as progress:
        is_looking = True
        while is_looking:
            batches = read_batches(settings, topics, wanted.start_ms, timeout_s, reading.aim)
            async for messages, left in batches:
                for message in reading.take(messages):
                    sorting.add(trace_record(message))
                progress.whole = reading.records + left
                progress.show(reading.records, sorting.count)
            is_looking = reading.look_elsewhere()
    if sorting.count == named:
        raise NotMeasuredError(f"nothing of {wanted.name or 'any node'} was measured {_times_text(wanted)}")


class _TickReading:
    """Follows what is read of ``nodes``, None for all, and ends each partition where all of it was.

    First the partitions are read in which our own clients put these nodes. Nodes of which nothing is there
    may have been put elsewhere by another client: then the others are read, too.
    """

    def __init__(self, wanted: ExtractRequest, nodes: Collection[str] | None) -> None:
        self._wanted, self._nodes = wanted, nodes
        self._is_own = True
        self._seen: set[str] = set()
        self._awaited: dict[TopicPartition, set[str]] = {}
        """By partition that is read, the nodes of which nothing after the end was there yet."""
        self._consumer: Consumer | None = None
        self._ends: dict[TopicPartition, int] = {}
        self.records, self._bytes = 0, 0

    async def aim(self, consumer: Consumer) -> dict[TopicPartition, int]:
        """Return where each partition ends that is to be read; the others are left. Raises
        ``TooManySamplesError``."""
        self._consumer = consumer
        if self._nodes is None:
            self._ends = await consumer.ends()
        else:
            ends = await consumer.ends_at(self._wanted.end_ms + _LATE_MS)
            counts = Counter(place.topic for place in ends)
            for place in ends:
                nodes = {
                    node
                    for node in set(self._nodes) - self._seen
                    if (partition_of(node, counts[place.topic]) == place.partition) is self._is_own
                }
                if nodes:
                    self._awaited[place] = nodes
            self._ends = {place: end for place, end in ends.items() if place in self._awaited}
            consumer.leave(ends.keys() - self._ends.keys())
        left = await consumer.left(self._ends)
        if self._seen and self._is_beyond(self.records + left, self._bytes):
            # A node that sent nothing is no reason to give up what there is of others.
            consumer.leave(self._ends)
            self._ends = {}
            return self._ends
        self._refuse(self.records + left, self._bytes)
        return self._ends

    def take(self, messages: Iterable[ConsumerRecord]) -> Iterator[ConsumerRecord]:
        """Yield the records that are wanted, and leave the partitions that are read. Raises
        ``TooManySamplesError``."""
        for message in messages:
            partition = message.topic_partition
            self.records, self._bytes = self.records + 1, self._bytes + len(message.value or b"")
            node = message.key
            if message.ts_ms < self._wanted.end_ms:
                if self._nodes is None or node in self._nodes:
                    self._seen.add(node or "")
                    yield message
            elif node is not None and node in (awaited := self._awaited.get(partition, set())):
                awaited.remove(node)
                if not awaited and self._consumer is not None:
                    self._consumer.leave([partition])
                    del self._ends[partition]
        self._refuse(self.records, self._bytes)

    def look_elsewhere(self) -> bool:
        """Tell whether a node was not seen where it should be, and others may hold it."""
        is_missing = self._is_own and self._nodes is not None and bool(set(self._nodes) - self._seen)
        self._is_own, self._awaited = False, {}
        return is_missing

    def _is_beyond(self, records: int, size: int) -> bool:
        limit = self._wanted.limit
        return limit is not None and (records > limit.records or size > limit.bytes)

    def _refuse(self, records: int, size: int) -> None:
        limit = self._wanted.limit
        if limit is not None and self._is_beyond(records, size):
            raise TooManySamplesError(
                f"more than {limit.records:,} samples or {bytes_text(limit.bytes)} lie there "
                f"{_times_text(self._wanted)}: ask for a shorter time"
            )


async def read_all(
    settings: Settings, topic: str, timeout_s: float, start: Start = "beginning", end_ms: int | None = None
) -> list[ConsumerRecord]:
    """Return what lies on a topic now, from ``start`` on; with ``end_ms`` up to the first record from then on
    in each partition. Raises ``BrokerError``, as ``read_batches``."""

    async def aim(consumer: Consumer) -> dict[TopicPartition, int]:
        return await (consumer.ends() if end_ms is None else consumer.ends_at(end_ms))

    batches = read_batches(settings, (topic,), start, timeout_s, aim)
    return [record async for batch, _ in batches for record in batch]


async def read_batches(
    settings: Settings,
    topics: Iterable[str],
    start: Start,
    timeout_s: float,
    aim: Callable[[Consumer], Awaitable[dict[TopicPartition, int]]] = Consumer.ends,
) -> AsyncIterator[tuple[list[ConsumerRecord], int]]:
    """Yield what lies on the broker now, from ``start`` on; with each batch how many offsets are left.

    ``aim``: gives the offset before which each partition is read, and may take partitions out while it is.
    Raises ``BrokerError``: also for a broker that has given nothing for ``timeout_s``, seconds.
    """
    names = [full_name(settings.topic_prefix, topic) for topic in topics]
    consumer, loop = Consumer(settings, "dutycycle-report", names, start), asyncio.get_running_loop()
    await consumer.start()
    try:
        ends, left, heard_s = await aim(consumer), 1, loop.time()
        while left:
            messages = await consumer.take(_WAIT_S)
            left = await consumer.left(ends)
            heard_s = loop.time() if messages else heard_s
            if left and loop.time() - heard_s > timeout_s:
                silent = f"{settings.broker} has given nothing for {timeout_s:g} s; {left} records are left"
                raise BrokerUnreachableError("timeout", silent)
            lying = [message for message in messages if message.offset < ends.get(message.topic_partition, 0)]
            yield lying, left
    finally:
        await consumer.stop()


def _given_pods(wanted: ExtractRequest, topic: str) -> Iterator[tuple[TraceRecord, Pod]]:
    """Yield the pods that were given, as of when each began in the time that is wanted, and as they ended."""
    for pod in wanted.pods:
        began_ms = max(wanted.start_ms, pod.started_ms or 0)
        if began_ms >= wanted.end_ms or (pod.finished_ms or wanted.start_ms) < wanted.start_ms:
            continue
        running = structs.replace(pod, phase="Running", finished_ms=None)
        yield _record_of(topic, running, began_ms), running
        if pod.finished_ms is not None and pod.finished_ms < wanted.end_ms:
            yield _record_of(topic, pod, max(began_ms, pod.finished_ms)), pod


def _record_of(topic: str, pod: Pod, ts_ms: int) -> TraceRecord:
    return TraceRecord(topic=topic, key=pod.uid, payload=encode(pod), ts_ms=ts_ms)


def known_pods(
    messages: Iterable[ConsumerRecord], wanted: ExtractRequest
) -> Iterator[tuple[TraceRecord, Pod]]:
    """Yield what was known of the pods that were there in the time that is wanted, from its beginning on."""
    records_of_pod: dict[str, list[tuple[ConsumerRecord, Pod]]] = defaultdict(list)
    for message in messages:
        try:
            pod = None if message.value is None else decode(Pod, message.value, "pods")
        except DecodeError:
            continue
        if pod is not None:
            records_of_pod[pod.uid].append((message, pod))
    for records in records_of_pod.values():
        newest = records[-1][1]
        if (newest.finished_ms or wanted.start_ms) < wanted.start_ms:
            continue
        before = [record for record in records if record[0].ts_ms < wanted.end_ms]
        if not before:  # what was said of it then was compacted away: it ran, if it has started
            message, pod = records[0]
            if min(pod.started_ms or message.ts_ms, message.ts_ms) >= wanted.end_ms:
                continue
            then = structs.replace(pod, phase="Running", finished_ms=None)
            before = [(structs.replace(message, ts_ms=wanted.start_ms, value=encode(then)), then)]
        for message, pod in before:
            yield trace_record(message, max(message.ts_ms, wanted.start_ms)), pod


def _times_text(wanted: ExtractRequest) -> str:
    first, last = (datetime.fromtimestamp(at / 1000, UTC) for at in (wanted.start_ms, wanted.end_ms))
    return f"from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
