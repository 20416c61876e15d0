"""Reads the samples of a trace as ticks, each once, as the operators take them."""

from collections.abc import Callable
from typing import Any

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.topics import TOPICS
from streams.operators.columns.cgroup import CgroupReader
from streams.operators.columns.cuda import CudaReader
from streams.operators.columns.nvml import NvmlReader
from streams.operators.columns.series import Series, subject_of
from streams.operators.columns.tick import TickRow
from streams.operators.node.watermark import Timeline

_READERS: dict[str, Callable[[str], Any]] = {
    "nvml-samples": NvmlReader,
    "cgroup-samples": lambda _: CgroupReader(),
    "cuda-samples": lambda _: CudaReader(),
}


def subject_key(node: str, series: Series) -> str:
    """Return the key of the subject of a node's series."""
    return subject_of(node, series.kind, series.member).key


class SampleReader:
    """Keeps a reader and a timeline for each node and source."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, str], Any] = {}
        self._timelines: dict[tuple[str, str], Timeline] = {}

    def read(self, record: ConsumerRecord) -> list[TickRow]:
        """Return the ticks that count now; none of a record that is no sample, or a bad one."""
        if record.topic not in _READERS or record.value is None:
            return []
        node, place = record.key or "", (record.topic, record.key or "")
        if place not in self._readers:
            self._readers[place], self._timelines[place] = _READERS[record.topic](node), Timeline()
        kind: type[Any] = TOPICS[record.topic].record
        try:
            sample = decode(kind, record.value, record.topic)
        except DecodeError:
            return []
        if sample.node != node:
            return []
        ticks, _ = self._timelines[place].admit(self._readers[place].read(sample), sample)
        return ticks
