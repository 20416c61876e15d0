"""Sorts records by time in bounded memory: sorted runs in files, which are merged.

Partitions are read one far ahead of another. In that order a stage would forget a node as silent whose
records are still to come, and an insight would join hours that do not belong together.
"""

import heapq
from collections.abc import Iterator
from pathlib import Path

from dutycycle.contract.topics import TICK_TOPICS
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.contract.trace_reader import TraceReader

_RUN_BYTES = 64 * 1024 * 1024
"""Payloads of a run, which are in memory together."""
ORDER = ("pods", "profiles", *TICK_TOPICS)
"""Of the records of one moment."""


class Sorting:
    """Takes records in any order. ``folder`` has the runs, and is the caller's to remove.

    The order is that of ``ORDER``, partitions and offsets within a moment: it does not depend on how a broker
    mixed the partitions.
    """

    def __init__(self, folder: Path, prefix: str, run_bytes: int = _RUN_BYTES) -> None:
        self._folder, self._run_bytes = folder, run_bytes
        self._places = {prefix + name: place for place, name in enumerate(ORDER)}
        self._records: list[TraceRecord] = []
        self._bytes = 0
        self._runs: list[str] = []
        self.count = 0

    def add(self, record: TraceRecord) -> None:
        """Take one record; it has an offset and a time."""
        self._records.append(record)
        self._bytes += len(record.payload or b"")
        self.count += 1
        if self._bytes >= self._run_bytes:
            self._store()

    def merged(self) -> Iterator[TraceRecord]:
        """Return all of them, in order."""
        self._store()
        runs = ((record for _, record in TraceReader(path)) for path in self._runs)
        return heapq.merge(*runs, key=self._place)

    def _store(self) -> None:
        path = str(self._folder / f"run-{len(self._runs)}.jsonl.zst")
        with TraceWriter(path) as writer:
            for record in sorted(self._records, key=self._place):
                writer.write(record)
        self._runs.append(path)
        self._records, self._bytes = [], 0

    def _place(self, record: TraceRecord) -> tuple[int, int, int, int]:
        return record.ts_ms or 0, self._places[record.topic], record.partition, record.offset or 0
