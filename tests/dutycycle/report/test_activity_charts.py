"""Where the time of GPUs goes, and tensor cores against memory: the drawings against the samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.report.build import gather_records, report_of
from dutycycle.report.charts.chart import Chart
from dutycycle.report.charts.cycles import shown_cycle
from dutycycle.report.charts.inside import LAYERS, plane_chart, time_chart
from dutycycle.report.charts.pictures import write_pictures
from dutycycle.report.charts.plot import figure_of
from dutycycle.report.facts import facts_of, key_figures
from dutycycle.report.gather import Gathered
from dutycycle.report.page import document, html_of, shown_charts
from dutycycle.report.phases import BUSY as BUSY_PHASE
from dutycycle.report.phases import phases_of
from dutycycle.report.view import view_of
from tests.support.data.samples import gpu, nvml, record

TENSOR, SM, EMPTY, BUSY, IDLE = LAYERS
ALL = {"gpu_util_pct": 90, "sm_active_pct": 60, "tensor_active_pct": 25}
P = [{"pid": 1, "pod_uid": "p"}]


def gathered(ticks: Sequence[Sequence[dict[str, Any]] | None]) -> Gathered:
    """Samples of the GPUs of each second; None: nobody measured."""
    records = [
        record("nvml-samples", "a", nvml(at, [gpu(n, processes=P, **one) for n, one in enumerate(gpus)]), at)
        for at, gpus in enumerate(ticks)
        if gpus is not None
    ]
    return gather_records(records, Settings())


def time_of(run: Gathered, **chosen: str) -> Chart:
    """Give the chart of where the time goes."""
    chart = time_chart(view_of(run, **chosen))
    assert chart is not None
    return chart


def layers(ticks: Sequence[Sequence[dict[str, Any]] | None]) -> dict[str, list[float | None]]:
    """What the chart shows of each second, by layer."""
    return {
        one.name: [None if np.isnan(pct) else round(pct, 6) for pct in one.points.mean]
        for one in time_of(gathered(ticks)).lines
    }


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (ALL, {TENSOR: 25, SM: 35, EMPTY: 30, IDLE: 10}),
        ({"gpu_util_pct": 90}, {BUSY: 90, IDLE: 10}),
        ({"gpu_util_pct": 0}, {IDLE: 100}),
        ({"gpu_util_pct": 90, "tensor_active_pct": 25}, {TENSOR: 25, BUSY: 65, IDLE: 10}),
        ({"gpu_util_pct": 90, "sm_active_pct": 60}, {BUSY: 90, IDLE: 10}),
        (ALL | {"sm_active_pct": 96}, {TENSOR: 25, SM: 65, IDLE: 10}),
        (ALL | {"gpu_util_pct": 20}, {TENSOR: 20, IDLE: 80}),
        (ALL | {"sm_active_pct": 0, "tensor_active_pct": 0}, {EMPTY: 90, IDLE: 10}),
    ],
)
def test_each_moment_is_one_of_the_layers(of: dict[str, float], expected: dict[str, float]) -> None:
    found = layers([[of]] * 10)
    assert {name: set(values) for name, values in found.items()} == {
        name: {pct} for name, pct in expected.items()
    }


def test_a_gap_stays_a_gap_and_a_first_tick_without_counters_is_told_no_further() -> None:
    first, gap = {"gpu_util_pct": 80}, None
    found = layers([[first], *[[ALL]] * 8, *[gap] * 4, *[[ALL]] * 7])
    assert found[BUSY] == [80] + [0.0] * 8 + [None] * 4 + [0.0] * 7
    assert found[TENSOR] == [0.0] + [25] * 8 + [None] * 4 + [25] * 7
    known = np.array([[np.nan if one is None else one for one in values] for values in found.values()])
    assert np.nansum(known, axis=0).round(6).tolist() == [100.0] * 9 + [0.0] * 4 + [100.0] * 7


def test_gpus_are_averaged_over_those_that_were_measured() -> None:
    found = layers([[ALL, {"gpu_util_pct": 50}]] * 5 + [[ALL, {}]] * 5)
    assert found[TENSOR] == [12.5] * 5 + [25] * 5
    assert found[BUSY] == [25] * 5 + [0] * 5
    assert found[IDLE] == [30] * 5 + [10] * 5


def test_without_counters_it_says_so() -> None:
    assert "tensor cores" in time_of(gathered([[ALL]] * 5)).note
    assert "do not tell" in time_of(gathered([[{"gpu_util_pct": 90}]] * 5)).note
    assert time_chart(view_of(gathered([[{"power_w": 100}]] * 5))) is None


def drawn_area(chart: Chart, name: str) -> float:
    """The area of a layer as it is drawn, in percent times seconds."""
    traces = figure_of(chart, 0, 1)["data"]
    band, total = next(one for one in traces if one["name"] == name and one.get("fill")), 0.0
    x, y = ([*band[axis], None] for axis in ("x", "y"))
    corners: list[tuple[float, float]] = []
    for one, other in zip(x, y, strict=True):
        if one is not None:
            corners.append((one / 1000, other))
            continue
        pairs = zip(corners, corners[1:] + corners[:1], strict=True)
        total += abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs)) / 2
        corners = []
    return total


def test_the_areas_that_are_drawn_are_the_time_that_was_measured() -> None:
    ticks = [[ALL]] * 8 + [None] * 4 + [[ALL | {"tensor_active_pct": 50}]] * 8
    chart = time_of(gathered(ticks))
    expected = {TENSOR: 8 * 25 + 8 * 50, SM: 8 * 35 + 8 * 10, EMPTY: 16 * 30, IDLE: 16 * 10}
    assert {name: drawn_area(chart, name) for name in expected} == pytest.approx(expected)


def steps(seconds: int = 300, period: int = 10) -> Gathered:
    """Utilization is flat; six seconds of each ten on tensor cores, four on memory."""
    chance = np.random.default_rng(1)

    def tick(at: int) -> dict[str, Any]:
        tensor, dram = (60.0, 20.0) if at % period < 6 else (4.0, 70.0)
        noise = chance.normal(0, 0.5, 2).tolist()
        return {
            "gpu_util_pct": 100, "sm_active_pct": 95, "tensor_active_pct": tensor + noise[0],
            "dram_active_pct": dram + noise[1],
        }  # fmt: skip

    return gathered([[tick(at)] for at in range(seconds)])


def plane_of(run: Gathered, **chosen: str) -> Chart | None:
    view = view_of(run, **chosen)
    return plane_chart(view, shown_cycle(run, view))


def test_dots_are_the_parts_of_the_cycle_where_there_is_one() -> None:
    found = steps()
    chart = plane_of(found)
    assert chart is not None
    [spots] = chart.spots
    assert spots.name == "parts of the cycle of 10 s (gpu 0)"
    on_tensor = spots.y > 30
    assert (len(spots.y), int(on_tensor.sum())) == (10, 6)
    assert spots.x[on_tensor] == pytest.approx([20] * 6, abs=1)
    assert spots.y[~on_tensor] == pytest.approx([4] * 4, abs=1)
    trace = figure_of(chart, 0, 1)["data"][0]
    assert trace["x"] == pytest.approx(spots.x.tolist(), rel=1e-3)
    assert trace["y"] == pytest.approx(spots.y.tolist(), rel=1e-3)
    page = document("charts.html", "dots", {}, title="dots", span=(0, 1), shown=shown_charts([chart]))
    assert all(f"<td>{y:.4g}</td>" in page for y in spots.y)


def test_dots_are_windows_of_a_run_without_a_cycle_and_of_what_was_measured_alone() -> None:
    ticks: list[list[dict[str, Any]]] = [[ALL | {"dram_active_pct": 30 + (at // 20)}] for at in range(80)]
    ticks[40:60] = [[ALL]] * 20
    found = gathered(ticks)
    chart = plane_of(found)
    assert chart is not None
    [spots] = chart.spots
    assert set(spots.x.round()) == {30, 31, 33}
    assert set(spots.y) == {25}
    found = gathered([[ALL]] * 20)
    assert plane_of(found) is None


def test_the_page_and_the_pictures_have_both(tmp_path: Any) -> None:
    report = report_of(steps(120), Settings(), "a trace")
    shown = {one.id: one for one in report.charts}
    assert {"gpu-time", "gpu-plane", "cycle"} <= set(shown)
    assert "Tensor activity" in shown["cycle"].note
    page = html_of(report)
    assert page.count('data-chart="gpu-time"') == page.count('data-chart="gpu-plane"') == 1
    pictures = write_pictures([shown["gpu-time"], shown["gpu-plane"]], [], tmp_path)
    assert all(one.stat().st_size > 5000 for one in pictures)


def on_slices(seconds: int = 60) -> Gathered:
    """Two pods on a slice each of one GPU, of which itself nothing is counted."""
    work = {"p": (12.0, 72.0), "q": (70.0, 30.0)}
    slices = [
        {"uuid": f"MIG-{uid}", "gpu_util_pct": 90, "sm_active_pct": 80, "tensor_active_pct": tensor,
         "dram_active_pct": dram}
        for uid, (tensor, dram) in work.items()
    ]  # fmt: skip
    given = [{"pod_uid": uid, "namespace": "ml", "pod": uid, "mig": f"MIG-{uid}"} for uid in work]
    whole = gpu(0, power_w=500, mig=slices, allocated=given)
    pods = [
        record(
            "pods", uid, {"v": 1, "uid": uid, "namespace": "ml", "name": uid, "node": "a", "phase": "Running"}
        )
        for uid in work
    ]
    ticks = [record("nvml-samples", "a", nvml(at, [whole]), at) for at in range(seconds)]
    return gather_records([*pods, *ticks], Settings())


def test_a_pod_on_a_slice_has_the_drawings_of_its_own_slice() -> None:
    run = on_slices()
    for pod, tensor, dram in (("p", 12, 72), ("q", 70, 30)):
        chart, plane = time_of(run, pod=pod), plane_of(run, pod=pod)
        assert plane is not None
        assert chart.title == "Where the MIG slice's time goes"
        assert [phase.name for phase in phases_of(view_of(run, pod=pod), [], None)] == [BUSY_PHASE]
        assert {line.name: np.nanmean(line.points.mean) for line in chart.lines} == pytest.approx(
            {TENSOR: tensor, SM: 80 - tensor, EMPTY: 10, IDLE: 10}
        )
        (spots,) = plane.spots
        assert (set(spots.x), set(spots.y)) == ({dram}, {tensor})
    chart = time_of(run)
    assert chart.title == "Where the MIG slices' time goes"
    assert "Mean over all MIG slices." in (chart.note or "")
    assert np.nanmean(chart.lines[0].points.mean) == pytest.approx(41)


def test_the_figures_of_a_pod_on_a_slice_are_those_of_its_own_slice() -> None:
    run = on_slices()
    told = {
        pod: dict(key_figures(facts_of(run, view, Settings()), view)).get("MIG slices")
        for pod in ("p", "q", None)
        for view in (view_of(run, pod=pod),)
    }
    assert told == {
        "p": "utilization 90 %, SM 80 %, tensor cores 12 %, memory 72 % (means)",
        "q": "utilization 90 %, SM 80 %, tensor cores 70 %, memory 30 % (means)",
        None: "utilization 90 %, SM 80 %, tensor cores 41 %, memory 51 % (means)",
    }
