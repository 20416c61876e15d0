"""Reads log files line by line and writes the trace. Wrong lines are counted, and the first ones named."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from contract.errors import DutycycleError
from contract.trace import TraceWriter
from dutycycle.imports.columns import Reader
from dutycycle.imports.samples import Samples
from dutycycle.process import temporary_folder
from dutycycle.status_line import StatusLine

_NAMED = 5
_LONGEST_LINE = 64 * 1024
_SHOW_EVERY_S = 0.2


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
        StatusLine(every_s=_SHOW_EVERY_S) as status,
    ):
        run = _Import(Samples(folder, prefix, job), status)
        for file, node in files.items():
            run.read(file, node, reader())
        written = run.write(trace)
        for node, interval_ms in run.samples.nodes().items():
            status.line(f"{node}: a tick each {interval_ms / 1000:g} s")
        left_out = f"; left out: {run.wrong} wrong line{'s' * (run.wrong != 1)}" if run.wrong else ""
        status.line(f"imported: {written} nvml-samples from {run.samples.rows} lines{left_out}")


class _Import:
    def __init__(self, samples: Samples, status: StatusLine) -> None:
        self.samples, self._status = samples, status
        self.wrong = 0

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
                    self._status.line(reason)
        if self.samples.rows == before:
            raise DutycycleError(f"{file} has no line of this format; the first: {first_reason or 'none'}")
        if reader.unused:
            self._status.line(f"{file}: not used: {', '.join(reader.unused)}")
        if nameless:
            self._status.line(f"{file}: no column says which GPU: all lines are taken for one")

    def write(self, trace: TraceWriter) -> int:
        """Write the records; how many there are."""
        merged = written = 0

        def done() -> None:
            nonlocal merged
            merged += 1
            self._status.show(f"{100 * merged / self.samples.rows:3.0f} % written")

        for record in self.samples.records(done):
            trace.write(record)
            written += record.topic.endswith("nvml-samples")
        return written

    def _lines(self, file: str) -> Iterator[str]:
        with Path(file).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            read = 0
            while line := stream.readline(_LONGEST_LINE):
                read += len(line)
                share = f"{100 * read / size:3.0f} % of " if size else ""
                self._status.show(f"{share}{file}, {self.samples.rows} lines")
                yield line.decode("utf-8", "replace")
