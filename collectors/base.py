"""Defines what a collector is: one subsystem, asked once a tick, that answers with records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.health import GpuEvent
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.records.samples import CgroupSample, CudaSample, NvmlSample


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Holds one round of the collector loop, the same for every collector.

    ``ts_ms`` is wall-clock (it goes into records), ``monotonic_s`` never steps back (rates are taken
    over it). ``collector`` is new for each start; ``seq`` counts from 0.
    """

    node: str
    collector: str
    seq: int
    ts_ms: int
    interval_ms: int
    monotonic_s: float

    @property
    def head(self) -> dict[str, Any]:
        """Return the fields with which every sample of it begins."""
        return {
            "node": self.node, "collector": self.collector, "seq": self.seq, "ts_ms": self.ts_ms,
            "interval_ms": self.interval_ms,
        }  # fmt: skip


def of_node(
    topic: str, record: NvmlSample | CgroupSample | CudaSample | ProcessSample | GpuEvent
) -> ProducerRecord:
    """Return what a node's record is published as."""
    return ProducerRecord(topic=topic, key=record.node, value=encode(record), ts_ms=record.ts_ms)


class Collector(Protocol):
    """Measures one subsystem. ``collect`` blocks (it is in a thread of its own); raising is a failed tick."""

    name: str

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Measure, now. An empty answer is no failure. An exception is counted; the others go on."""
        ...

    def close(self) -> None:
        """Close what is held: files, connections, the driver."""
        ...
