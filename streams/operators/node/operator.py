"""Computes all that is known of a node from one source topic: windows, trends, cycles, peaks of pods, spans
and usage.

There is one operator for each of ``nvml-samples``, ``cgroup-samples`` and ``cuda-samples``; they differ in
the reader alone. A sample is decoded and becomes a tick in columns. Ticks wait until something is asked of
the banks, and then each bank takes all of them in one call; banks keep their state in columns over all series
of the node. Trends, cycles and spans need order and take only ticks newer than the last; windows and peaks
take late ones as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any
from zlib import crc32

import numpy as np

from dutycycle.contract.analyses import ANALYSES
from dutycycle.contract.catalogue import ACTIVITY_METRICS, WINDOW_METRICS
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.hours import HOUR_MS, MINUTE_MS
from dutycycle.contract.topics import TOPICS
from dutycycle.telemetry.events import SAMPLE_LATE
from streams.operators.base import CountedEvent, Emission, NodeModels, Operator, Snapshot, no_models
from streams.operators.columns.arrays import BEFORE_MS, Ints, check_version
from streams.operators.columns.block import TickBlock, TickQueue
from streams.operators.columns.series import ColumnIndex, Series
from streams.operators.columns.template import TickReader
from streams.operators.columns.tick import Layout, TickRow
from streams.operators.cycles.result import NO_CYCLE
from streams.operators.keyed import decode_under_key
from streams.operators.node import records
from streams.operators.node.analysis import ANALYSIS, AnalysisBank, AnalysisConfig, Evaluation
from streams.operators.node.frozen import FrozenGpus
from streams.operators.node.gpus import NodeGpus
from streams.operators.node.watermark import Held, Timeline
from streams.operators.node.window import NodeWindows, WindowBank
from streams.operators.node.window_records import WindowRecords
from streams.operators.peaks.node import NodePeakBank
from streams.operators.peaks.tally import PeakTally
from streams.operators.usage.bank import UsageBank
from streams.operators.workload.spans import SpanBank

SNAPSHOT_VERSION = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Says what is computed of a node, with times in milliseconds.

    ``topic`` is without prefix; ``source`` is ``nvml``, ``cgroup`` or ``cuda``. ``sizes_ms``: lengths of the
    windows. ``lateness_ms``: how long a window waits for late ticks. A series is forgotten after
    ``retire_ms`` without a tick of it, the whole node after ``evict_ms``.

    ``evaluate_ms``: how often, in event time, cycles are looked for and trends are forecast, by ``analysis``,
    and the span that has ended is sent. That is so often after the node's first tick: what is found
    depends on the samples alone, and nodes that began at other moments do it at others. The ledger and the
    day's peaks, which say the same whenever they do, are written at a moment within a minute that follows
    from the node's name. Windows of all nodes close together, at full tens of seconds, and their records
    would wait for all that. ``models``: makes what a user brings beside, of a node and source.

    ``analyses``: which of ``contract.analyses`` are computed; ``window_metrics``: what windows are made of.
    """

    topic: str
    source: str
    sizes_ms: tuple[int, ...] = (10_000, 60_000)
    lateness_ms: int = 10_000
    retire_ms: int = 600_000
    evict_ms: int = 86_400_000
    evaluate_ms: int = 10_000
    analysis: AnalysisConfig = ANALYSIS
    models: Callable[[str, str], NodeModels] = no_models
    analyses: frozenset[str] = frozenset(ANALYSES)
    window_metrics: frozenset[str] = WINDOW_METRICS

    def source_for(self, analysis: str) -> str:
        """Return the source, or an empty one where the analysis is off: its bank takes nothing and says
        nothing."""
        return self.source if analysis in self.analyses else ""

    def choice(self) -> list[list[str]]:
        """Return what a state depends on, as plain data."""
        return [sorted(self.analyses), sorted(self.window_metrics)]


class NodeOperator(Operator):
    """Keeps the state of one node for one source topic. All columns are those of ``_index``."""

    def __init__(self, config: NodeConfig, node: str, reader: TickReader[Any]) -> None:
        self._config = config
        self._node = node
        self._reader = reader
        self._timeline = Timeline()
        # When in a minute it is its turn: never in the first two of each ten seconds
        tens, rest_ms = divmod(crc32(node.encode()) % MINUTE_MS, 10_000)
        self._minute_offset_ms = tens * 10_000 + 2_000 + rest_ms * 4 // 5
        self._empty()

    def _empty(self) -> None:
        self._peaks = PeakTally(self._node, self._config.source_for("peaks"))
        self._usage = UsageBank(self._node, self._config.source_for("usage"))
        self._days = NodePeakBank(self._node, self._config.source_for("peaks"))
        self._begin_epoch(0)

    def _begin_epoch(self, first_ms: int) -> None:
        """Let time begin at ``first_ms``, before what was taken to be now. What needs the order of time
        begins anew; peaks, hours and days go on, because their sums and maxima do not need it."""
        self._peaks.set_back(first_ms)
        self._index: ColumnIndex[Series] = ColumnIndex()
        self._last_seen: Ints = np.zeros(0, np.int64)
        self._gpus = NodeGpus(self._node)
        config, has_windows = self._config, "windows" in self._config.analyses
        self._windows = NodeWindows(
            WindowBank(config.sizes_ms if has_windows else (), config.lateness_ms),
            config.window_metrics if has_windows else (),
            WindowRecords(self._node, config.source),
            self._gpus,
        )
        self._analysis = AnalysisBank(self._config.analysis)
        self._spans = SpanBank(self._node, self._config.source_for("insights"), self._timeline.epoch_ms)
        self._frozen = FrozenGpus()
        self._models = self._config.models(self._node, self._config.source)
        self._last_ms = self._closed_ms = -1
        self._evaluation_offset_ms = 0
        self._waiting = TickQueue()

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take one sample. Raises ``DecodeError``, and changes nothing, if it cannot be used."""
        tick = self._read(record.value)
        before = self._timeline.watermark_ms
        ticks, events = self._timeline.admit(tick, record.value or b"")
        emissions: list[Emission] = list(events)
        if ticks and before is not None and ticks[0].ts_ms - before > self._config.evict_ms:
            # The same as for a node that was evicted, whether or not that has happened in the meantime.
            emissions += self.close()
            usage, days = self._usage, self._days
            self._empty()
            if self._timeline.has_before(ticks[0]):
                # It was not silent: its clock was set forward, and what it left may come back.
                self._usage.take_left(usage, ticks[0].ts_ms)
                self._days.take_left(days, ticks[0].ts_ms)
        elif before is not None and (self._timeline.watermark_ms or 0) < before:
            emissions += self.close()
            self._begin_epoch(ticks[0].ts_ms)
        for tick in ticks:
            if tick.ts_ms <= self._last_ms:
                # No newer than the last: for windows and peaks alone
                self._feed()
                columns, block = self._add_columns(tick.layout), TickBlock([tick])
                self._last_seen[columns] = np.maximum(self._last_seen[columns], tick.ts_ms)
                self._peaks.extend(block)
                if not self._windows.extend(block, self._index, self._last_ms):
                    emissions.append(CountedEvent(SAMPLE_LATE.name))
                continue
            if self._last_ms < 0:
                # Jitter of less than half a second moves no tick over that moment.
                self._evaluation_offset_ms = (tick.ts_ms + BEFORE_MS) % self._config.evaluate_ms
            if self._waiting.accepts(tick):
                emissions += self._windows.advance(tick.ts_ms)
            else:
                emissions += self._advance_before(tick)
            self._waiting.add(tick)
            self._last_ms = tick.ts_ms
            emissions += self._models.add(tick)
        return emissions

    def _read(self, data: bytes | None) -> TickRow:
        """Return the tick of a sample, which is decoded unless it is as the last one but for its numbers."""
        if not self._frozen.since_ms and (tick := self._reader.read_unchanged(data)) is not None:
            return tick
        topic = self._config.topic
        record_type: type[Any] = TOPICS[topic].record
        sample = decode_under_key(record_type, data, topic, key=self._node, field="node")
        if self._frozen.since_ms:
            return self._reader.read(self._frozen.checked(sample))
        return self._reader.read(sample, data or b"")

    def _advance_before(self, tick: TickRow) -> list[Emission]:
        """Give the ticks that wait to all banks, and return what is due before ``tick``, which cannot wait
        with them. Nothing of the tick itself is in that."""
        self._feed()
        ts_ms, last_ms, config = tick.ts_ms, self._last_ms, self._config
        emissions: list[Emission] = []
        if last_ms >= 0 and ts_ms >= _after(last_ms, config.evaluate_ms, self._evaluation_offset_ms):
            # Trends, cycles and the span that has ended: as of the last tick, and before columns are retired
            # or added
            self._frozen.judge(last_ms)
            self._spans.set_frozen(self._frozen.since_ms)
            emissions += self._emit_analysis(self._analysis.evaluate(last_ms)) + self._spans.ended()
            if self._gpus.is_due:
                self._gpus.make_part(self._usage)
            self._retire(last_ms - config.retire_ms)
            self._windows.end(ts_ms)  # now, and not when those of all nodes close
        self._windows.end(ts_ms - config.lateness_ms)
        emissions += self._windows.advance(ts_ms) + self._spans.advance(ts_ms)
        # The hour and the day that are over; in the node's own moment of each minute what they have so far
        emissions += self._usage.advance(ts_ms) + self._days.advance(ts_ms)
        if ts_ms >= _after(last_ms, MINUTE_MS, self._minute_offset_ms):
            emissions += self._usage.flush() + self._days.flush()
        self._add_columns(tick.layout)
        self._waiting.due_ms = min(
            _after(ts_ms, config.evaluate_ms, self._evaluation_offset_ms),
            self._windows.bank.due_after(ts_ms), self._spans.due_ms,
            _after(ts_ms, HOUR_MS), _after(ts_ms, MINUTE_MS, self._minute_offset_ms),
        )  # fmt: skip
        return emissions

    def _feed(self) -> None:
        """Let no tick wait any more."""
        block = self._waiting.drain()
        if block is None:
            return
        series = block.layout.series
        if "cycles" in self._config.analyses:
            readings = None
            if block.readings is not block.values:
                readings = self._index.spread(series, block.readings)
            self._analysis.extend(block, self._index.spread(series, block.values), readings)
        if self._config.source == "nvml":  # whatever is computed: figures of a frozen GPU are in none of it
            self._frozen.extend(block)
        self._last_seen[self._index.columns(series)] = block.times[-1]
        self._spans.extend(block)
        self._windows.extend(block, self._index)
        self._usage.extend(block)
        self._days.extend(block)
        self._peaks.extend(block)

    def _add_columns(self, layout: Layout) -> Ints:
        """Return the columns of a layout's series in ``_index``, shape (n,); new series get new ones."""
        known = len(self._index)
        columns = self._index.columns(layout.series)
        if len(self._index) > known:
            keep = np.arange(len(self._index))
            keep[known:] = -1
            self._resize(keep)
        return columns

    def _resize(self, keep: Ints) -> None:
        """Rearrange all banks: column j of ``_index`` was column ``keep[j]``, -1 is a new one."""
        self._windows.resize(self._index.ids, keep)
        self._last_seen = np.where(keep >= 0, np.append(self._last_seen, 0)[keep], 0)
        self._analysis.resize(self._index.ids)

    def _emit_analysis(self, analysis: Evaluation) -> list[Emission]:
        """Return records of what was found and of what models say, and give it to the spans and GPUs that it
        is about."""
        if not analysis.cycles and not analysis.trend_series:
            return self._models.evaluate(analysis.ts_ms)
        for column, cycle in analysis.cycles_of_subjects():
            # No figure of its pod shows that.
            inside = column.kind == "gpu" and column.metric in ACTIVITY_METRICS
            cycle_of_pod = cycle if inside or column.kind == "pod" else NO_CYCLE
            self._spans.set_cycle(
                column.member, analysis.ts_ms, cycle_of_pod, column.metric if inside else None
            )
        for column, full_ms in analysis.memory_full_ms():
            self._spans.set_memory_full(column.member, full_ms)
        self._gpus.evaluated(analysis)
        trends = records.trends_of(analysis)
        for (kind, member), metrics in trends.items():
            if kind == "pod":
                self._spans.set_trend(member, analysis.ts_ms, metrics)
        emissions = records.analysis_records(self._node, self._config.source, analysis, trends)
        return emissions + self._models.evaluate(analysis.ts_ms)

    def _retire(self, before_ms: int) -> None:
        if not self._peaks.is_stale(before_ms) and (self._last_seen >= before_ms).all():
            return
        known = {column.member for column in self._index.ids}
        retired = self._peaks.retire(before_ms)
        keep: Ints = np.flatnonzero(self._last_seen >= before_ms)
        if len(keep) < len(self._index):
            self._index.retain(keep)
            members = {column.member for column in self._index.ids}
            if "peaks" not in self._config.analyses:  # which say when a pod is gone
                retired = known - members
            self._spans.retain(members)
            self._gpus.retain(members)
            self._models.retain(members)
            self._resize(keep)
        self._usage.forget(retired)

    def flush(self) -> list[Emission]:
        """Return the peaks of the pods that changed, and the part of the node's GPUs if that did."""
        self._feed()
        return self._peaks.flush(self._usage.totals()) + self._gpus.flush()

    def unwritten(self) -> list[Emission]:
        """Return what ledger and day have not written since the node's minute began. The state is as before,
        so this depends on the ticks alone and not on when it is asked for."""
        self._feed()
        return self._usage.unwritten() + self._days.unwritten()

    def close(self) -> list[Emission]:
        """Close the open windows, evaluate a last time, and flush. Held ticks are left out."""
        self._feed()
        self._windows.end(inf)
        emissions = self._windows.advance(inf)
        if self._last_ms > self._closed_ms:
            self._closed_ms = self._last_ms
            emissions += self._emit_analysis(self._analysis.evaluate(self._last_ms))
            self._gpus.make_part(self._usage)
        return emissions + self._spans.close() + self._usage.flush() + self._days.flush() + self.flush()

    def snapshot(self) -> Snapshot:
        """Return plain data; the columns of every bank are those of ``series``."""
        self._feed()
        return {
            "v": SNAPSHOT_VERSION,
            "choice": self._config.choice(),
            "series": [list(column) for column in self._index.ids],
            "last_seen": self._last_seen.tolist(),
            "window_columns": self._windows.columns.tolist(),
            "last_ms": self._last_ms,
            "evaluation_offset_ms": self._evaluation_offset_ms,
            "timeline": self._timeline.snapshot(),
            "windows": self._windows.bank.snapshot(),
            "analysis": self._analysis.snapshot(),
            "peaks": self._peaks.snapshot(),
            "spans": self._spans.snapshot(),
            "gpus": self._gpus.snapshot(),
            "frozen": self._frozen.snapshot(),
            "models": self._models.snapshot(),
            "usage": self._usage.snapshot(),
            "days": self._days.snapshot(),
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for one of another version."""
        check_version(plain, SNAPSHOT_VERSION, "a node")
        if plain["choice"] != self._config.choice():
            raise ValueError("snapshot of a node: made with other DUTYCYCLE_ANALYSES or _WINDOWS_METRICS")
        self._index = ColumnIndex([Series(*column) for column in plain["series"]])
        self._last_seen = np.array(plain["last_seen"], np.int64)
        self._last_ms, self._evaluation_offset_ms = plain["last_ms"], plain["evaluation_offset_ms"]
        self._frozen.restore(plain["frozen"])
        held: list[bytes] = plain["timeline"]["held"]
        self._timeline.restore(plain["timeline"], [Held(self._read(data), data) for data in held])
        self._windows.restore(plain["windows"], self._index.ids, set(plain["window_columns"]))
        self._analysis.restore(plain["analysis"], self._index.ids)
        self._peaks.restore(plain["peaks"])
        self._spans.restore(plain["spans"])
        self._spans.set_frozen(self._frozen.since_ms)
        self._gpus.restore(plain["gpus"])
        self._models.restore(plain["models"])
        self._usage.restore(plain["usage"])
        self._days.restore(plain["days"])


def _after(ts_ms: int, step_ms: int, offset_ms: int = 0) -> int:
    """Return the first multiple of ``step_ms``, plus ``offset_ms``, that is later."""
    return ts_ms - (ts_ms - offset_ms) % step_ms + step_ms
