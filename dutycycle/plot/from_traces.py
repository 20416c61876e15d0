"""Reads traces for a picture: samples, windows, cycles and forecasts, as far as they are in there."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.topics import TOPICS
from dutycycle.plot.collected import CollectedSeries
from dutycycle.plot.from_tables import DERIVED
from dutycycle.tables.columns import table
from dutycycle.traces.samples import TraceSamples
from dutycycle.traces.ticks import SampleReader, subject_key
from streams.operators.columns.arrays import Bools
from streams.operators.columns.tick import Layout

_SAMPLES = ("nvml-samples", "cgroup-samples", "cuda-samples")
_TOLD = 1000
_Place = tuple[str, str]


def read_traces(
    traces: Sequence[str], prefix: str, collected: CollectedSeries, progress: Callable[[int], None]
) -> int:
    """Take all of ``traces`` into ``collected``. Returns how many records could not be used. Raises
    ``TraceError``."""
    reader, unusable = _Reader(collected), 0
    for number, record in enumerate(TraceSamples(traces, prefix, ("pods", *_SAMPLES, *DERIVED))):
        try:
            reader.take(record)
        except DecodeError:
            unusable += 1
        if number % _TOLD == 0:
            progress(number)
    reader.close()
    return unusable


def pods_of(traces: Sequence[str], prefix: str, progress: Callable[[int], None]) -> Collection[Pod]:
    """Return the pods that traces name, each as it was named last. Raises ``TraceError``."""
    pod_by_uid: dict[str, Pod] = {}
    records = TraceSamples(traces, prefix, ("pods",))
    for record in records:
        try:
            if record.value is not None:
                pod = decode(Pod, record.value, "pods")
                pod_by_uid[pod.uid] = pod
        except DecodeError:  # reading for the picture counts it
            continue
        progress(records.tally.total())
    return pod_by_uid.values()


@dataclass(slots=True)
class _Columns:
    """Holds the columns of a layout: their series, those that are wanted, and which were measured at all."""

    layout: Layout
    places: list[_Place]
    wanted: list[tuple[int, _Place]]
    measured: Bools


class _Reader:
    """Takes one record after the other."""

    def __init__(self, collected: CollectedSeries) -> None:
        self._collected = collected
        self._samples = SampleReader()
        self._columns: dict[tuple[str, str], _Columns] = {}

    def take(self, record: ConsumerRecord) -> None:
        """Raises ``DecodeError`` for a derived record or a pod that cannot be read."""
        if record.value is None:
            return
        if record.topic in _SAMPLES:
            for tick in self._samples.read(record):
                node, topic = record.key or "", record.topic
                columns = self._columns.get((node, topic))
                if columns is None or columns.layout is not tick.layout:  # a node's stays the same for long
                    self._note(columns)
                    places = [(subject_key(node, column), column.metric) for column in tick.layout.series]
                    wanted = [
                        (column, place)
                        for column, place in enumerate(places)
                        if self._collected.is_wanted(*place)
                    ]
                    measured = np.zeros(len(places), bool)
                    columns = self._columns[node, topic] = _Columns(tick.layout, places, wanted, measured)
                columns.measured |= np.isfinite(tick.values)
                for column, place in columns.wanted:
                    value = float(tick.values[column])
                    if value == value:
                        self._collected.samples[place].add(tick.ts_ms, {"value": value})
            return
        kind: type[Any] = TOPICS[record.topic].record
        decoded = decode(kind, record.value, record.topic)
        if isinstance(decoded, Pod):
            self._collected.named(decoded)
            return
        take, _ = DERIVED[record.topic]
        for row in table(record.topic).rows(decoded, record.ts_ms):
            take(self._collected, row)

    def close(self) -> None:
        """Note the series of all layouts, when all records were read."""
        for columns in self._columns.values():
            self._note(columns)

    def _note(self, columns: "_Columns | None") -> None:
        """Note the series of which anything was measured: of the others only the column is there."""
        if columns is not None:
            for place, measured in zip(columns.places, columns.measured.tolist(), strict=True):
                if measured:
                    self._collected.note(*place)
