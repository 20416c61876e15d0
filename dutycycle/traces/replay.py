"""Replays in process: trace in, derived records out. Reads no clock and no environment."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from dutycycle.contract.errors import SettingError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TICK_TOPICS, TOPICS
from dutycycle.contract.trace import TraceError, TraceWriter, trace_line
from dutycycle.process import print_remark, temporary_folder
from dutycycle.progress import Progress
from dutycycle.tables.writer import TRACE, TableWriter, writer
from dutycycle.telemetry.events import SAMPLE_LATE
from dutycycle.traces.samples import TraceSamples, late_words
from dutycycle.traces.sorting import Sorting
from dutycycle.words import counts_text
from streams.local import LocalPipeline
from streams.topology import stages

DERIVED = "derived.jsonl.zst"
"""What a replay made, in the folder of a run of an experiment."""
Write = Callable[[ProducerRecord], None]


def replay_in_process(
    traces: list[str],
    settings: Settings,
    *,
    out: str | None,
    form: str = TRACE,
    overwrite: bool,
    records: str | None,
    keep_open: bool,
    skip_bad: bool = False,
    sort: bool = False,
    quiet: bool = False,
) -> int:
    """Replay ``traces`` one after the other; what came before a damaged line is written all the same.

    ``form``: of ``out``. Tables hold the samples too; a trace has them already. ``skip_bad``: count damaged
    lines and go on. ``sort``: read all first, and take it in the order of time. ``quiet``: show no progress.

    Raises ``DutycycleError`` if there is no sample in them.
    """
    # Before anything is opened for writing.
    target = None if out in (None, "-") else Path(str(out))
    for path in map(Path, (trace for trace in traces if trace != "-")):
        if not path.exists():
            raise TraceError(str(path), 0, "No such file or directory")
        if target is not None and target.is_file() and path.samefile(target):
            raise SettingError(f"--out {out}: is a trace to be read; choose another file for what comes out")
    pipeline = LocalPipeline(stages(settings), settings.topic_prefix)
    made: Counter[str] = Counter()
    with ExitStack() as stack, Progress("samples", quiet=quiet) as progress:
        read = TraceSamples(traces, settings.topic_prefix, bad=progress.print_line if skip_bad else None)
        trace: TraceWriter | TableWriter | None = None
        if out is not None:
            trace = writer(out, form, settings.topic_prefix, overwrite=overwrite)
            stack.enter_context(trace)
        writers = list(_writers(stack, settings, trace, records))
        damage: TraceError | None = None
        try:
            samples = progress.track(read)
            for record in _in_order(samples, stack, settings.topic_prefix) if sort else samples:
                if isinstance(trace, TableWriter):
                    trace.write(trace_line(record, settings.topic_prefix))
                _write(pipeline.feed(record), writers, made)
        except TraceError as error:
            damage = error
        _write(pipeline.flush() if keep_open else pipeline.close(), writers, made)
        if damage is not None:
            raise damage
        read.check()
    for line in _summary(read, made, pipeline):
        print_remark(line)
    return 0


def _in_order(samples: Iterable[ConsumerRecord], stack: ExitStack, prefix: str) -> Iterator[ConsumerRecord]:
    """Yield samples in the order of time, and of one moment in their own. What does not fit in memory lies in
    a folder until ``stack`` is closed.

    Raises the ``TraceError`` of a damaged line once all that came before it are given.
    """
    sorting = Sorting(stack.enter_context(temporary_folder()), prefix)
    damage: TraceError | None = None
    try:
        for sample in samples:
            sorting.add(trace_line(sample, prefix, sorting.count))
    except TraceError as error:
        damage = error
    for offset, record in enumerate(sorting.merged()):
        topic = record.topic.removeprefix(prefix)
        yield ConsumerRecord(topic, 0, offset, record.key, record.payload, record.ts_ms or 0)
    if damage is not None:
        raise damage


def _writers(
    stack: ExitStack, settings: Settings, trace: TraceWriter | TableWriter | None, records: str | None
) -> Iterator[Write]:
    if trace is not None:
        yield trace_of(trace, settings.topic_prefix)
    if records is not None:
        from sinks.records.prices import given_prices  # here, not above: SQLAlchemy takes a second
        from sinks.records.writer import RecordsWriter

        writer = stack.enter_context(RecordsWriter(records, prices=given_prices(settings)))
        stack.callback(writer.flush)  # also what came before a damaged line
        yield lambda output: writer.write(output.topic, output.value)


def trace_of(trace: TraceWriter | TableWriter, prefix: str) -> Write:
    """Writes derived records into a trace; what is internal is left out."""
    offsets: Counter[str] = Counter()

    def write(record: ProducerRecord) -> None:
        if not TOPICS[record.topic].internal:
            trace.write(trace_line(record, prefix, offsets[record.topic]))
            offsets[record.topic] += 1

    return write


def _write(outs: Iterable[ProducerRecord], writers: list[Write], made: Counter[str]) -> None:
    for out in outs:
        made[out.topic] += 1
        for write in writers:
            write(out)


def _summary(read: TraceSamples, made: Counter[str], pipeline: LocalPipeline) -> Iterator[str]:
    late, ticks = pipeline.happened[SAMPLE_LATE.name], sum(read.tally[topic] for topic in TICK_TOPICS)
    for verb, tally in (("read", read.tally), ("made", made), ("noticed", pipeline.happened)):
        if tally or verb != "noticed":
            yield f"{verb}: {counts_text(tally)}"
    yield from read.left_out()
    if words := late_words(late, ticks):
        yield f"{words}: is the trace in the order of time? --sort takes it so"
