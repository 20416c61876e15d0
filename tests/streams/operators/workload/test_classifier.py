"""Kinds: what the model answers, on seeds that nothing was fitted to; what cannot be known is not guessed."""

import numpy as np
import pytest

from bench.bench_kind import f1_by_kind, spans, watched
from bench.generators_jobs import KINDS, TUNED, UNSEEN, Draft, blind, pod
from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import (
    ABSENT_CODE,
    CHANNEL_ROW,
    CHANNELS,
    NVML_CHANNELS,
    codes_from_text,
    codes_to_text,
    dequantize,
)
from streams.operators.workload.kinds import classifier
from streams.operators.workload.kinds.classifier import (
    KindEstimate,
    checked_kind,
    checked_loading,
    choose_kind,
    kind_probabilities,
)
from streams.operators.workload.kinds.curves import POD_CURVES, read_curves
from streams.operators.workload.kinds.features import NAMES, features
from streams.operators.workload.recent_minutes import Prices, RecentMinutes
from tests.support.streams.codes import quantize


@pytest.mark.parametrize("title", ["fitted", "unseen"])
def test_kinds_of_other_seeds(title: str) -> None:
    shapes = TUNED if title == "fitted" else UNSEEN
    said = [one for shape in shapes for seed in (3000, 3001) for one in watched(pod(shape, seed))[0]]
    scores = f1_by_kind(said)
    assert set(scores) == set(KINDS)
    assert np.mean(list(scores.values())) > 0.93, scores
    wrong = [one for one in said if one.kind not in (one.truth, "unknown")]
    assert len(wrong) < 0.05 * len(said)


@pytest.mark.slow  # it makes jobs of an hour
def test_where_the_cpu_is_not_seen_the_gpu_tells_and_is_seldom_wrong() -> None:
    pods = [blind(pod(shape, seed)) for shape in (*TUNED, *UNSEEN) for seed in (3000, 3001)]
    answers = [answer for each in pods for answer in watched(each)[0]]
    asked = [answer for answer in answers if answer.truth in ("training", "idle")]
    assert np.mean([answer.kind == answer.truth for answer in asked]) > 0.5
    sure = [answer for answer in answers if answer.kind != "unknown" and answer.confidence >= 0.9]
    assert np.mean([answer.kind == answer.truth for answer in sure]) > 0.8
    assert max(answer.confidence for answer in answers if answer.kind == "unknown") < 1


@pytest.mark.parametrize(
    ("said", "of", "expected"),
    [
        ("loading", {}, "unknown"),
        ("loading", {"cpu_recent": 0.9, "mem_level": 0.6}, "unknown"),
        ("loading", {"read_recent": 0.4}, "loading"),
        ("loading", {"rx_recent": 0.4}, "loading"),
        ("loading", {"write_recent": 0.4}, "loading"),
        ("loading", {"mem_rise_all": 0.1}, "loading"),
        ("loading", {"host_mem_rise": 0.2}, "loading"),
        ("training", {"util_recent": 0.9, "busy_share": 1}, "training"),
    ],
)
def test_what_features_do_not_bear_out_is_unknown(said: str, of: dict[str, float], expected: str) -> None:
    vector = np.array([of.get(name, 0.0) for name in NAMES])
    found = checked_loading(KindEstimate(said, 0.9), vector)
    assert found.kind == expected
    assert found.confidence == pytest.approx(0.9 if said == expected else 0.1)


@pytest.mark.parametrize("said", ["idle", "loading"])
@pytest.mark.parametrize(
    ("util", "is_used"),
    [
        (np.full(240, 4.0), False),
        (np.full(240, 5.0), True),
        (np.full(240, np.nan), False),
        (np.r_[np.full(210, 90.0), np.zeros(30)], False),
        (np.r_[np.full(220, 90.0), np.zeros(20)], True),
        (np.r_[np.zeros(230), np.full(10, np.nan)], False),
    ],
)
def test_a_gpu_that_is_used_is_neither_idle_nor_loading(said: str, util: Floats, is_used: bool) -> None:
    kind, confidence = ("unknown", 0.1) if is_used else (said, 0.9)
    found = checked_kind(KindEstimate(said, 0.9), util)
    assert found.kind == kind
    assert found.confidence == pytest.approx(confidence)


@pytest.mark.parametrize("util", [4, 5, 6])
def test_a_gpu_that_is_always_as_busy_does_not_load(util: int) -> None:
    """Its pod keeps CPUs busy; no data come and no memory fills."""
    for seed in range(4):
        draft = Draft(np.random.default_rng(seed), 900)
        draft.util[:], draft.cpu[:], draft.mem[:] = util, 60 * 2.0**seed, 5 + 20 * seed
        draft.read[:] = draft.write[:] = draft.rx[:] = draft.tx[:] = 0
        minutes = RecentMinutes(Prices())
        told = {
            one.kind for span in spans(draft.done("held", seed)) if (one := minutes.add(span)) is not None
        }
        assert told
        assert "loading" not in told, seed


def test_the_weights_fit_the_features() -> None:
    fitted = read_curves(POD_CURVES)
    assert tuple(fitted.knots) == NAMES
    assert len(fitted.weights) == 1 + sum(1 + len(bends) for bends in fitted.knots.values())
    assert {len(row) for row in fitted.weights} == {len(KINDS)}
    assert classifier.WORKLOAD_KINDS == KINDS


def test_chances_are_those_of_the_formula() -> None:
    rng, fitted = np.random.default_rng(1), read_curves(POD_CURVES)
    for _ in range(20):
        of = rng.uniform(0, 1, len(NAMES))
        terms = [1.0]
        for value, bends in zip(of, fitted.knots.values(), strict=True):
            terms += [value, *(max(value - bend, 0.0) for bend in bends)]
        scores = np.array(terms) @ np.array(fitted.weights) / fitted.temperature
        expected = np.exp(scores - scores.max())
        assert kind_probabilities(of) == pytest.approx(expected / expected.sum())


@pytest.mark.parametrize(
    ("of", "kind", "confidence"),
    [
        ([0.7, 0.1, 0.05, 0.05, 0.05, 0.05], "training", 0.7),
        ([0.5, 0.4, 0.05, 0.05, 0.0, 0.0], "unknown", 0.5),
        ([0.2, 0.1, 0.1, 0.1, 0.1, 0.4], "unknown", 0.4),
        ([0.0, 0.0, 0.0, 0.0, 0.9, 0.1], "interactive", 0.9),
    ],
)
def test_what_is_not_likely_enough_is_unknown(of: list[float], kind: str, confidence: float) -> None:
    found = choose_kind(np.array(of))
    assert found.kind == kind
    assert found.confidence == pytest.approx(confidence)


def test_doubt_does_not_take_back_what_is_still_likely() -> None:
    doubt = np.array([0.25, 0.05, 0.0, 0.0, 0.0, 0.7])
    assert choose_kind(doubt).kind == "unknown"
    assert choose_kind(doubt, "training").kind == "training"
    assert choose_kind(doubt, "inference").kind == "unknown"
    assert choose_kind(np.array([0.3, 0.65, 0.0, 0.0, 0.0, 0.05]), "training").kind == "inference"


def test_too_few_seconds_are_no_features() -> None:
    values = np.full((len(CHANNELS), 240), np.nan)
    values[CHANNEL_ROW["busiest_gpu_util_pct"], -14:] = 50
    assert features(values, 0.0) is None
    values[CHANNEL_ROW["busiest_gpu_util_pct"], -15:] = 50
    assert features(values, 0.0) is not None


def test_features_are_finite_whatever_is_absent() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        values = rng.uniform(0, 100, (len(CHANNELS), 240))
        values[rng.uniform(size=values.shape) < rng.uniform()] = np.nan
        values[rng.uniform(size=len(CHANNELS)) < 0.3] = np.nan
        values[CHANNEL_ROW["busiest_gpu_util_pct"], -20:] = rng.choice([0.0, 50.0, 100.0], 20)
        found = features(values, 0.5)
        assert found is not None
        assert np.isfinite(found).all()
        assert kind_probabilities(found).sum() == pytest.approx(1)


def test_codes_keep_what_they_promise() -> None:
    rng = np.random.default_rng(3)
    values = np.exp(rng.uniform(np.log(5), np.log(90), (len(NVML_CHANNELS), 50)))
    codes = quantize("nvml", values.T).T
    everything = np.full((len(CHANNELS), 50), ABSENT_CODE, np.uint8)
    everything[: len(NVML_CHANNELS)] = codes_from_text(codes_to_text(codes), len(NVML_CHANNELS))
    found = dequantize(everything)
    assert np.isnan(found[len(NVML_CHANNELS) :]).all()
    for name in NVML_CHANNELS:
        row = CHANNEL_ROW[name]
        is_share = name not in ("power_w", "pcie_kb_per_s", "pcie_most_kb_per_s", "nvlink_mb_per_s")
        allowed = 0.5 if is_share else 0.036 * (values[row] + 1)
        assert (abs(found[row] - values[row]) <= allowed).all(), name
