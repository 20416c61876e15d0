"""Writes what the topics hold of a job, of a pod or of all, in order of time: what a report is made of.

The topic of pods is read first, as a whole: it says on which nodes the pods are. Of the samples only those of
these nodes are kept.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from dutycycle.contract.codec import DecodeError, decode, encode
from dutycycle.contract.errors import NotMeasuredError
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TICK_TOPICS, full_name
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.kafka.consumer import Consumer, Message, Start
from dutycycle.kafka.errors import BrokerUnreachableError, MissingTopicError
from dutycycle.kafka.reachability import answered_within, wait_for_broker
from dutycycle.kafka.topics import topics_there
from dutycycle.process import temporary_folder
from dutycycle.progress import Progress
from dutycycle.telemetry.events import Telemetry
from dutycycle.traces.record import trace_record
from dutycycle.traces.sorting import Sorting
from dutycycle.traces.subject import subject_of

_WAIT_S = 0.2
_YOUNGER = "gpu-events"


@dataclass(frozen=True, slots=True)
class ExtractRequest:
    """Names a job or pod by its name or uid, None for all, in ``[start_ms, end_ms)``."""

    name: str | None
    start_ms: int
    end_ms: int


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
    pods = list(known_pods(await read_all(settings, "pods", timeout_s), wanted))
    where = f"the topics {_times_text(wanted)}"
    nodes: set[str] | None = None
    if wanted.name is not None:
        subject = subject_of([pod for _, pod in pods], job=wanted.name, pod=wanted.name, where=where)
        nodes = {pod.node for pod in subject.pods}
    for record, pod in pods:
        if nodes is None or pod.node in nodes:
            sorting.add(record)
    with suppress(MissingTopicError):  # nobody has profiled anything yet
        for message in await read_all(settings, "profiles", timeout_s):  # often after the job: they all count
            sorting.add(trace_record(message, min(max(message.ts_ms, wanted.start_ms), wanted.end_ms - 1)))
    named = sorting.count
    done = 0
    # A collector of before has no events of GPUs; without any other topic it is no cluster of ours.
    younger = await topics_there(settings, [full_name(settings.topic_prefix, _YOUNGER)])
    topics = [name for name in TICK_TOPICS if younger or name != _YOUNGER]
    with Progress("records") as progress:
        async for messages, left in read_batches(settings, topics, wanted.start_ms, timeout_s):
            for message in messages:
                if message.ts_ms < wanted.end_ms and (nodes is None or message.key_text in nodes):
                    sorting.add(trace_record(message))
            done += len(messages)
            progress.whole = done + left
            progress.show(done, sorting.count)
    if sorting.count == named:
        raise NotMeasuredError(f"nothing of {wanted.name or 'any node'} was measured {_times_text(wanted)}")


async def read_all(settings: Settings, topic: str, timeout_s: float) -> list[Message]:
    """Return all that lies on a topic now. Raises ``BrokerError``, as ``read_batches``."""
    batches = read_batches(settings, (topic,), "beginning", timeout_s)
    return [record async for batch, _ in batches for record in batch]


async def read_batches(
    settings: Settings, topics: Iterable[str], start: Start, timeout_s: float
) -> AsyncIterator[tuple[list[Message], int]]:
    """Yield what lies on the broker now, from ``start`` on; with each batch how many offsets are left.

    Raises ``BrokerError``: also for a broker that has given nothing for ``timeout_s``, seconds.
    """
    names = [full_name(settings.topic_prefix, topic) for topic in topics]
    consumer, loop = Consumer(settings, "dutycycle-report", names, start), asyncio.get_running_loop()
    await consumer.start()
    try:
        ends, left, heard_s = await consumer.ends(), 1, loop.time()
        while left:
            messages = await consumer.take(_WAIT_S)
            left = await consumer.left(ends)
            heard_s = loop.time() if messages else heard_s
            if left and loop.time() - heard_s > timeout_s:
                silent = f"{settings.broker} has given nothing for {timeout_s:g} s; {left} records are left"
                raise BrokerUnreachableError("timeout", silent)
            yield messages, left
    finally:
        await consumer.stop()


def known_pods(messages: Iterable[Message], wanted: ExtractRequest) -> Iterator[tuple[TraceRecord, Pod]]:
    """Yield what was known of the pods that were there in the time that is wanted, from its beginning on."""
    records_of_pod: dict[str, list[tuple[Message, Pod]]] = defaultdict(list)
    for message in messages:
        try:
            pod = None if message.payload is None else decode(Pod, message.payload, "pods")
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
            before = [(replace(message, ts_ms=wanted.start_ms, payload=encode(then)), then)]
        for message, pod in before:
            yield trace_record(message, max(message.ts_ms, wanted.start_ms)), pod


def _times_text(wanted: ExtractRequest) -> str:
    first, last = (datetime.fromtimestamp(at / 1000, UTC) for at in (wanted.start_ms, wanted.end_ms))
    return f"from {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
