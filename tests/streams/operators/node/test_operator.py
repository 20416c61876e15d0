"""A node's operator: what comes out of samples, whatever happens to them on the way."""

import random
from base64 import b64decode
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import Subject
from streams.operators.base import CountedEvent, Emission
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.analysis import AnalysisConfig
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.peaks.histogram import percentile
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import gpu, nvml, record
from tests.support.examples import examples
from tests.support.streams.emitted import counts_of, plain_of
from tests.support.targets import slow_after

CONFIG = NodeConfig(topic="nvml-samples", source="nvml", sizes_ms=(10_000, 60_000))


def operator() -> NodeOperator:
    return NodeOperator(CONFIG, "a", NvmlReader("a"))


def sample(second: int, **fields: Any) -> dict[str, Any]:
    busy = second % 8 < 4
    process = {"pid": 7, "pod_uid": "p", "gpu_util_pct": 90 if busy else 5, "mem_used_bytes": 1000 + second}
    one = gpu(0, gpu_util_pct=95 if busy else 2, power_w=600 if busy else 90, mem_used_bytes=5000 + second,
              mem_total_bytes=10_000, processes=[process])  # fmt: skip
    return nvml(second, [one], **fields)


def run(node: NodeOperator, samples: list[dict[str, Any]]) -> list[Emission]:
    return [
        one for n, plain in enumerate(samples) for one in node.update(record("nvml-samples", "a", plain, n))
    ]


def test_a_window_says_what_was_measured() -> None:
    windows = plain_of(run(operator(), [sample(second) for second in range(40)]), "window-aggregates")
    first = next(w for w in windows if w["subject"]["kind"] == "gpu")
    values = [95 if second % 8 < 4 else 2 for second in range(10)]
    utilization = first["metrics"].pop("gpu_util_pct")
    assert utilization == {
        "count": 10, "mean": pytest.approx(sum(values) / 10), "std": pytest.approx(45.560509),
        "min": 2, "max": 95, "p50": 95, "p95": 95, "p99": 95,
    }  # fmt: skip
    metrics = first.pop("metrics")
    assert first == {
        "v": 1, "subject": {"kind": "gpu", "node": "a", "gpu": "GPU-0"}, "source": "nvml", "size_ms": 10_000,
        "start_ms": 0, "end_ms": 10_000,
    }  # fmt: skip
    assert metrics.keys() == {"mem_used_bytes", "power_w"}, "what was measured; what there is, is not used"


def test_a_subject_has_one_record_of_a_window() -> None:
    windows = plain_of(run(operator(), [sample(second) for second in range(40)]), "window-aggregates")
    names = [(Subject(**w["subject"]).key, w["size_ms"], w["start_ms"]) for w in windows]
    assert sorted(names) == [
        (key, 10_000, start) for key in ("gpu/a/GPU-0", "pod/p") for start in (0, 10_000)
    ]


def test_energy_has_its_increase_and_no_mean() -> None:
    plain = [nvml(second, [gpu(0, energy_j=1e6 + 500 * second)]) for second in range(40)]
    windows = plain_of(run(operator(), plain), "window-aggregates")
    assert [w["metrics"] for w in windows] == [
        {"energy_j": {"count": 10, "increase": 4500}}, {"energy_j": {"count": 10, "increase": 5000}},
    ]  # fmt: skip


def test_the_pods_cycle_is_found() -> None:
    node = operator()
    emissions = run(node, [sample(second) for second in range(200)])
    found = [c["metrics"] for c in plain_of(emissions, "cycles") if c["subject"]["kind"] == "pod"]
    assert found[-1]["gpu_util_pct"]["cyclic"] is True
    assert found[-1]["gpu_util_pct"]["period_s"] == pytest.approx(8, rel=0.01)


def test_memory_that_runs_out_is_announced() -> None:
    plain = [nvml(s, [gpu(0, mem_used_bytes=200_000 + 500 * s, mem_total_bytes=10**6)]) for s in range(700)]
    trends = plain_of(run(operator(), plain), "trends")
    assert trends[-1]["metrics"]["mem_used_bytes"]["exhausts_in_s"] == pytest.approx(1600 - 689, rel=0.1)


def test_peaks_are_settled_once_and_cumulative() -> None:
    node = operator()
    run(node, [sample(second) for second in range(5)])
    (first,) = plain_of(node.flush(), "pod-parts")
    util = first["metrics"]["gpu_util_pct"]
    assert percentile(b64decode(util.pop("histogram")), 50) == 90
    assert util == {"max": 90, "at_ms": 0, "sum": 4 * 90 + 5, "count": 5}
    assert first["gpus"]["a/0"]["mem_used_bytes"]["max"] == 1004
    assert first["processes"]["a/0/7"]["gpu_util_pct"]["max"] == 90
    assert node.flush() == []
    run(node, [sample(5)])
    (second,) = plain_of(node.flush(), "pod-parts")
    assert (second["samples"], second["opened_ms"]) == (6, first["opened_ms"])


def test_a_late_tick_is_out_of_its_windows_and_in_the_peaks() -> None:
    node = operator()
    late = sample(3) | {"seq": 900}
    late["gpus"][0]["processes"][0]["gpu_util_pct"] = 99
    emissions = run(node, [*(sample(second) for second in range(100)), late])
    assert counts_of(emissions) == {"sample_late": 1}
    (part,) = plain_of(node.flush(), "pod-parts")
    assert part["metrics"]["gpu_util_pct"]["max"] == 99
    assert part["metrics"]["gpu_util_pct"]["at_ms"] == 3000


def disturbed(seed: int) -> list[dict[str, Any]]:
    """Samples that were duplicated, delayed, dropped, skewed, by a collector that restarts once."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    moment = 1_700_000_000
    plain = []
    for second in range(150):
        one = sample(second, ts_ms=(moment + second) * 1000, collector="c" if second < 70 else "d")
        one["gpus"][0]["gpu_util_pct"] = chance.choice([None, 0, 50, 100])
        if chance.random() < 0.05:
            one["ts_ms"] += chance.choice([-3_600_000, 3_600_000, -15_000])
        plain += [one] * chance.choice([0, 1, 1, 1, 1, 1, 2])
    for place in range(0, len(plain) - 5, 7):
        if chance.random() < 0.5:
            plain[place], plain[place + 4] = plain[place + 4], plain[place]
    return plain


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(st.integers(0, 10_000), st.integers(0, 140))
def test_restart_equals_no_restart(seed: int, cut: int) -> None:
    samples = disturbed(seed)
    whole, node = operator(), operator()
    got = run(node, samples[:cut])
    plain = from_bytes(to_bytes(node.snapshot()))
    again = operator()
    again.restore(plain)
    got += run(again, samples[cut:]) + again.close()
    assert got == run(whole, samples) + whole.close()


@settings(max_examples=examples(25))
@given(st.integers(0, 10_000))
def test_every_tick_is_accounted_for(seed: int) -> None:
    samples = disturbed(seed)
    node = operator()
    emissions = run(node, samples)
    windows = plain_of(emissions + node.close(), "window-aggregates")
    minutes = [w for w in windows if w["size_ms"] == 60_000 and w["subject"]["kind"] == "gpu"]
    minute = sum(w["metrics"]["mem_used_bytes"]["count"] for w in minutes)
    noticed = counts_of(emissions)
    held = len(node.snapshot()["timeline"]["held"])
    left_out = noticed.get("sample_duplicate", 0) + noticed.get("clock_jump", 0) + held
    late = noticed.get("sample_late", 0)
    assert len(samples) - left_out - late <= minute <= len(samples) - left_out
    starts = [(w["size_ms"], w["start_ms"], w["subject"]["kind"]) for w in windows]
    assert len(starts) == len(set(starts)), "a window closes once"


def test_what_is_gone_is_forgotten() -> None:
    node = operator()
    run(node, [sample(second) for second in range(20)])
    run(node, [nvml(second, [gpu(1, gpu_util_pct=5)]) for second in range(20, 1400, 10)])
    node.flush()
    run(node, [nvml(second, [gpu(1, gpu_util_pct=5)]) for second in range(1400, 1500, 10)])
    plain = node.snapshot()
    assert {one[1] for one in plain["series"]} == {"GPU-1"}
    assert plain["peaks"]["pods"] == {}


def test_a_node_that_was_silent_for_very_long_begins_anew() -> None:
    """As if it had left: what was open is closed, and nothing of before is in what comes after."""
    day = 90_000
    before, after = [sample(second) for second in range(40)], [sample(day + second) for second in range(60)]
    node, left, fresh = operator(), operator(), operator()
    emissions = [one for one in run(node, before + after) if one != CountedEvent("sample_gap")]
    closed = run(left, before) + left.close()
    assert emissions == closed + run(fresh, after)
    assert {key: value for key, value in node.snapshot().items() if key != "timeline"} == {
        key: value for key, value in fresh.snapshot().items() if key != "timeline"
    }


def test_one_tick_a_year_ahead_does_not_end_a_node() -> None:
    node, untouched = operator(), operator()
    good = [sample(second) for second in range(60)]
    wrong = sample(31_536_000) | {"seq": 5000}
    emissions = run(node, [*good[:30], wrong, *good[30:]])
    assert [one for one in emissions if isinstance(one, ProducerRecord)] == run(untouched, good)
    assert counts_of(emissions) == {"clock_jump": 1}


YEARS = 315_360_000
SET_BACK: dict[str, list[int]] = {
    # name: the second of the clock at each tick, of which there is one a second
    "an hour ahead, then corrected": [3600 + n if n < 300 else n for n in range(1200)],
    "right, an hour ahead, right again": [n + 3600 * (200 <= n < 500) for n in range(1200)],
    "right, years ahead, right again": [n + YEARS * (200 <= n < 500) for n in range(1200)],
    "an hour ahead over midnight": [n + 3600 * (200 <= n < 500) + 83_000 for n in range(1200)],
    "boots years ahead": [YEARS + n if n < 60 else n for n in range(1200)],
    "six minutes back within the hour": [n if n < 600 else n - 400 for n in range(1200)],
    "back and back again": [n if n < 800 else n - 400 if n < 1000 else n - 750 for n in range(1200)],
}


@pytest.mark.parametrize("name", slow_after(1, SET_BACK))
@pytest.mark.parametrize("restart_at", slow_after(1, [305, None, 604]))
def test_a_clock_that_is_set_back_blinds_no_node(name: str, restart_at: int | None) -> None:
    """Every second is in the ledger; windows, cycles and trends go on in the new time; a restart, also while
    ticks are held, changes nothing."""
    node, emissions = operator(), list[Emission]()
    plains = [
        sample(tick) | {"ts_ms": 1000 * second, "seq": tick} for tick, second in enumerate(SET_BACK[name])
    ]
    for offset, plain in enumerate(plains):
        if offset == restart_at:
            again = operator()
            again.restore(from_bytes(to_bytes(node.snapshot())))
            node = again
        emissions += node.update(record("nvml-samples", "a", plain, offset))
    emissions += node.close()
    newest: dict[tuple[int, str], float] = {}
    for hour in plain_of(emissions, "usage"):
        newest |= {(hour["hour_ms"], row.get("pod_uid", "")): row["gpu_s"] for row in hour["gpus"]}
    assert sum(newest.values()) == len(plains)
    days = {day["day_ms"]: day["samples"] for day in plain_of(emissions, "node-peaks")}
    assert sum(days.values()) == len(plains)
    parts = plain_of(emissions, "pod-parts")
    if name != "right, years ahead, right again":  # a state of a day ago is not gone on with
        assert parts[-1]["samples"] == len(plains)
        assert parts[-1]["totals"]["gpu_s"] == pytest.approx(len(plains))
    end_ms = plains[-1]["ts_ms"]
    assert parts[-1]["last_ms"] == end_ms
    noticed = counts_of(emissions)
    assert "sample_late" not in noticed
    assert noticed["clock_set_back"] == (2 if name == "back and back again" else 1)
    windows = plain_of(emissions, "window-aggregates")
    minutes = [one for one in windows if one["size_ms"] == 60_000 and one["subject"]["kind"] == "gpu"]
    assert sum(one["metrics"]["gpu_util_pct"]["count"] for one in minutes) == len(plains)
    assert minutes[-1]["start_ms"] <= end_ms < minutes[-1]["end_ms"]
    found = [one for one in plain_of(emissions, "cycles") if one["subject"]["kind"] == "pod"][-1]
    epochs = [now for before, now in pairwise(SET_BACK[name]) if now < before]
    assert 1000 * epochs[-1] < found["ts_ms"] <= end_ms
    assert found["metrics"]["gpu_util_pct"]["period_s"] == pytest.approx(8, rel=0.02)
    if restart_at is not None:
        whole = operator()
        assert emissions == run(whole, plains) + whole.close()


def test_settings_of_the_analysis_count_and_a_snapshot_of_others_is_refused() -> None:
    slow = replace(
        CONFIG, evaluate_ms=60_000, analysis=AnalysisConfig(cycle_metrics=("power_w",), horizons_s=(5.0,))
    )
    node = NodeOperator(slow, "a", NvmlReader("a"))
    said = run(node, [sample(second) for second in range(400)])
    assert {metric for one in plain_of(said, "cycles") for metric in one["metrics"]} == {"power_w"}
    trends = plain_of(said, "trends")
    assert len({one["ts_ms"] // 60_000 for one in trends}) == len({one["ts_ms"] for one in trends}) > 3
    ahead = {
        f["horizon_s"] for one in trends for metric in one["metrics"].values() for f in metric["forecast"]
    }
    assert ahead == {5.0}
    with pytest.raises(ValueError, match="made with"):
        operator().restore(node.snapshot())


def test_what_nobody_has_measured_takes_no_room_in_windows() -> None:
    node = operator()
    run(node, [sample(second) for second in range(20)])
    plain = node.snapshot()
    measured = {tuple(plain["series"][column][1:]) for column in plain["window_columns"]}
    uuid = gpu(0)["uuid"]
    assert (uuid, "power_w") in measured
    assert (uuid, "tensor_active_pct") not in measured
    rows = len(plain["windows"]["rows"]) / len(plain["windows"]["times"])
    assert rows == 8 * len(measured) < 8 * len(plain["series"]) / 2
    busy = [sample(second) for second in range(20, 60)]
    for plain_sample in busy:
        plain_sample["gpus"][0]["tensor_active_pct"] = 7.0
    windows = plain_of(run(node, busy), "window-aggregates")
    told = {one["start_ms"]: one["metrics"] for one in windows if one["subject"].get("gpu") == uuid}
    assert "tensor_active_pct" not in told[10_000]
    assert told[20_000]["tensor_active_pct"]["count"] == 10
