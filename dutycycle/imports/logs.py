"""Reads log files line by line and writes the trace. Wrong lines are counted, and the first ones named."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.trace import TraceWriter
from dutycycle.imports.columns import Reader
from dutycycle.imports.samples import Samples
from dutycycle.process import temporary_folder
from dutycycle.progress import Progress

_NAMED = 5
_LONGEST_LINE = 64 * 1024


def import_logs(
    files: Mapping[str, str],
    reader: Callable[[], Reader],
    out: str,
    prefix: str,
    *,
    job: str | None,
    overwrite: bool,
) -> None:
    """Write ``out`` from ``files``, each with its node.

    Raises ``DutycycleError`` for a file with no right line.
    """
    with (
        TraceWriter(out, overwrite=overwrite) as trace,
        temporary_folder() as folder,
        Progress("lines", sum(Path(one).stat().st_size for one in files) or None) as progress,
    ):
        run = _Import(Samples(folder, prefix, job), progress)
        for file, node in files.items():
            run.read(file, node, reader())
        written = run.write(trace)
        for node, interval_ms in run.samples.nodes().items():
            progress.say(f"{node}: a tick each {interval_ms / 1000:g} s")
        left_out = f"; left out: {run.wrong} wrong line{'s' * (run.wrong != 1)}" if run.wrong else ""
        progress.say(f"imported: {written} nvml-samples from {run.samples.rows} lines{left_out}")


class _Import:
    def __init__(self, samples: Samples, progress: Progress) -> None:
        self.samples, self._progress = samples, progress
        self.wrong = 0
        self._read = 0

    def read(self, file: str, node: str, reader: Reader) -> None:
        """Take the lines of one file."""
        before, first_reason, nameless = self.samples.rows, "", False
        for number, line in enumerate(self._lines(file), 1):
            try:
                if (row := reader.row(line)) is not None:
                    self.samples.add(node, row)
                    nameless = nameless or not row.fields.keys() & {"uuid", "index"}
            except ValueError as error:
                self.wrong += 1
                reason = f"{file}:{number}: {error}"
                first_reason = first_reason or reason
                if self.wrong <= _NAMED:
                    self._progress.say(reason)
        if self.samples.rows == before:
            raise DutycycleError(f"{file} has no line of this format; the first: {first_reason or 'none'}")
        if reader.unused:
            self._progress.say(f"{file}: not used: {', '.join(reader.unused)}")
        if nameless:
            self._progress.say(f"{file}: no column says which GPU: all lines are taken for one")

    def write(self, trace: TraceWriter) -> int:
        """Write the records; how many there are."""
        merged = written = 0
        with Progress("lines written", self.samples.rows) as progress:

            def done() -> None:
                nonlocal merged
                merged += 1
                progress.show(merged, merged)

            for record in self.samples.records(done):
                trace.write(record)
                written += record.topic.endswith("nvml-samples")
        return written

    def _lines(self, file: str) -> Iterator[str]:
        with Path(file).open("rb") as stream:
            while line := stream.readline(_LONGEST_LINE):
                self._read += len(line)
                self._progress.show(self._read, self.samples.rows, file)
                yield line.decode("utf-8", "replace")
