"""A load that aliases with the tick has one utilization, energy and busy time, whoever is asked.

``gpu_util_pct`` is what the driver said last: of the last sixth of each second. The truth is in its samples.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.metering import LEAST_DRAWN_W
from dutycycle.contract.settings.groups import Settings
from dutycycle.live.model.state import LiveState
from dutycycle.report.build import gather_records
from dutycycle.report.facts import facts_of
from dutycycle.report.view import view_of
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.data.samples import gpu, nvml, record
from tests.support.streams.emitted import plain_of

SECONDS = 200
BEGIN = 1_770_000_000
Load = Callable[[float], float]


def square(period_s: float, duty: float, low: float, high: float) -> Load:
    return lambda at_s: high if at_s % period_s < duty * period_s else low


LOADS: dict[str, tuple[Load, float]] = {
    # name: (utilization at a moment of the second's sixths, the truth in percent)
    "six seconds": (square(6, 0.6, 3, 96), 58.8),
    "a second, always idle when it is read": (square(1, 0.8, 0, 90), 72.0),
    "two seconds": (square(2, 0.7, 10, 100), 73.0),
    "half a second": (square(0.5, 0.34, 0, 99), 33.66),
}


def mean_between(load: Load, begin_s: float, end_s: float) -> float:
    steps = 50
    return sum(load(begin_s + (at + 0.5) / steps * (end_s - begin_s)) for at in range(steps)) / steps


def samples(load: Load) -> Iterable[dict[str, Any]]:
    """One GPU of one pod: the driver samples it six times a second, power is 5 W a percent."""
    for second in range(SECONDS):
        ends = [second - 1 + (at + 1) / 6 for at in range(6)]
        utils = [round(mean_between(load, end - 1 / 6, end), 2) for end in ends]
        offsets = [round(1000 * (end - second)) for end in ends]
        fields: dict[str, Any] = {
            "gpu_util_pct": utils[-1], "util_burst": [list(one) for one in zip(offsets, utils, strict=True)],
            "power_w": 5 * utils[-1],
            "power_burst": [[at, 5 * pct] for at, pct in zip(offsets, utils, strict=True)],
            "sm_active_pct": 40 + 20 * (second % 2), "tensor_active_pct": 12.5,
            "processes": [{"pid": 1, "pod_uid": "p", "gpu_util_pct": utils[-1]}],
        }  # fmt: skip
        yield nvml(second, [gpu(**fields)], ts_ms=1000 * (BEGIN + second))


def seconds_of(windows: list[Any]) -> float:
    """Busy seconds, by the means of windows."""
    utils = [one["gpu_util_pct"] for one in windows]
    return float(sum(one["mean"] * one["count"] for one in utils) / 100)


@pytest.mark.parametrize("name", LOADS)
def test_utilization_busy_time_and_power_are_the_drivers(name: str) -> None:
    load, truth = LOADS[name]
    records: list[ConsumerRecord] = [
        record("nvml-samples", "a", one, offset) for offset, one in enumerate(samples(load))
    ]
    pipeline, screen = LocalPipeline(stages(Settings())), LiveState()
    outs = [out for one in records for out in pipeline.feed(one)] + pipeline.close()
    for one in records:
        screen.feed(one.topic, "a", one.value, one.ts_ms)
    gathered = gather_records(records, Settings())
    facts = facts_of(gathered, view_of(gathered), Settings())
    [used] = plain_of(outs, "usage")[-1]["gpus"]
    peaks = plain_of(outs, "pod-peaks")[-1]
    series = plain_of(outs, "node-parts")[-1]
    counted, of_counted = series["totals"]["GPU-0"], series["pods"][0]["totals"]
    day = plain_of(outs, "node-peaks")[-1]["gpus"]["a/0"]
    windows = [window for window in plain_of(outs, "window-aggregates") if window["size_ms"] == 60_000]
    of_gpu, of_pod = (
        [one["metrics"] for one in windows if one["subject"]["kind"] == kind] for kind in ("gpu", "pod")
    )

    busy_s, watts = SECONDS * truth / 100, 5 * truth
    assert {
        "ledger": used["busy_s"],
        "totals": peaks["totals"]["gpu_busy_s"],
        "series, the GPU's": counted["gpu_busy_s"],
        "series, the pod's": of_counted["gpu_busy_s"],
        "report": facts.gpus[0].busy_s,
        "windows": seconds_of(of_gpu),
        "windows, the pod's": sum(
            one["gpu_util_pct"]["mean"] * one["gpu_util_pct"]["count"] for one in of_pod
        )
        / 100,
        "peaks": peaks["metrics"]["gpu_util_pct"]["mean"] * SECONDS / 100,
        "day": day["gpu_util_pct"]["mean"] * SECONDS / 100,
    } == pytest.approx(dict.fromkeys(_OUTLETS, busy_s), rel=0.02)
    assert {
        "ledger": used["energy_j"] / SECONDS,
        "series": counted["energy_j"] / SECONDS,
        "report": facts.gpus[0].power_mean,
        "day": day["power_w"]["mean"],
    } == pytest.approx(dict.fromkeys(("ledger", "series", "report", "day"), watts), rel=0.02)
    for name, pct in (("sm_s", 50.0), ("tensor_s", 12.5)):
        assert {
            "ledger": used[name],
            "totals": peaks["totals"][f"gpu_{name}"],
            "series, the GPU's": counted[f"gpu_{name}"],
            "series, the pod's": of_counted[f"gpu_{name}"],
        } == pytest.approx(dict.fromkeys(_OUTLETS[:4], SECONDS * pct / 100), rel=0.01)
    highest = max(
        pct for one in records for _, pct in orjson.loads(one.value or b"")["gpus"][0]["util_burst"]
    )
    assert {
        "windows": max(one["gpu_util_pct"]["max"] for one in of_gpu),
        "windows, the pod's": max(one["gpu_util_pct"]["max"] for one in of_pod),
        "power": max(one["power_w"]["max"] for one in of_gpu) / 5,
        "peaks": peaks["metrics"]["gpu_util_pct"]["max"],
        "day": day["gpu_util_pct"]["max"],
        "report": facts.gpus[0].util_max,
        "report, power": (facts.gpus[0].power_max or 0) / 5,
        "screen": screen.rows["gpu/a/GPU-0"].util_max,  # type: ignore[union-attr]
    } == pytest.approx(dict.fromkeys(_HIGHEST, highest))


@pytest.mark.slow
@given(
    reads=st.lists(
        st.tuples(
            st.sampled_from(["read", "fails", "stands still", "begins anew", "falls and comes back"]),
            st.sampled_from([0.5, 90, 300]),
        ),
        min_size=3, max_size=40,
    )
)  # fmt: skip
def test_energy_by_a_counter_that_fails_and_stands_still_is_one(reads: list[tuple[str, float]]) -> None:
    """Ledger, totals, series and report agree; windows have what the counter itself tells, and never a zero
    of one that stands still while power is drawn. ``reads``: of each second what the counter does, and the
    power."""
    counter_j, last_j, before_j, told_j, samples_of_node, drawn = 0.0, 0.0, inf, 0.0, [], False
    for second, (what, power_w) in enumerate([("read", 90), *reads]):
        # Not at 0: that is how drivers say that they cannot read it.
        counter_j = 0.25 if what == "begins anew" else counter_j + (power_w if what != "stands still" else 0)
        fields: dict[str, Any] = {"power_w": power_w, "processes": [{"pid": 1, "pod_uid": "p"}]}
        read_j = counter_j / 2 if what == "falls and comes back" else counter_j
        if what != "fails":
            fields["energy_j"] = read_j
        samples_of_node.append(nvml(second, [gpu(**fields)], ts_ms=1000 * (BEGIN + second)))
        if second == 0:
            last_j = counter_j
        elif what == "fails" or (read_j == last_j and power_w > LEAST_DRAWN_W):
            pass
        elif read_j < last_j:
            before_j, last_j = last_j if before_j == inf else before_j, read_j
        else:
            drawn = True
            told_j += read_j - (before_j if read_j >= before_j else last_j)
            before_j, last_j = inf if read_j > last_j else before_j, read_j
    records = [record("nvml-samples", "a", one, offset) for offset, one in enumerate(samples_of_node)]
    pipeline = LocalPipeline(stages(Settings()))
    outs = [out for one in records for out in pipeline.feed(one)] + pipeline.close()
    gathered = gather_records(records, Settings())
    facts = facts_of(gathered, view_of(gathered), Settings())
    [used] = plain_of(outs, "usage")[-1]["gpus"]
    series = plain_of(outs, "node-parts")[-1]
    assert {
        "ledger": used["energy_j"],
        "totals": plain_of(outs, "pod-peaks")[-1]["totals"]["energy_j"],
        "series": series["totals"]["GPU-0"]["energy_j"],
        "series, the pod's": series["pods"][0]["totals"]["energy_j"],
        "report": facts.gpus[0].energy_j,
    } == pytest.approx(dict.fromkeys(_ENERGY, facts.gpus[0].energy_j))
    for size_ms in (10_000, 60_000):
        windows = [
            window["metrics"]["energy_j"]["increase"] for window in plain_of(outs, "window-aggregates")
            if window["size_ms"] == size_ms and "increase" in window["metrics"].get("energy_j", {})
        ]  # fmt: skip
        assert sum(windows) == pytest.approx(told_j)
        assert bool(windows) == drawn, "what no counter told is absent, not 0"


_ENERGY = ("ledger", "totals", "series", "series, the pod's", "report")
_OUTLETS = (
    "ledger", "totals", "series, the GPU's", "series, the pod's", "report", "windows", "windows, the pod's",
    "peaks", "day",
)  # fmt: skip
_HIGHEST = (
    "windows", "windows, the pod's", "power", "peaks", "day", "report", "report, power", "screen",
)  # fmt: skip
