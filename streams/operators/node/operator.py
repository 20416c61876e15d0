"""The operator of a node: windows, trends, cycles, peaks of pods, spans and usage, from one source topic.

There is one for each of ``nvml-samples``, ``cgroup-samples`` and ``cuda-samples``; they differ in the reader
alone. A sample is decoded, becomes a tick in columns, and goes to each bank; banks keep their state in
columns over all series of the node. Trends, cycles and spans need order and take only ticks newer than the
last; windows and peaks take late ones as well.
"""

from dataclasses import dataclass
from typing import Any, Protocol
from zlib import crc32

import numpy as np

from contract.codec import from_plain
from contract.log import ConsumerRecord, ProducerRecord
from contract.topics import TOPICS
from streams.operators.base import CountedEvent, Emission, Snapshot
from streams.operators.columns.arrays import Ints, check_version
from streams.operators.columns.series import ColumnIndex, Series, are_counters
from streams.operators.columns.tick import Tick
from streams.operators.keyed import decode_under_key
from streams.operators.models.bank import NO_MODELS, ModelBank, ModelsConfig
from streams.operators.node import records
from streams.operators.node.analysis import ANALYSIS, AnalysisBank, AnalysisConfig
from streams.operators.node.gpus import NodeGpus
from streams.operators.node.watermark import Held, Timeline
from streams.operators.node.window import ClosedWindow, WindowBank
from streams.operators.node.window_records import WindowRecords
from streams.operators.peaks.tally import PeakTally
from streams.operators.usage.bank import UsageBank
from streams.operators.workload.spans import SpanBank
from telemetry.events import SAMPLE_LATE

SNAPSHOT_VERSION = 14


class Reader(Protocol):
    """Turns the records of one topic into ticks."""

    def read(self, sample: Any) -> Tick:
        """The tick in columns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Times in milliseconds. ``topic`` is without prefix; ``source`` is ``nvml`` or ``cgroup``. ``sizes_ms``:
    lengths of the windows. ``lateness_ms``: how long a window waits for late ticks. A series is forgotten
    after ``retire_ms`` without a tick of it, the whole node after ``evict_ms``.

    ``evaluate_ms``: how often, in event time, trends and cycles are evaluated, by ``analysis``. Each node has
    its own moment within that time: windows of all nodes close together, and their records would wait for
    the evaluations. ``models``: what a user brings beside.
    """

    topic: str
    source: str
    sizes_ms: tuple[int, ...] = (10_000, 60_000)
    lateness_ms: int = 10_000
    retire_ms: int = 600_000
    evict_ms: int = 86_400_000
    evaluate_ms: int = 10_000
    analysis: AnalysisConfig = ANALYSIS
    models: ModelsConfig = NO_MODELS


class NodeOperator:
    """The state of one node for one source topic. All columns are those of ``_index``."""

    def __init__(self, config: NodeConfig, node: str, reader: Reader) -> None:
        self._config = config
        self._node = node
        self._reader = reader
        self._timeline = Timeline()
        self._evaluation_offset_ms = crc32(node.encode()) % config.evaluate_ms
        self._empty()

    def _empty(self) -> None:
        self._index: ColumnIndex[Series] = ColumnIndex()
        self._last_seen: Ints = np.zeros(0, np.int64)
        self._windows = WindowBank(self._config.sizes_ms, self._config.lateness_ms)
        self._window_records = WindowRecords(self._node, self._config.source)
        self._analysis = AnalysisBank(self._config.analysis)
        self._peaks = PeakTally(self._node, self._config.source)
        self._spans = SpanBank(self._node, self._config.source)
        self._gpus = NodeGpus(self._node)
        self._models = ModelBank(self._node, self._config.source, self._config.models)
        self._usage = UsageBank(self._node, self._config.source)
        self._last_ms = self._closed_ms = -1

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take one sample; raises ``DecodeError`` and changes nothing if it cannot be used."""
        topic = self._config.topic
        record_type: type[Any] = TOPICS[topic].record
        sample = decode_under_key(record_type, record.value, topic, key=self._node, field="node")
        before = self._timeline.watermark_ms
        ticks, events = self._timeline.admit(self._reader.read(sample), sample)
        emissions: list[Emission] = list(events)
        if ticks and before is not None and ticks[0].ts_ms - before > self._config.evict_ms:
            # The same as for a node that was evicted, whether or not that has happened in the meantime.
            emissions += self.close()
            self._empty()
            before = None
        for tick in ticks:
            emissions += self._apply(tick, before if before is not None else tick.ts_ms)
            before = max(tick.ts_ms, before or 0)
        return emissions

    def _apply(self, tick: Tick, watermark_ms: int) -> list[Emission]:
        emissions: list[Emission] = []
        if self._evaluation_due(tick.ts_ms):
            emissions += self._evaluate()  # as of the last tick, and before columns are retired or added
        columns = self._columns(tick)
        row = np.full(len(self._index), np.nan)
        row[columns] = tick.values
        if tick.ts_ms > self._last_ms:
            self._last_ms = tick.ts_ms
            self._last_seen[columns] = tick.ts_ms
            self._analysis.add(tick, row)
            emissions += self._spans.add(tick)
            emissions += self._models.add(tick)
            emissions += self._usage.add(tick)
        else:
            self._last_seen[columns] = np.maximum(self._last_seen[columns], tick.ts_ms)
        if not self._windows.add(tick.ts_ms, row, watermark_ms):
            emissions.append(CountedEvent(SAMPLE_LATE.name))
        self._peaks.add(tick)
        closed = self._windows.advance(max(watermark_ms, tick.ts_ms))
        return emissions + self._closed(closed) if closed else emissions

    def _evaluation_due(self, ts_ms: int) -> bool:
        offset_ms, every_ms = self._evaluation_offset_ms, self._config.evaluate_ms
        return (
            self._last_ms >= 0 and (self._last_ms - offset_ms) // every_ms < (ts_ms - offset_ms) // every_ms
        )

    def _closed(self, closed: list[ClosedWindow]) -> list[Emission]:
        self._gpus.close_windows(self._index.ids, closed)
        return [out for one in closed for out in self._window_records.of(one)]

    def _columns(self, tick: Tick) -> Ints:
        known = len(self._index)
        columns = self._index.columns(tick.layout.series)
        if len(self._index) > known:
            keep = np.arange(len(self._index))
            keep[known:] = -1
            self._resize(keep)
        return columns

    def _resize(self, keep: Ints) -> None:
        self._windows.resize(keep, are_counters(self._index.ids))
        self._window_records.resize(self._index.ids)
        self._last_seen = np.where(keep >= 0, np.append(self._last_seen, 0)[keep], 0)
        self._analysis.resize(self._index.ids)

    def _evaluate(self) -> list[Emission]:
        found = self._analysis.evaluate(self._last_ms)
        for one, cycle in found.cycles_of_subjects():
            if one.kind == "pod":
                self._spans.set_cycle(one.member, found.ts_ms, cycle)
        for one, full_ms in found.memory_full_ms():
            self._spans.set_memory_full(one.member, full_ms)
        self._gpus.evaluated(found)
        trends = records.trends_of(found)
        for (kind, member), metrics in trends.items():
            if kind == "pod":
                self._spans.set_trend(member, found.ts_ms, metrics)
        emissions = records.analysis_records(self._node, self._config.source, found, trends)
        emissions += self._models.evaluate(self._last_ms)
        self._retire(self._last_ms - self._config.retire_ms)
        return emissions

    def _retire(self, before_ms: int) -> None:
        self._usage.forget(self._peaks.retire(before_ms))
        keep: Ints = np.flatnonzero(self._last_seen >= before_ms)
        if len(keep) < len(self._index):
            self._index.retain(keep)
            members = {one.member for one in self._index.ids}
            self._spans.retain(members)
            self._gpus.retain(members)
            self._models.retain(members)
            self._resize(keep)

    def flush(self) -> list[Emission]:
        """The peaks of the pods that changed, and the part of the node's GPUs if that did."""
        parts = self._peaks.parts(self._usage.totals())
        return [ProducerRecord("pod-parts", uid, value, ts) for uid, value, ts in parts] + self._gpus.flush()

    def close(self) -> list[Emission]:
        """Close the open windows, evaluate a last time, and flush. Held ticks are left out."""
        emissions = self._closed(self._windows.close())
        if self._last_ms > self._closed_ms:
            self._closed_ms = self._last_ms
            emissions += self._evaluate()
            self._gpus.close()
        return emissions + self._spans.close() + self._usage.flush() + self.flush()

    def snapshot(self) -> Snapshot:
        """Plain data; the columns of every bank are those of ``series``."""
        return {
            "v": SNAPSHOT_VERSION,
            "series": [list(one) for one in self._index.ids],
            "last_seen": self._last_seen.tolist(),
            "last_ms": self._last_ms,
            "timeline": self._timeline.snapshot(),
            "windows": self._windows.snapshot(),
            "analysis": self._analysis.snapshot(),
            "peaks": self._peaks.snapshot(),
            "spans": self._spans.snapshot(),
            "gpus": self._gpus.snapshot(),
            "models": self._models.snapshot(),
            "usage": self._usage.snapshot(),
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for one of another version."""
        check_version(plain, SNAPSHOT_VERSION, "a node")
        self._index = ColumnIndex([Series(*one) for one in plain["series"]])
        self._last_seen = np.array(plain["last_seen"], np.int64)
        self._last_ms = plain["last_ms"]
        topic, held = self._config.topic, plain["timeline"]["held"]
        samples: list[Any] = [from_plain(TOPICS[topic].record, one, topic) for one in held]
        self._timeline.restore(plain["timeline"], [Held(self._reader.read(one), one) for one in samples])
        self._windows.restore(plain["windows"], are_counters(self._index.ids))
        self._window_records.resize(self._index.ids)
        self._analysis.restore(plain["analysis"], self._index.ids)
        self._peaks.restore(plain["peaks"])
        self._spans.restore(plain["spans"])
        self._gpus.restore(plain["gpus"])
        self._models.restore(plain["models"])
        self._usage.restore(plain["usage"])
