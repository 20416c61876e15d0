"""Reads the samples of a trace as ticks, each once, as the operators take them."""

from typing import Any

from dutycycle.contract.codec import DecodeError
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.topics import TOPICS
from streams.operators.columns.readers import READERS
from streams.operators.columns.series import Series, subject_of
from streams.operators.columns.template import TickReader
from streams.operators.columns.tick import TickRow
from streams.operators.keyed import decode_under_key
from streams.operators.node.watermark import Timeline


def subject_key(node: str, series: Series) -> str:
    """Return the key of the subject of a node's series."""
    return subject_of(node, series.kind, series.member).key


class SampleReader:
    """Keeps a reader and a timeline for each node and source."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, str], TickReader[Any]] = {}
        self._timelines: dict[tuple[str, str], Timeline] = {}

    def read(self, record: ConsumerRecord) -> list[TickRow]:
        """Return the ticks that count now; none of a record that is no sample, or a bad one."""
        if record.topic not in READERS:
            return []
        node, place = record.key or "", (record.topic, record.key or "")
        if place not in self._readers:
            self._readers[place], self._timelines[place] = READERS[record.topic](node), Timeline()
        kind: type[Any] = TOPICS[record.topic].record
        try:
            sample = decode_under_key(kind, record.value, record.topic, key=node, field="node")
        except DecodeError:
            return []
        ticks, _ = self._timelines[place].admit(self._readers[place].read(sample), b"")
        return ticks
