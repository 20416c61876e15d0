"""Kinds from the GPU alone: figures that mean the same at any tick, rest by power and memory."""

from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace

from dutycycle.contract.records.parts import InsightPart
from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import (
    ABSENT_CODE,
    CHANNEL_ROW,
    CHANNELS,
    NVML_CHANNELS,
    SPAN_S,
    codes_to_text,
)
from streams.operators.workload.join import JoinedSpan
from streams.operators.workload.kinds.classifier import WORKLOAD_KINDS
from streams.operators.workload.kinds.curves import GPU_CURVES, Curves, read_curves
from streams.operators.workload.kinds.gpu_classifier import choose_gpu_kind, gpu_kind_probabilities
from streams.operators.workload.kinds.gpu_features import GPU_NAMES, gpu_features, is_even, tries
from streams.operators.workload.kinds.history import ROWS, GpuHistory
from streams.operators.workload.kinds.rest import is_at_rest, is_unused, works_unseen
from streams.operators.workload.recent_minutes import Prices, RecentMinutes
from tests.support.streams.codes import quantize

START_MS = 1_700_000_040_000


def channels(seconds: int, **of: float | Floats) -> Floats:
    values = np.full((len(NVML_CHANNELS), seconds), np.nan)
    for name, value in of.items():
        values[list(NVML_CHANNELS).index(name)] = value
    return values


def fed(
    values: Floats, tick_s: int = 1, minutes: RecentMinutes | None = None, begin_s: int = 0
) -> RecentMinutes:
    """Minutes that took these seconds as ticks of ``tick_s`` see them, each in the span in which it comes."""
    minutes = minutes or RecentMinutes(Prices())
    for part in parts(values, 1, tick_s, begin_s):
        minutes.add(JoinedSpan(part, None))
    return minutes


def parts(values: Floats, gpus: int, tick_s: int = 1, begin_s: int = 0) -> Iterator[InsightPart]:
    codes = quantize("nvml", values.T).T
    for first in range(0, codes.shape[1], 10):
        span = codes[:, first : first + 10].copy()
        ticks = [second for second in range(10) if (first + second) % tick_s == 0]
        if not ticks:
            continue
        if tick_s >= 10:
            span[:, ticks[0] + 1 :] = 255
        yield InsightPart(
            uid="p", source="nvml", start_ms=START_MS + 1000 * (begin_s + first), codes=codes_to_text(span),
            gpus=gpus, tick_ms=None if tick_s == 1 else 1000 * tick_s,
        )  # fmt: skip


def told(minutes: RecentMinutes) -> tuple[str, float]:
    published = minutes.debouncer.published
    assert published is not None
    return published.kind, published.confidence


def training(seconds: int = 2400) -> Floats:
    rng = np.random.default_rng(5)
    util = np.clip(90 + rng.normal(size=seconds) * 3, 0, 100)
    return channels(
        seconds, busiest_gpu_util_pct=util, gpu_util_pct=util, gpu_mem_pct=80 + 6 * rng.normal(size=seconds),
        power_w=300 + 2 * (util - 90), power_pct=75 + (util - 90) / 2,
    )  # fmt: skip


@pytest.mark.parametrize("tick_s", [1, 10, 15, 30, 60])
def test_a_training_is_one_at_any_tick(tick_s: int) -> None:
    kind, confidence = told(fed(training(), tick_s))
    assert kind == "training"
    assert confidence >= 0.75


def test_ranks_that_spin_on_eight_gpus_train() -> None:
    rng = np.random.default_rng(8)
    util = np.where(np.arange(180) < 10, 0, 99 + (rng.uniform(size=180) < 0.5))
    draws = np.where(util > 0, 420 + 8 * rng.normal(size=180), 70) * 8
    copy = np.where(util > 0, 40 + 3 * rng.normal(size=180), 0)
    minutes = RecentMinutes(Prices())
    values = channels(
        180, busiest_gpu_util_pct=util, gpu_util_pct=util, mem_copy_util_pct=copy,
        gpu_mem_pct=np.where(util > 0, 39.0, 0.0), power_w=draws,
    )  # fmt: skip
    for part in parts(values, 8):
        minutes.add(JoinedSpan(part, None))
    kind, confidence = told(minutes)
    assert kind == "training"
    assert confidence >= 0.75


def test_a_server_that_was_loaded_before_its_first_requests_is_told_within_a_minute() -> None:
    rng = np.random.default_rng(9)
    util, at = np.zeros(70), 14
    while at < 70:
        lasts = int(rng.integers(2, 6))
        util[at : at + lasts] = 95
        at += lasts + int(rng.integers(3, 12))
    values = channels(
        70, busiest_gpu_util_pct=util, gpu_util_pct=util, mem_copy_util_pct=0.62 * util, gpu_mem_pct=80.0,
        power_w=np.where(util > 0, 290.0, 100.0),
    )  # fmt: skip
    assert told(fed(values))[0] == "inference"


@pytest.mark.parametrize(("confidence", "kind"), [(0.0, "unknown"), (0.82, "unknown"), (0.99, "training")])
def test_a_sure_cycle_counts_for_minutes_after_it_was_lost(confidence: float, kind: str) -> None:
    rng = np.random.default_rng(4)
    util = np.concatenate((np.linspace(0, 60, 20), 72 + rng.normal(size=880)))
    values = channels(
        900, busiest_gpu_util_pct=util, gpu_util_pct=util, mem_copy_util_pct=0.3 * util, gpu_mem_pct=23.0,
        power_w=100 + 1.5 * util,
    )  # fmt: skip
    minutes = RecentMinutes(Prices())
    for number, part in enumerate(parts(values, 1)):
        told_now = 20 <= number < 30
        cyclic = replace(part, period_s=3.4, period_confidence=confidence) if told_now else part
        minutes.add(JoinedSpan(cyclic, None))
    assert told(minutes)[0] == kind


def loaded(util: float = 0, power: float | Floats = 120.0, memory: float | Floats = 40.0) -> Floats:
    return channels(150, busiest_gpu_util_pct=util, gpu_util_pct=util, gpu_mem_pct=memory, power_w=power)


def test_a_loaded_model_that_nobody_asks_is_idle_after_a_minute() -> None:
    assert told(fed(loaded()[:, :90]))[0] == "idle"


@pytest.mark.parametrize(
    ("values", "rests"),
    [
        (loaded(), True),
        (loaded(util=6), False),
        (loaded(power=np.where(np.arange(150) % 6 < 3, 240.0, 120.0)), False),
        (loaded(power=np.nan), False),
        (loaded(memory=np.linspace(10, 40, 150)), False),
        (loaded(memory=np.nan), True),
        (loaded(util=np.nan, power=3.0), True),
        (loaded(util=np.nan, power=60.0), False),
    ],
)
def test_what_draws_or_fills_is_not_at_rest(values: Floats, rests: bool) -> None:
    everything = np.full((len(CHANNELS), values.shape[1]), np.nan)
    everything[: len(values)] = values
    assert is_at_rest(everything, 1.0, 1) == rests


@pytest.mark.parametrize("tick_s", [0.1, 1, 1.6, 2, 5, 10, 30, 60])
@pytest.mark.parametrize(("busy_s", "unused"), [(0, True), (1, False)])
def test_a_gpu_is_unused_at_any_tick(tick_s: float, busy_s: int, unused: bool) -> None:
    """A tick is of the whole seconds that it measures."""
    everything = np.full((len(CHANNELS), 240), np.nan)
    util = everything[CHANNEL_ROW["busiest_gpu_util_pct"]]
    moments = np.arange(0, 240, max(tick_s, 1.0)).astype(int)
    util[(moments[:, np.newaxis] + np.arange(max(int(tick_s), 1))).clip(max=239)] = 0.0
    util[240 - busy_s :] = 50.0
    assert is_unused(everything, tick_s) == unused
    util[:200] = np.nan
    assert not is_unused(everything, tick_s), "two thirds of a minute are no minute"
    assert not is_unused(np.full_like(everything, np.nan), tick_s)


@pytest.mark.parametrize("tick_s", [1, 1.3, 1.6, 2, 5, 10])
def test_a_gpu_rests_though_its_source_misses_ticks(tick_s: float) -> None:
    missing, everything = np.arange(240) // tick_s % 3 == 0, np.full((len(CHANNELS), 240), np.nan)
    seen = np.zeros(240, bool)
    moments = np.arange(0, 240, tick_s).astype(int)
    seen[(moments[:, np.newaxis] + np.arange(int(tick_s))).clip(max=239)] = True
    for name, value in (("busiest_gpu_util_pct", 0.0), ("power_w", 60.0), ("gpu_mem_pct", 20.0)):
        everything[CHANNEL_ROW[name], seen & ~missing] = value
    assert is_unused(everything, tick_s)
    assert is_at_rest(everything, tick_s, 1)


@pytest.mark.parametrize(("share", "unused"), [(0.1, True), (0.9, False)])
def test_little_work_all_the_time_is_use_and_a_blip_is_none(share: float, unused: bool) -> None:
    everything = np.full((len(CHANNELS), 240), np.nan)
    everything[CHANNEL_ROW["busiest_gpu_util_pct"]] = np.where(np.arange(240) % 10 < 10 * share, 2.0, 0.0)
    assert is_unused(everything, 1.0) == unused


@pytest.mark.parametrize("second", [0, 4, 9])
@pytest.mark.parametrize("tick_s", [5, 10])
def test_a_gpu_at_rest_is_idle_wherever_in_a_span_its_ticks_come(tick_s: int, second: int) -> None:
    """A tick measures seconds of the span before its own, too."""
    minutes, values = RecentMinutes(Prices()), loaded()[:, :10]
    for first in range(0, 150, 10):
        codes = quantize("nvml", values.T).T.copy()
        if tick_s == 10:
            codes[:, second + 1 :] = ABSENT_CODE
        else:
            codes[:, second % 5 + 6 :] = ABSENT_CODE
        span = InsightPart(
            uid="p", source="nvml", start_ms=START_MS + 1000 * first, codes=codes_to_text(codes),
            gpus=1, tick_ms=1000 * tick_s,
        )  # fmt: skip
        minutes.add(JoinedSpan(span, None))
        assert first >= 40 or told(minutes)[0] == "unknown"
    assert told(minutes) == ("idle", 0.95)


def test_a_gpu_far_above_what_idle_ones_draw_is_not_at_rest() -> None:
    everything = np.full((len(CHANNELS), 150), np.nan)
    everything[: len(NVML_CHANNELS)] = loaded()
    everything[CHANNEL_ROW["power_pct"]] = 40.0
    assert not is_at_rest(everything, 1.0, 1)


SWINGS = np.where(np.arange(240) % 60 < 30, 1700.0, 620.0)
"""Power of eight GPUs that work between ticks, at ticks of half a minute."""


@pytest.mark.parametrize(("tick_s", "power", "works"), [
    (30.0, SWINGS, True), (10.0, SWINGS, True),
    (5.0, SWINGS, False),  # of finer ticks utilization shows it
    (30.0, 620.0, False), (30.0, np.nan, False),
    (30.0, np.where(SWINGS > 700, 12.0, 10.0), False),  # two watts are none
])  # fmt: skip
def test_power_that_moves_between_ticks_far_apart_is_work_that_they_do_not_see(
    tick_s: float, power: float | Floats, works: bool
) -> None:
    everything = np.full((len(CHANNELS), 240), np.nan)
    everything[CHANNEL_ROW["busiest_gpu_util_pct"]] = 0.0
    everything[CHANNEL_ROW["power_w"]] = power
    assert works_unseen(everything, tick_s) == works


@pytest.mark.parametrize(("power", "kind"), [(SWINGS, "unknown"), (620.0, "idle")])
def test_a_gpu_whose_power_moves_between_ticks_is_not_idle_however_sure_the_model_is(
    power: float | Floats, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = np.eye(len(WORKLOAD_KINDS))[WORKLOAD_KINDS.index("idle")]
    monkeypatch.setattr("streams.operators.workload.recent_minutes.gpu_kind_probabilities", lambda *_of: idle)
    memory = np.linspace(10, 40, 240)  # by which it is not at rest, and the model decides
    values = channels(240, busiest_gpu_util_pct=0.0, gpu_util_pct=0.0, gpu_mem_pct=memory, power_w=power)
    assert told(fed(values, 30))[0] == kind


@pytest.mark.parametrize(("tick_s", "parts_until_told"), [(1, 3), (10, 3), (20, 2), (30, 2), (60, 2)])
def test_what_was_thought_before_counts_by_time_and_not_by_tick(
    tick_s: int, parts_until_told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At ticks of half a minute two of them are six spans, and the model's other mind is told with them."""
    sure = np.eye(len(WORKLOAD_KINDS))
    answers = [sure[WORKLOAD_KINDS.index("training")]]
    monkeypatch.setattr(
        "streams.operators.workload.recent_minutes.gpu_kind_probabilities", lambda *_of: answers[-1]
    )
    every = [*parts(training(600), 1, tick_s)]
    minutes, before = RecentMinutes(Prices()), 5
    for part in every[:before]:
        minutes.add(JoinedSpan(part, None))
    assert told(minutes)[0] == "training"
    answers.append(sure[WORKLOAD_KINDS.index("inference")])
    count = 0
    while told(minutes)[0] == "training":
        minutes.add(JoinedSpan(every[before + count], None))
        count += 1
    assert (told(minutes)[0], count) == ("inference", parts_until_told)


def test_nothing_measured_is_not_known_for_sure() -> None:
    kind, confidence = told(fed(channels(120, gpu_mem_pct=50.0)))
    assert kind == "unknown"
    assert confidence < 0.5


def test_a_snapshot_goes_on_as_if_nothing_had_been() -> None:
    values = training(1200)
    whole, first, second = fed(values, 30), fed(values[:, :600], 30), RecentMinutes(Prices())
    second.restore(first.snapshot())
    assert fed(values[:, 600:], 30, second, begin_s=600).snapshot() == whole.snapshot()


def spans(seed: int, count: int = 60) -> Floats:
    rng = np.random.default_rng(seed)
    mean = rng.uniform(40, 90, count)
    rows = {"mean": mean, "least": mean - 5, "most": mean + 5, "copy": mean / 2, "power_pct": mean * 0.8,
            "power_w": 3 * mean, "memory": np.full(count, 50.0)}  # fmt: skip
    return np.stack([rows[name] for name in ROWS])


def test_what_is_absent_is_not_zero() -> None:
    values = spans(1)
    values[ROWS.index("memory")] = values[ROWS.index("power_w")] = np.nan
    values[ROWS.index("power_pct")] = np.nan
    found = gpu_features(values, 1.0, 1, None)
    assert found is not None
    absent = {name for name, value in zip(GPU_NAMES, found, strict=True) if np.isnan(value)}
    assert {"mem_level", "mem_moves", "power_busy", "power_over", "power_follows", "busy_noise"} <= absent
    fitted = read_curves(GPU_CURVES)
    row = Curves(fitted.knots.values(), may_be_absent=True).terms(found)
    assert tuple(fitted.knots) == GPU_NAMES
    assert row.size == len(fitted.weights) == 1 + sum(2 + len(bends) for bends in fitted.knots.values())
    assert np.isfinite(row).all()
    assert gpu_kind_probabilities(found, 0.0).sum() == pytest.approx(1)
    assert gpu_features(np.full((len(ROWS), 5), np.nan), 1.0, 1, None) is None


def figure(name: str, values: Floats, tick_s: float = 1.0, gpus: int = 1) -> float:
    found = gpu_features(values, tick_s, gpus, None)
    assert found is not None
    return float(found[GPU_NAMES.index(name)])


def test_memory_counts_as_loaded_before_work_only_where_the_gpu_rests_at_first() -> None:
    rests = spans(3)
    rests[:3, :4] = 0.0
    rests[ROWS.index("memory"), :4] = 80.0
    assert figure("begins_loaded", rests) == pytest.approx(0.8)
    assert np.isnan(figure("begins_loaded", spans(3))), "it works at the first span: nobody saw the beginning"
    rests[ROWS.index("memory"), 0] = np.nan
    assert np.isnan(figure("begins_loaded", rests))


def test_that_nothing_moves_is_told_by_how_many_gpus_there_are_and_only_of_fine_ticks() -> None:
    still = spans(4)
    still[ROWS.index("least")] = still[ROWS.index("most")]
    assert figure("still_alone", still) == 1.0
    assert np.isnan(figure("still_alone", still, gpus=8))
    assert figure("still_together", still, gpus=8) == 1.0
    assert figure("still_together", spans(4), gpus=8) == 0.0
    assert np.isnan(figure("still_together", still, tick_s=30.0, gpus=8)), "a tick alone has no range"


def even_work(level: float, noise: float, tick_s: int = 1, pauses: int = 0, memory: float = 40.0) -> Floats:
    """Spans of twenty minutes of work that begins in the second of them, as ticks of that length see it."""
    rng = np.random.default_rng(6)
    util = np.clip(level + noise * rng.normal(size=1200), 0, 100).round()
    util[:14] = 0
    for number in range(pauses):
        util[300 + 300 * number :][:10] = 0.1 * level
    held = np.repeat(util[tick_s - 1 :: tick_s], tick_s)
    ticks: Floats = held.reshape(-1, 10)
    of = {"mean": ticks.mean(axis=1), "least": ticks.min(axis=1), "most": ticks.max(axis=1),
          "memory": np.linspace(40.0, memory, 120)}  # fmt: skip
    return np.stack([of.get(name, np.full(120, np.nan)) for name in ROWS])


@pytest.mark.parametrize("tick_s", [1, 2, 10, 30])
@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize(("level", "gpus", "rhythm", "even"), [
    (72, 8, 0.0, True), (72, 1, 0.0, True), (100, 1, 0.0, True),
    (100, 1, 0.9, True),  # a loop has a rhythm of copies
    (72, 1, 0.9, False), (97, 8, 0.0, False),
])  # fmt: skip
def test_work_is_even_at_any_tick_and_with_noise(
    tick_s: int, noise: float, level: float, gpus: int, rhythm: float, even: bool
) -> None:
    assert is_even(even_work(level, noise, tick_s), tick_s, gpus, rhythm) is even


@pytest.mark.parametrize("tick_s", [1, 10])
def test_work_that_pauses_twice_or_whose_memory_moves_is_not_even(tick_s: int) -> None:
    assert is_even(even_work(72, 2, tick_s, pauses=1), tick_s, 1, 0.0)
    assert not is_even(even_work(72, 2, tick_s, pauses=2), tick_s, 1, 0.0)
    assert not is_even(even_work(72, 2, tick_s, memory=300.0), tick_s, 1, 0.0)
    assert not is_even(even_work(72, 2, tick_s, memory=np.nan), tick_s, 1, 0.0), (
        "nobody knows whether it stays"
    )


def test_the_first_ticks_of_work_show_no_pause() -> None:
    values = even_work(72, 0, 10)[:, :3].copy()
    assert is_even(values, 10.0, 8, 0.0), "a tick at half of its work, and one at all of it"
    values[:3, :2] = 0.0
    assert is_even(values, 10.0, 8, 0.0), "what was before its work is no pause of it"
    assert not is_even(np.zeros((len(ROWS), 3)), 10.0, 8, 0.0), "nothing was done"


@pytest.mark.parametrize("begin_s", range(10, 20))
def test_in_which_span_a_model_is_loaded_changes_no_figure_of_the_work_after_it(begin_s: int) -> None:
    """Twelve seconds at a tenth, and then all of it."""
    util = np.where(np.arange(300) < begin_s, 0.0, 70.0)
    util[begin_s : begin_s + 12] = 10.0
    values = channels(300, busiest_gpu_util_pct=util, gpu_util_pct=util, gpu_mem_pct=50.0)
    codes = np.full((len(CHANNELS), 300), ABSENT_CODE, np.uint8)
    codes[: len(NVML_CHANNELS)] = quantize("nvml", values.T).T
    history = GpuHistory()
    history.add(codes, 30)
    assert [figure(name, history.values()) for name in ("spread", "level", "depth")] == [0.0, 0.7, 1.0]


def test_a_cycle_is_evidence_of_training() -> None:
    found = gpu_features(spans(2), 1.0, 1, None)
    assert found is not None
    assert gpu_kind_probabilities(found, 1.0)[0] > gpu_kind_probabilities(found, 0.0)[0]


def burst(begin_s: int, seconds: int = 40, memory: float = 80.0) -> Floats:
    """A model in memory, nothing for a while, then two seconds of work in each seven."""
    at = np.arange(seconds)
    util = np.where((at >= begin_s) & ((at - begin_s) % 7 < 2), 95.0, 0.0)
    return channels(
        seconds, busiest_gpu_util_pct=util, gpu_util_pct=util, mem_copy_util_pct=0.6 * util,
        gpu_mem_pct=memory, power_w=np.where(util > 0, 290.0, 40.0),
    )  # fmt: skip


def test_a_loaded_server_is_told_with_the_first_requests() -> None:
    quiet = fed(burst(99, 20))
    assert told(quiet)[0] == "unknown"
    assert told(fed(burst(21, 30)))[0] == "inference"


def test_a_kernel_in_a_loop_on_one_gpu_is_no_training_in_its_first_minute() -> None:
    at = np.arange(50)
    values = channels(
        50, busiest_gpu_util_pct=np.where(at < 2, 0, 100), gpu_util_pct=np.where(at < 2, 0, 100),
        gpu_mem_pct=90.0, power_w=np.where(at < 2, 10, 30), power_pct=np.where(at < 2, 10, 28),
    )  # fmt: skip
    minutes = RecentMinutes(Prices())
    for part in parts(values, 1):
        minutes.add(JoinedSpan(part, None))
        assert told(minutes)[0] == "unknown"


@pytest.mark.parametrize(("chance", "kind"), [(0.84, "unknown"), (0.86, "idle")])
def test_a_model_that_knows_no_power_has_to_be_surer_that_a_gpu_is_idle(chance: float, kind: str) -> None:
    probabilities = np.zeros(len(WORKLOAD_KINDS))
    probabilities[[WORKLOAD_KINDS.index("idle"), WORKLOAD_KINDS.index("training")]] = chance, 1 - chance
    assert choose_gpu_kind(probabilities, None, GpuHistory()).kind == kind


@pytest.mark.parametrize(("uses", "kind"), [(1, "unknown"), (2, "interactive")])
def test_who_works_by_hand_begins_again(uses: int, kind: str) -> None:
    history, codes = GpuHistory(), np.full((len(CHANNELS), 60), ABSENT_CODE, np.uint8)
    codes[CHANNEL_ROW["busiest_gpu_util_pct"]] = 0
    for use in range(uses):
        codes[CHANNEL_ROW["busiest_gpu_util_pct"], 10 + 20 * use : 20 + 20 * use] = 50
    history.add(codes, 6)
    person = np.eye(len(WORKLOAD_KINDS))[WORKLOAD_KINDS.index("interactive")]
    assert choose_gpu_kind(person, None, history).kind == kind


def test_no_gpu_is_called_idle_before_a_minute_and_a_loaded_model_is_said_soon_after() -> None:
    values = channels(
        150, busiest_gpu_util_pct=0.0, gpu_util_pct=0.0, mem_copy_util_pct=0.0, gpu_mem_pct=21.0,
        power_w=120.0,
    )  # fmt: skip
    minutes = RecentMinutes(Prices())
    answers = []
    for part in parts(values, 1):
        minutes.add(JoinedSpan(part, None))
        answers.append(told(minutes)[0])
    assert answers == ["unknown"] * 5 + ["idle"] * 10
    assert minutes.debouncer.published is not None
    assert minutes.debouncer.published.evidence["loaded_mem_pct"] == 21
    assert "21 % of their memory loaded" in (minutes.debouncer.published.advice or "")


def test_a_blip_while_a_model_is_loaded_is_no_work() -> None:
    util = np.zeros(50)
    util[[8, 21]] = 12
    values = channels(
        50, busiest_gpu_util_pct=util, gpu_util_pct=util, gpu_mem_pct=np.linspace(0, 20, 50), power_w=120.0
    )
    assert told(fed(values))[0] in ("unknown", "loading")


def test_no_kind_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is surer than who reports its steps would be printed as 100% sure."""
    certain = np.zeros(len(WORKLOAD_KINDS))
    certain[WORKLOAD_KINDS.index("training")] = 1.0
    monkeypatch.setattr(
        "streams.operators.workload.recent_minutes.gpu_kind_probabilities", lambda *_of: certain
    )
    assert told(fed(training(600))) == ("training", 0.99)


@pytest.mark.parametrize("tick_s", [1, 15, 30, 60])
@pytest.mark.parametrize("begin_s", [0, 20, 50])
def test_a_frozen_source_is_told_at_any_tick_and_once(tick_s: int, begin_s: int) -> None:
    """Whatever second of a minute its ticks are at: spans without a tick are none."""
    minutes, published = RecentMinutes(Prices()), 0
    for part in parts(training(1200), 1, tick_s, begin_s):
        frozen = part.start_ms >= START_MS + 600_000
        of = replace(part, frozen={"g": START_MS + 1000 * (600 + begin_s)} if frozen else None)
        published += minutes.add(JoinedSpan(of, None)) is not None and frozen
    assert [anomaly.kind for anomaly in minutes.anomalies] == ["frozen"]
    assert published <= 3
    assert told(minutes)[0] == "training", "what a job is at work does not change by nobody seeing it"


def test_of_an_idle_pod_whose_source_repeats_itself_nothing_is_known() -> None:
    minutes = RecentMinutes(Prices())
    for part in parts(loaded()[:, :10].repeat(90, axis=1), 1):
        frozen = part.start_ms >= START_MS + 300_000
        minutes.add(JoinedSpan(replace(part, frozen={"g": START_MS + 200_000} if frozen else None), None))
        assert frozen or part.start_ms < START_MS + 90_000 or told(minutes)[0] == "idle"
    assert told(minutes)[0] == "unknown"


@pytest.mark.parametrize(("spans", "stays_at"), [(29, 0.6), (30, 0.5)])
def test_what_a_pod_was_taken_for_first_is_borne_out_before_it_stays_while_likelier_than_not(
    spans: int, stays_at: float
) -> None:
    history, codes = GpuHistory(), np.full((len(CHANNELS), 10 * spans), ABSENT_CODE, np.uint8)
    codes[: len(NVML_CHANNELS)] = quantize("nvml", training(10 * spans).T).T
    history.add(codes, spans)
    likely = np.array([stays_at, 0.0, 0.0, 0.0, 0.0, 1 - stays_at])
    less = np.array([stays_at - 0.01, 0.0, 0.0, 0.0, 0.0, 1.01 - stays_at])
    assert choose_gpu_kind(likely, "training", history).kind == "training"
    assert choose_gpu_kind(less, "training", history).kind == "unknown"
    assert choose_gpu_kind(likely, None, history).kind == "unknown"


def test_a_cycle_bears_out_that_the_first_work_of_a_pod_is_training() -> None:
    history, codes = GpuHistory(), np.full((len(CHANNELS), 50), ABSENT_CODE, np.uint8)
    codes[: len(NVML_CHANNELS)] = quantize("nvml", training(50).T).T
    history.add(codes, 5)
    trains = np.array([0.7, 0.2, 0.0, 0.0, 0.1, 0.0])
    serves = np.array([0.4, 0.6, 0.0, 0.0, 0.0, 0.0])
    assert choose_gpu_kind(trains, None, history).kind == "unknown"
    assert choose_gpu_kind(trains, None, history, rhythm=0.5).kind == "unknown"
    assert choose_gpu_kind(trains, None, history, rhythm=0.9).kind == "training"
    assert choose_gpu_kind(serves, None, history, rhythm=1.0).kind == "unknown"


def tried(lets_go: bool, run_s: int = 8, rest_s: int = 32, seconds: int = 400) -> Floats:
    """Runs that are alike, with thoughts in between; their memory goes with each, or stays."""
    runs = np.arange(seconds) % (run_s + rest_s) >= rest_s
    util = np.where(runs, 70.0, 0.0)
    begun = np.arange(seconds) >= rest_s
    return channels(
        seconds, busiest_gpu_util_pct=util, gpu_util_pct=util, mem_copy_util_pct=0.4 * util,
        gpu_mem_pct=np.where(runs if lets_go else begun, 25.0, 1.0), power_w=60 + 3 * util,
        power_pct=15 + 0.75 * util,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "share"),
    [
        (tried(lets_go=True), 1.0),
        (tried(lets_go=True)[:, :110], 2 / 3),
        (tried(lets_go=False), 0.0),
        (tried(lets_go=True, run_s=120), 0.0),
        (tried(lets_go=True)[:, :30], 0.0),
    ],
)
def test_tries_are_short_runs_whose_memory_goes_with_them(values: Floats, share: float) -> None:
    history, codes = GpuHistory(), np.full((len(CHANNELS), values.shape[1]), ABSENT_CODE, np.uint8)
    codes[: len(NVML_CHANNELS)] = quantize("nvml", values.T).T
    history.add(codes, values.shape[1] // SPAN_S)
    assert tries(history.values()) == pytest.approx(share)


def test_tries_are_evidence_of_a_person() -> None:
    found = gpu_features(spans(2), 1.0, 1, None)
    assert found is not None
    untried, of_tries = gpu_kind_probabilities(found, 0.0), gpu_kind_probabilities(found, 0.0, 1.0)
    person = WORKLOAD_KINDS.index("interactive")
    assert of_tries[0] < untried[0] / 2
    assert of_tries[person] > untried[person]


@pytest.mark.parametrize(("memory", "minutes", "sure"), [(1.0, 2, 0.85), (1.0, 11, 0.95), (40.0, 2, 0.95)])
def test_a_gpu_that_never_worked_and_holds_nothing_may_be_waiting_for_what_is_loaded(
    memory: float, minutes: int, sure: float
) -> None:
    values = channels(
        60 * minutes, busiest_gpu_util_pct=0.0, gpu_util_pct=0.0, gpu_mem_pct=memory, power_w=60.0
    )
    assert told(fed(values)) == ("idle", sure)
