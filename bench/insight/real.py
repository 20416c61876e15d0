"""Logs of real machines with what is known of them, and what a replay says of each.

A folder holds ``NAME.jsonl.zst``, a trace, of each NAME in ``truth.json``. It is nothing that we may give
away: only the command line names one. ``series`` are those of GPUs, as ``<uuid>/<metric>``.
"""

import hashlib
import pickle
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.generators import Floats
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.derived import Cycle, CycleMetric, Trend, TrendMetric
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.traces.samples import TraceSamples
from streams.local import LocalPipeline
from streams.topology import stages

ACCEPTED = 0.05
"""Relative error up to which a period is one that is accepted beside the true one."""
FULL = 0.995
"""Share of the capacity from which on memory is full,"""
TIMES, LEAST_S = 3, 300.0
"""within so many times of what was told, and so many seconds at least."""
NEAREST = 1.5
"""A moment was measured if a tick came within so many intervals."""
CODE = Path(__file__).parents[2]
KNOWN = ("gpu_util_pct", "mem_used_bytes", "power_w", "mem_total_bytes")


class CycleSpan(msgspec.Struct, frozen=True, array_like=True):
    """From ``begin_s`` to ``end_s`` of a trace a series repeats each ``period_s``, known to a share of
    ``tolerance``. ``grade``: ``clear`` or another; ``why`` it is known."""

    begin_s: float
    end_s: float
    period_s: float
    tolerance: float
    grade: str
    why: str


class SeriesTruth(msgspec.Struct, frozen=True):
    """What is known of one series: its cycles, that it has ``none``, or nothing."""

    spans: tuple[CycleSpan, ...] = ()
    none: Any = None


class TraceTruth(msgspec.Struct, frozen=True):
    """What is known of one trace. ``t0``: when it begins (s since 1970). ``kind`` and ``limit`` of its job:
    None where nobody knows. ``accept``: periods that are no error in any series (s)."""

    source: str
    t0: float
    len_s: float
    series: dict[str, SeriesTruth]
    kind: str | None = None
    limit: tuple[str, ...] | None = None
    accept: tuple[float, ...] = ()


def read_truth(folder: Path) -> dict[str, TraceTruth]:
    """What is known of each trace in ``folder``, by name. Raises ``DutycycleError`` that names what is
    missing or wrong."""
    path = folder / "truth.json"
    try:
        truths = msgspec.json.decode(path.read_bytes(), type=dict[str, TraceTruth])
    except (OSError, msgspec.DecodeError) as error:
        raise DutycycleError(f"{path}: {error}: name a folder with traces and their truth.json") from error
    missing = [name for name in truths if not trace_path(folder, name).is_file()]
    if missing:
        raise DutycycleError(f"{trace_path(folder, missing[0])}: No such file, but {path} has its truth")
    return truths


def trace_path(folder: Path, name: str) -> Path:
    """Where the trace of that name is."""
    return folder / f"{name}.jsonl.zst"


@dataclass(slots=True)
class Measured:
    """The values of one series of samples, and when they were taken (s since 1970)."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def newest(self, moment_s: float) -> float | None:
        """The value at that moment or before; None if there is none yet."""
        place = bisect_right(self.times, moment_s) - 1
        return self.values[place] if place >= 0 else None

    def at(self, moment_s: float, within_s: float) -> float | None:
        """The value that was taken nearest to the moment; None if none was that near."""
        place = bisect_left(self.times, moment_s)
        near = [at for at in (place - 1, place) if 0 <= at < len(self.times)]
        best = min(near, key=lambda at: abs(self.times[at] - moment_s), default=None)
        return None if best is None or abs(self.times[best] - moment_s) > within_s else self.values[best]


@dataclass(slots=True)
class Scored:
    """Forecasts of one kind: how many, how many of them are other than that nothing changes (``made``), how
    many values lay within the interval, how many intervals are ``flat``, without any width, and the sums of
    absolute errors: ``error``, and ``still`` of that nothing changes, of all and of those that were
    ``made``."""

    count: int = 0
    made: int = 0
    inside: int = 0
    flat: int = 0
    error: float = 0.0
    still: float = 0.0
    made_error: float = 0.0
    made_still: float = 0.0

    def add(self, error: float, still: float, *, made: bool, inside: bool, flat: bool) -> None:
        """Take one forecast."""
        self.count, self.inside, self.flat = self.count + 1, self.inside + inside, self.flat + flat
        self.error, self.still = self.error + error, self.still + still
        if made:
            self.made, self.made_error = self.made + 1, self.made_error + error
            self.made_still += still

    def merge(self, other: "Scored") -> None:
        """Add those of ``other``."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def ratio(self) -> float | None:
        """The error of all over that of the newest value; None where that never errs."""
        return self.error / self.still if self.still > 0 else None

    @property
    def made_ratio(self) -> float | None:
        """The same of those that were made."""
        return self.made_error / self.made_still if self.made_still > 0 else None

    @property
    def inside_pct(self) -> float | None:
        """% of values within the interval."""
        return 100 * self.inside / self.count if self.count else None


@dataclass(slots=True)
class CycleScore:
    """Series with a clear cycle where it was found and where not, and series for which another was told."""

    found: int = 0
    missed: int = 0
    wrong: int = 0


@dataclass
class Replayed:
    """What a replay of one trace says, beside its samples. Cycles, trends and GPUs by series or ``uuid``."""

    truth: TraceTruth
    tick_s: float = 0.0
    samples: dict[str, Measured] = field(default_factory=lambda: defaultdict(Measured))
    cycles: dict[str, list[tuple[float, CycleMetric]]] = field(default_factory=lambda: defaultdict(list))
    trends: list[tuple[float, str, TrendMetric]] = field(default_factory=list)
    insights: list[Insight] = field(default_factory=list)

    def take_sample(self, record: ConsumerRecord) -> None:
        """Note the figures of the GPUs of a sample."""
        if record.topic != "nvml-samples" or record.value is None:
            return
        sample = msgspec.json.decode(record.value, type=NvmlSample)
        for gpu in sample.gpus:
            for metric in KNOWN:
                if (value := getattr(gpu, metric)) is not None:
                    series = self.samples[f"{gpu.uuid}/{metric}"]
                    series.times.append(sample.ts_ms / 1000)
                    series.values.append(float(value))

    def take(self, records: Iterable[ProducerRecord]) -> None:
        """Note what is said of GPUs, and of the pod."""
        for record in records:
            if record.topic == "cycles":
                cycle = msgspec.json.decode(record.value or b"", type=Cycle)
                if cycle.subject.kind == "gpu":
                    for metric, rhythm in cycle.metrics.items():
                        said = self.cycles[f"{cycle.subject.gpu}/{metric}"]
                        said.append((cycle.ts_ms / 1000 - self.truth.t0, rhythm))
            elif record.topic == "trends":
                trend = msgspec.json.decode(record.value or b"", type=Trend)
                if trend.subject.kind == "gpu":
                    self.trends += [
                        (trend.ts_ms / 1000, f"{trend.subject.gpu}/{metric}", of)
                        for metric, of in trend.metrics.items()
                    ]
            elif record.topic == "insights":
                insight = msgspec.json.decode(record.value or b"", type=Insight)
                if insight.subject.kind == "pod":
                    self.insights.append(insight)

    def kinds(self) -> Counter[str]:
        """Seconds for which each kind was told; ``none yet`` before the first. Empty if the kind is not
        known."""
        told: Counter[str] = Counter()
        if self.truth.kind is None:
            return told
        changes = [(insight.ts_ms / 1000 - self.truth.t0, insight.kind) for insight in self.insights]
        for (begin_s, kind), (end_s, _) in pairwise([(0.0, "none yet"), *changes, (self.truth.len_s, "")]):
            told[kind] += max(0.0, end_s - begin_s)  # type: ignore[assignment]
        return told

    def kind_shares(self) -> tuple[float, float, float] | None:
        """Shares of the time in which the kind was right, unknown and wrong; None if nobody knows it. Where
        the true one is another than we know, ``unknown`` is right."""
        told = self.kinds()
        total = told.total()
        if not total:
            return None
        wanted = "unknown" if self.truth.kind == "other" else str(self.truth.kind)
        right, silent = told.pop(wanted, 0), told.pop("unknown", 0) + told.pop("none yet", 0)
        return right / total, silent / total, told.total() / total

    def is_limit_right(self) -> bool | None:
        """Whether the last limit is one of those that are right; None if nobody knows."""
        if not self.truth.limit or not self.insights:
            return None
        return self.insights[-1].bottleneck in self.truth.limit

    def score_cycles(self) -> CycleScore:
        """What was told of the series of which something is known."""
        score = CycleScore()
        for series, truth in self.truth.series.items():
            # From when until when which periods were told of a series
            rhythms = sorted(self.cycles.get(series, []), key=lambda answer: answer[0])
            ends = [*(begin_s for begin_s, _ in rhythms[1:]), self.truth.len_s]
            answers = [
                (begin_s, end_s, periods_of(rhythm))
                for (begin_s, rhythm), end_s in zip(rhythms, ends, strict=False)
            ]
            if truth.none is not None:
                score.wrong += any(periods and not self._is_accepted(periods[0]) for _, _, periods in answers)
            for span in truth.spans:
                found = wrong = False
                for begin_s, end_s, periods in answers:
                    right = any(is_near(period_s, span.period_s, span.tolerance) for period_s in periods)
                    found |= right and begin_s < span.end_s + span.period_s and end_s > span.begin_s
                    if periods and not right and span.begin_s <= begin_s < min(end_s, span.end_s):
                        wrong |= not self._is_accepted(periods[0])
                score.wrong += wrong
                if span.grade == "clear":
                    score.found, score.missed = score.found + found, score.missed + (not found)
        return score

    def _is_accepted(self, period_s: float) -> bool:
        return any(is_near(period_s, accepted_s, ACCEPTED) for accepted_s in self.truth.accept)

    @cached_property
    def forecasts(self) -> dict[tuple[str, float], Scored]:
        """Of each metric and horizon (s)."""
        scored: dict[tuple[str, float], Scored] = defaultdict(Scored)
        for ts_s, series, trend in self.trends:
            measured = self.samples.get(series)
            now = None if measured is None else measured.newest(ts_s)
            if measured is None or now is None:
                continue
            within_s = NEAREST * max(1.0, self.tick_of(series))
            for forecast in trend.forecast:
                truth = measured.at(ts_s + forecast.horizon_s, within_s)
                if truth is not None:
                    scored[series.partition("/")[2], forecast.horizon_s].add(
                        abs(forecast.value - truth), abs(now - truth), made=forecast.method != "persistence",
                        inside=forecast.p05 <= truth <= forecast.p95, flat=forecast.p05 == forecast.p95,
                    )  # fmt: skip
        return dict(scored)

    def tick_of(self, series: str) -> float:
        """The median distance of its samples (s); 0 of fewer than two."""
        times: Floats = np.diff(self.samples[series].times)
        return float(np.median(times)) if times.size else 0.0

    def memory_told(self) -> tuple[int, int]:
        """How often it was told that memory runs out, and how often it did not."""
        told = false = 0
        for ts_s, series, trend in self.trends:
            if trend.exhausts_in_s is None:
                continue
            uuid = series.partition("/")[0]
            used, capacity = self.samples[f"{uuid}/mem_used_bytes"], self.samples[f"{uuid}/mem_total_bytes"]
            begin = bisect_right(used.times, ts_s)
            end = bisect_right(used.times, ts_s + max(LEAST_S, TIMES * trend.exhausts_in_s))
            most = max(used.values[begin:end], default=0.0)
            told += 1
            false += not capacity.values or most < FULL * capacity.values[0]
        return told, false


def is_near(period_s: float, true_s: float, tolerance: float) -> bool:
    """Whether a period is the true one to that share of it."""
    return abs(period_s - true_s) <= tolerance * true_s


def periods_of(rhythm: CycleMetric) -> list[float]:
    """The periods that are told, the main one first."""
    if not rhythm.cyclic or rhythm.period_s is None:
        return []
    return [rhythm.period_s, *(other.period_s for other in rhythm.others or ())]


def replay_once(path: Path, truth: TraceTruth, cache: Path, code: str) -> Replayed:
    """Replay a trace, or read what a replay by the same ``code`` left in the folder ``cache``."""
    digest = hashlib.sha256(code.encode() + path.read_bytes()).hexdigest()[:16]
    kept = cache / f"{path.name}.{digest}.pickle"
    if kept.is_file():
        replayed = pickle.loads(kept.read_bytes())  # noqa: S301 - a file that this command wrote itself
        assert isinstance(replayed, Replayed)
        return replace(replayed, truth=truth)
    replayed = replay(path, truth)
    cache.mkdir(parents=True, exist_ok=True)
    for older in cache.glob(f"{path.name}.*.pickle"):
        older.unlink()
    kept.write_bytes(pickle.dumps(replayed))
    return replayed


def digest_of_code() -> str:
    """Of all modules that make something of a trace."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for folder in ("streams", "dutycycle"):
        for module in sorted((CODE / folder).rglob("*.py")):
            digest.update(module.read_bytes())
    return digest.hexdigest()


def replay(path: Path, truth: TraceTruth) -> Replayed:
    """Replay a trace in process."""
    pipeline, replayed = LocalPipeline(stages(Settings())), Replayed(truth)
    for record in TraceSamples([str(path)], DEFAULT_PREFIX):
        replayed.take_sample(record)
        replayed.take(pipeline.feed(record))
    replayed.take(pipeline.close())
    ticks = sorted(replayed.tick_of(series) for series in replayed.samples)
    replayed.tick_s = ticks[len(ticks) // 2] if ticks else 0.0
    return replayed
