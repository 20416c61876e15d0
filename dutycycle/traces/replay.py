"""A replay in process: trace in, derived records out. Reads no clock and no environment."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson

from contract.errors import DutycycleError, SettingError
from contract.log import ConsumerRecord, ProducerRecord
from contract.settings.groups import Settings
from contract.topics import DEFAULT_PREFIX, SAMPLE_TOPICS, TOPICS, short_name
from contract.trace import TraceError, TraceRecord, TraceWriter, read_lines
from dutycycle.tables.writer import TRACE, TableWriter, writer
from sinks.records.writer import RecordsWriter
from streams.local import LocalPipeline
from streams.topology import stages

Write = Callable[[ProducerRecord], None]
_LATEST_MS = 2**63 - 1


def replay_in_process(
    traces: list[str],
    settings: Settings,
    *,
    out: str | None,
    form: str = TRACE,
    overwrite: bool,
    records: str | None,
    keep_open: bool,
) -> int:
    """Replay ``traces`` one after the other; what came before a damaged line is written all the same.

    ``form``: of ``out``. Tables hold the samples too; a trace has them already.

    Raises ``DutycycleError`` if there is no sample in them.
    """
    _refuse_overwriting(traces, out)
    pipeline = LocalPipeline(stages(settings), settings.topic_prefix)
    tally: Counter[str] = Counter()
    with ExitStack() as stack:
        trace: TraceWriter | TableWriter | None = None
        if out is not None:
            trace = writer(out, form, settings.topic_prefix, overwrite=overwrite)
            stack.enter_context(trace)
        writers = list(_writers(stack, settings, trace, records))
        damage: TraceError | None = None
        try:
            for record in samples(traces, settings.topic_prefix, tally):
                if isinstance(trace, TableWriter):
                    trace.write(_line(record, settings.topic_prefix))
                _write(pipeline.feed(record), writers, tally)
        except TraceError as error:
            damage = error
        _write(pipeline.flush() if keep_open else pipeline.close(), writers, tally)
        if damage is not None:
            raise damage
        if not any(tally[f"in {topic}"] for topic in SAMPLE_TOPICS):
            raise no_samples(traces)
    for line in _summary(tally, pipeline):
        print(line, file=sys.stderr)  # noqa: T201
    return 0


def no_samples(traces: Iterable[str]) -> DutycycleError:
    """There was nothing to replay."""
    wanted = ", ".join(SAMPLE_TOPICS)
    return DutycycleError(f"{', '.join(traces)}: no samples to replay: expected records of {wanted}")


def _refuse_overwriting(traces: list[str], out: str | None) -> None:
    """Raises before anything is opened for writing: a trace that is missing, or that is the output, too."""
    target = None if out in (None, "-") else Path(str(out))
    for path in map(Path, (one for one in traces if one != "-")):
        if not path.exists():
            raise TraceError(str(path), 0, "No such file or directory")
        if target is not None and target.is_file() and path.samefile(target):
            raise SettingError(f"--out {out}: is a trace to be read; choose another file for what comes out")


def _writers(
    stack: ExitStack, settings: Settings, trace: TraceWriter | TableWriter | None, records: str | None
) -> Iterator[Write]:
    if trace is not None:
        yield trace_of(trace, settings.topic_prefix)
    if records is not None:
        writer = stack.enter_context(RecordsWriter(records))
        stack.callback(writer.flush)  # also what came before a damaged line
        yield lambda one: writer.write(one.topic, one.value)


def _line(record: ConsumerRecord, prefix: str) -> TraceRecord:
    return TraceRecord(topic=prefix + record.topic, key=record.key, payload=record.value, ts_ms=record.ts_ms)


def trace_of(trace: TraceWriter | TableWriter, prefix: str) -> Write:
    """Writes derived records into a trace; what is internal is left out."""
    offsets: Counter[str] = Counter()

    def write(one: ProducerRecord) -> None:
        if TOPICS[one.topic].internal:
            return
        trace.write(
            TraceRecord(
                topic=prefix + one.topic,
                key=one.key,
                payload=one.value,
                offset=offsets[one.topic],
                ts_ms=one.ts_ms,
            )
        )
        offsets[one.topic] += 1

    return write


def _write(outs: Iterable[ProducerRecord], writers: list[Write], tally: Counter[str]) -> None:
    for one in outs:
        tally[f"out {one.topic}"] += 1
        for write in writers:
            write(one)


def samples(
    traces: Iterable[str], prefix: str, tally: Counter[str], topics: Collection[str] = SAMPLE_TOPICS
) -> Iterator[ConsumerRecord]:
    """The samples of several traces. Derived records in a trace are passed over: a replay makes them anew.

    A record without a timestamp takes its payload's ``ts_ms``; without that (a pod) the time of the record
    before it, and 0 as long as there was none.

    Raises ``TraceError`` for a topic that is none of ours, under ``prefix`` or the default one.
    """
    last_ms = 0
    for path in traces:
        for number, record in read_lines(path):
            topic = short_name(prefix, record.topic) or short_name(DEFAULT_PREFIX, record.topic)
            if topic is None:
                raise TraceError(path, number, _unknown(record.topic, prefix))
            moment_ms = _measured_ms(record.payload) if record.ts_ms is None else record.ts_ms
            last_ms = last_ms if moment_ms is None else moment_ms
            tally[f"in {topic}"] += 1
            if topic in topics:
                offset = number - 1 if record.offset is None else record.offset
                yield ConsumerRecord(topic, record.partition, offset, record.key, record.payload, last_ms)


def _measured_ms(payload: bytes | None) -> int | None:
    """The ``ts_ms`` of a payload, if it has one that Kafka could store."""
    try:
        record = orjson.loads(payload or b"")
    except orjson.JSONDecodeError:
        return None
    found = record.get("ts_ms") if type(record) is dict else None
    return found if type(found) is int and 0 < found <= _LATEST_MS else None


def _unknown(topic: str, prefix: str) -> str:
    known = ", ".join(prefix + name for name in SAMPLE_TOPICS)
    return f"topic {topic!r:.120} is none of {known}; another prefix is given with --topic-prefix"


def _summary(tally: Counter[str], pipeline: LocalPipeline) -> Iterator[str]:
    for direction, verb in (("in", "read"), ("out", "made")):
        found = [
            f"{count} {name.partition(' ')[2]}"
            for name, count in sorted(tally.items())
            if name.startswith(direction + " ")
        ]
        yield f"{verb}: {', '.join(found) or 'nothing'}"
    if pipeline.happened:
        noticed = (f"{count} {name}" for name, count in sorted(pipeline.happened.items()))
        yield f"noticed: {', '.join(noticed)}"
