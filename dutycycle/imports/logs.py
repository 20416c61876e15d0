"""Reads log files line by line and writes the trace. Wrong lines are counted, and the first ones named."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.topics import TICK_TOPICS
from dutycycle.contract.trace import TraceWriter
from dutycycle.imports.log_file import LONGEST_LINE, LogFile
from dutycycle.imports.quantities import Notes, Reader, Row
from dutycycle.imports.samples import Samples
from dutycycle.imports.table.heading import MOST_NAMES
from dutycycle.imports.wandb.samples import WandbSamples
from dutycycle.process import temporary_folder
from dutycycle.progress import Progress
from dutycycle.words import listed

_NAMED = 5
_IDENTITY = frozenset({"uuid", "index", "model"})


def import_logs(
    files: Mapping[str, str],
    reader: Callable[[LogFile], Reader] | None,
    out: str,
    prefix: str,
    *,
    job: str | None,
    overwrite: bool,
    own_nodes: bool = True,
) -> None:
    """Write ``out`` from ``files``, each with its node; with ``own_nodes`` a log that names nodes has those.

    ``reader`` makes that of a file of lines; without it the files are runs of W&B. Raises
    ``DutycycleError`` for a file with no right line, and for one in which nothing was measured.
    """
    with (
        TraceWriter(out, overwrite=overwrite) as trace,
        temporary_folder() as folder,
        Progress("lines", sum(Path(file).stat().st_size for file in files) or None) as progress,
    ):
        samples = Samples(folder, prefix, job if reader else None)
        run = _Import(samples, progress, prefix, own_nodes=own_nodes)
        for file, node in files.items():
            samples.begin_file()
            if reader:
                log = LogFile(file, folder)
                run.read(log, node, reader(log))
            else:
                run.read_wandb(file, WandbSamples(file, node, prefix, job=job, own_node=own_nodes))
        for node, gpus in samples.deal_out().items():
            how = (
                f"rows of one moment are dealt out to {gpus} GPUs"
                if gpus > 1
                else "all lines are taken for one"
            )
            progress.print_line(f"{node}: no column says which GPU: {how}")
        written = run.write(trace)
        for node, interval_ms in samples.nodes().items():
            progress.print_line(f"{node}: a tick each {interval_ms / 1000:g} s")
        for remark in _remarks(samples):
            progress.print_line(remark)
        left_out = [f"{run.wrong} wrong line{'s' * (run.wrong != 1)}"] * bool(run.wrong)
        if samples.undealt:
            left_out.append(f"{samples.undealt} lines of moments that have not a line of each GPU")
        if samples.doubled:
            left_out.append(f"{samples.doubled} lines that another of the files has, too")
        counts = ", ".join(f"{count} {topic}" for topic, count in written.items())
        progress.print_line(
            f"imported: {counts} from {samples.rows} {'lines' if reader else 'measurements of a GPU'}"
            + (f"; left out: {', '.join(left_out)}" if left_out else "")
        )


def _remarks(samples: Samples) -> Iterator[str]:
    """Say what of the rows is doubtful, or absent, and why."""
    for node, gpus in samples.writers().items():
        names = ", ".join(list(gpus)[:_NAMED])
        yield (
            f"{node}: in each tick there are {max(gpus.values())} rows of {names}, as where several programs "
            "write into one log. They count as one GPU: where they are of several machines, give the log a "
            "column of the host"
        )
    for node in samples.nodes_in_minutes():
        yield (
            f"{node}: several rows of a GPU have the same time, each a whole minute, as where a spreadsheet "
            "has cut the seconds off: they are spread over the minute"
        )
    for whose, doubt in samples.doubtful_energies():
        yield f"{whose}: {doubt}"
    if samples.stalled:
        yield f"energy stood still {samples.stalled} times while power was drawn, and is absent there"
    if samples.overfull:
        yield (
            f"more memory was in use than there is, or there was none, {samples.overfull} times: it is "
            "absent there"
        )
    if samples.unnamed_faults:
        yield (
            f"{samples.unnamed_faults} lines tell of faults, and not of which GPU: these are left out; give "
            "the log a column of the GPU's index or uuid"
        )


class _Import:
    def __init__(self, samples: Samples, progress: Progress, prefix: str, *, own_nodes: bool) -> None:
        self.samples, self._progress, self._prefix, self._own_nodes = samples, progress, prefix, own_nodes
        self.wrong = 0
        self._read = 0

    def read(self, log: LogFile, node: str, reader: Reader) -> None:
        """Take the lines of one file."""
        before, first_reason, measured = self.samples.rows, "", False
        file, number = log.path, 0
        for at, line in chain(log.read_lines(), [(0, "\n")]):  # some formats end a GPU by a blank line
            number = at or number
            self._read += len(line)
            self._progress.show(self._read, self.samples.rows, file)
            try:
                rows = _read_whole(line, reader)
                for row in rows:
                    self.samples.add(row.node if row.node and self._own_nodes else node, row)
                    measured = measured or _has_figures(row)
            except ValueError as error:
                reason = f"{file}:{number}: {error}"
                self._say_wrong(reason)
                first_reason = first_reason or reason
        notes, lines = reader.notes, self.samples.rows - before
        self.samples.energy_factors |= notes.energy_factors
        self.samples.has_cut_times |= notes.has_cut_times
        for reason in filter(None, (notes.unfinished, log.damage)):
            self._say_wrong(f"{file}: {reason}")
        if not lines and not first_reason:
            what = "no line of this format" if number else "no lines: it is empty"
            if notes.columns:
                what = f"a heading, {listed(notes.columns, MOST_NAMES)}, and no line of values"
            raise DutycycleError(f"{file} has {what}")
        if not lines:
            raise DutycycleError(f"{file} has no line that can be read; the first: {first_reason}")
        self._say_notes(file, notes)
        if gpus := self.samples.count_rows_as_gpus():
            raise DutycycleError(
                f"{file}: each of its {gpus} rows is of another GPU, so its column of the GPU's number "
                "counts rows: leave that column out, or give it another name"
            )
        if not measured:
            raise DutycycleError(f"{file}: not one figure of a GPU in {lines} lines{_why_nothing(notes)}")

    def read_wandb(self, file: str, run: WandbSamples) -> None:
        """Take a run of W&B."""
        for part in run.read():
            if isinstance(part, Row):
                self.samples.add(part.node or run.node, part)
            else:
                self.samples.add_record(part)
            self._progress.show(0, self.samples.rows, file)
        if len(run.run.labels) > 1:
            labels = ", ".join(sorted(run.run.labels))
            raise DutycycleError(
                f"{file}: has the figures of several machines ({labels}): import the run file of each of them"
            )
        for sentence in run.run.damage:
            self._progress.print_line(f"{file}: {sentence}")
        if not run.has_figures:
            raise DutycycleError(
                f"{file}: the run has no system metrics of a GPU, or of what its machine does, so nothing "
                "was measured: it was too short, or they were switched off"
            )
        self._say_notes(file, run.notes)

    def _say_notes(self, file: str, notes: Notes) -> None:
        for column, (count, first) in notes.out_of_range.items():
            owner = "machine" if column in notes.of_machine else "GPU"
            values = f"{count} value{'s' * (count != 1)} that no {owner} has, such as {first}"
            self._progress.print_line(f"{file}: {column}: {values}: left absent")
        for column, (count, reason) in notes.unreadable.items():
            cells = f"{count} cell{'s' * (count != 1)} that cannot be read"
            self._progress.print_line(f"{file}: {column}: {cells}, the first: {reason}: left absent")
        if len(notes.nodes) > 1 and not self._own_nodes:
            names = ", ".join(sorted(notes.nodes)[:_NAMED])
            self._progress.print_line(
                f"{file}: names {len(notes.nodes)} machines ({names}), which --node makes one: GPUs of one "
                "index are one GPU; without --node they are apart"
            )
        if notes.unused:
            self._progress.print_line(f"{file}: not used: {listed(notes.unused, MOST_NAMES)}")
        for remark in (*notes.remarks, *notes.doubtful_units()):
            self._progress.print_line(f"{file}: {remark}")

    def _say_wrong(self, reason: str) -> None:
        self.wrong += 1
        if self.wrong <= _NAMED:
            self._progress.print_line(reason)

    def write(self, trace: TraceWriter) -> dict[str, int]:
        """Write the records; give how many there are of samples, by topic."""
        merged = 0
        written: Counter[str] = Counter()
        with Progress("lines written", self.samples.rows) as progress:

            def done() -> None:
                nonlocal merged
                merged += 1
                progress.show(merged, merged)

            for record in self.samples.records(done):
                trace.write(record)
                written[record.topic.removeprefix(self._prefix)] += 1
        return {topic: written[topic] for topic in TICK_TOPICS if topic in written}


def _has_figures(row: Row) -> bool:
    """Tell whether a row says more than which GPU, and which processes, there are."""
    processes = row.fields.get("processes", ())
    return bool(row.fields.keys() - _IDENTITY - {"processes"}) or any(
        process.keys() - {"pid", "name"} for process in processes
    )


def _why_nothing(notes: Notes) -> str:
    """Say why no line has a figure of a GPU."""
    if notes.figures:
        return f": {listed(notes.figures, MOST_NAMES)} have no value that was measured"
    what = "say which is which: --columns util=NAME,mem_used=NAME[MiB],power=NAME"
    if any("{" in column for column in notes.columns):
        what = (
            "these are series of Prometheus, which dutycycle record --from-prometheus reads from there; or "
            "give each a name such as gpu0_util"
        )
    elif any(column.strip("_").lower() == "value" for column in notes.columns):
        what = (
            "each line has one figure, and another column says which: give each figure a column, as a pivot "
            "table has it; or, if all are of one, name it: --columns util=NAME"
        )
    return f"; its columns are {listed(notes.columns, MOST_NAMES)}: {what}"


def _read_whole(line: str, reader: Reader) -> list[Row]:
    rows = reader.read_rows(line)
    if rows and not line.endswith("\n") and len(line) < LONGEST_LINE:
        raise ValueError("has no end of line, so it may be cut off")
    return rows
