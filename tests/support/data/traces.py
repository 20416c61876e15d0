"""Reading a trace file, for tests."""

from collections.abc import Iterator

from contract.trace import TraceRecord
from contract.trace_reader import TraceReader


def read_trace(path: str) -> Iterator[TraceRecord]:
    """The records of a trace file, in order; raises ``TraceError``."""
    return (record for _, record in TraceReader(path))
