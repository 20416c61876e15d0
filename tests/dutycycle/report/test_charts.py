"""What is drawn is what was measured: gaps stay open, a cycle is whole, forecasts stand where they belong."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.plot.charts import write_charts
from dutycycle.report.build import gather_records, report_of
from dutycycle.report.charts.chart import Chart, Line
from dutycycle.report.charts.choice import charts_of
from dutycycle.report.charts.cycles import FOLD_PERIODS, shown_cycle
from dutycycle.report.charts.forecasts import forecasts_of
from dutycycle.report.charts.pictures import draw, save, write_pictures
from dutycycle.report.charts.plot import figure_of
from dutycycle.report.gather import Gathered
from dutycycle.report.page import html_of
from dutycycle.report.view import view_of
from dutycycle.traces.frames import buckets
from tests.support.data.samples import gpu, nvml, record
from tests.support.data.training_job import START_MS, UID, training_job
from tests.support.tab import tab

_CYCLE = {"cyclic": True, "period_s": 12.3, "confidence": 0.9, "since_ms": START_MS}
_TOLD = {"ts_ms": START_MS + 90_000, "metrics": {"gpu_util_pct": _CYCLE}}


@pytest.fixture(scope="module")
def charts(gathered: Gathered) -> dict[str, Chart]:
    """The charts of the job by their ids."""
    return {chart.id: chart for chart in report_of(gathered, Settings(), "t", job="bert").charts}


def drawn(chart: Chart, **figure: Any) -> Any:
    """Give the axes of a picture of it."""
    from matplotlib.figure import Figure

    axes = Figure(**figure).add_subplot()
    draw(axes, chart)
    return axes


def areas(trace: dict[str, list[float | None]]) -> list[list[tuple[float, float]]]:
    """The corners of each area of a band."""
    corners = list(zip(trace["x"], trace["y"], strict=True))
    return [
        [(x, y) for x, y in area if x is not None and y is not None]
        for known, area in groupby(corners, key=lambda corner: corner[0] is not None)
        if known
    ]


def test_a_band_ends_where_nothing_was_measured() -> None:
    """Two stretches with a long gap between them: an area each, of the lowest to the highest values."""
    times = np.concatenate([np.arange(0, 4000, 500), np.arange(60_000, 64_000, 500)])
    values = np.arange(len(times), dtype=float)
    points = buckets(times, values, 0, 64_000, 65)
    assert not points.exact
    band, line = figure_of(Chart("a", "A", "s", [Line("", "", 0, points)]), 0, 64_000)["data"]
    assert band["fill"] == "toself"
    found = areas(band)
    assert len(found) == 2
    assert not [x for area in found for x, _ in area if 4_000 < x < 59_000]
    for area, (low, high) in zip(found, ((0, 7), (8, 15)), strict=True):
        assert min(y for _, y in area) == low
        assert max(y for _, y in area) == high
    assert None in line["y"]


def test_a_single_value_between_gaps_can_be_seen() -> None:
    times = np.array([0, 1000, 2000, 30_000, 60_000, 61_000])
    chart = Chart("a", "A", "s", [Line("", "", 0, buckets(times, np.ones(6), 0, 61_000, 100))])
    (line,) = figure_of(chart, 0, 61_000)["data"]
    assert line["mode"] == "lines+markers"
    axes = drawn(chart)
    dots = [one.get_xdata() for one in axes.lines if one.get_marker() == "."]
    assert np.concatenate(dots).astype("datetime64[ms]").astype(int).tolist() == [30_000]
    whole = Chart("a", "A", "s", [Line("", "", 0, buckets(times[:3], np.ones(3), 0, 2000, 100))])
    assert figure_of(whole, 0, 2000)["data"][0]["mode"] == "lines"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gpu", "gpu/a-node-with-a-long-name.example.com/GPU-3f0c: trends, 30 s ahead"]
)
@pytest.mark.parametrize("lines", [2, 5, 16])
def test_a_legend_is_within_the_picture_and_takes_nothing_from_the_plot(
    name: str, lines: int, tmp_path: Path
) -> None:
    points = buckets(np.arange(0, 100_000, 1000), np.ones(100), 0, 100_000, 100)
    chart = Chart("a", "A", "s", [Line(f"{name} {at}", "", at, points) for at in range(lines)])
    axes = drawn(chart, figsize=(9, 3.4), dpi=120)
    figure = axes.figure
    save(figure, tmp_path / "a.png")
    legend, dates = axes.get_legend(), axes.get_xaxis().get_tightbbox()
    assert legend is not None
    assert dates is not None
    assert len(legend.get_texts()) == lines
    box, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1
    assert whole.y0 <= box.y0
    assert box.y1 <= dates.y0 + 1  # below the dates
    assert axes.get_window_extent().width > 0.85 * whole.width
    assert axes.get_window_extent().height > 0.6 * 3.4 * figure.dpi


def test_no_two_of_many_lines_look_the_same() -> None:
    points = buckets(np.arange(3) * 1000, np.arange(3.0), 0, 2000, 10)
    axes = drawn(Chart("a", "A", "s", [Line(f"line {at}", "", at, points) for at in range(16)]))
    looks = {
        (line.get_color(), line.get_linestyle())
        for line in axes.get_lines()
        if "line" in str(line.get_label())
    }
    assert len(looks) == 16


@pytest.mark.slow
def test_one_cycle_is_drawn_to_its_end(gathered: Gathered) -> None:
    """A period that is no multiple of the tick: 12 values over 12.3 s, and the first one again at the end."""
    known = replace(gathered, cycles={f"pod/{UID}/nvml": [_TOLD]})
    charts = {one.id: one for one in report_of(known, Settings(), "t", job="bert").charts}
    band, line = figure_of(charts["cycle"], 0, 1)["data"]
    ends = line["x0"] + line["dx"] * (len(line["y"]) - 1)
    assert ends == pytest.approx(12.3, abs=0.01)
    assert line["y"][-1] == line["y"][0]
    assert max(x for area in areas(band) for x, _ in area) == pytest.approx(12.3, abs=0.01)
    axes = drawn(charts["cycle"])
    assert np.max(axes.lines[0].get_xdata()) == pytest.approx(12.3, abs=0.01)
    assert axes.get_xlim() == pytest.approx((0, 12.3), abs=0.01)


SHOWN = {
    "gpu-util": ["gpu_util_pct"], "gpu-mem-copy": ["mem_copy_util_pct"], "gpu-memory": ["mem_used_bytes"],
    "gpu-power": ["power_w"], "gpu-temperature": ["temp_c"], "clock": ["sm_clock_mhz"],
    "cpu": ["cpu_util_pct"], "memory": ["mem_used_bytes"],
    "network": ["net_rx_bytes_per_s", "net_tx_bytes_per_s"],
    "disk": ["io_read_bytes_per_s", "io_write_bytes_per_s"],
}  # fmt: skip
"""Of each chart over time what its lines are, of each GPU or of the pod."""
UNITS = {"GiB": 2**30, "GB/s": 1e9, "MB/s": 1e6}


def measured(chart: str) -> np.ndarray:
    """What the trace says of each line of a chart, tick by tick."""
    payloads = [(one.topic, orjson.loads(one.payload or b"")) for one in training_job(720, 2)]
    ticks = [tick["gpus"] for topic, tick in payloads if topic.endswith("nvml-samples")]
    if SHOWN[chart][0] not in ticks[0][0] or chart == "memory":
        pods = [tick["pods"][0] for topic, tick in payloads if topic.endswith("cgroup-samples")]
        ticks = [[{**pod, **pod["containers"][0]}] for pod in pods]
    return np.array(
        [[tick[at][field] for tick in ticks] for at in range(len(ticks[0])) for field in SHOWN[chart]]
    )


@pytest.mark.parametrize("chart", SHOWN)
def test_the_lines_of_page_and_picture_are_what_was_measured(chart: str, charts: dict[str, Chart]) -> None:
    truth = measured(chart) / UNITS.get(charts[chart].unit, 1)
    data = [one for one in figure_of(charts[chart], 0, 1)["data"] if "lines" in one["mode"]]
    assert {(one["x0"], one["dx"]) for one in data} == {(START_MS, 1000)}
    assert np.array([one["y"] for one in data]) == pytest.approx(truth, rel=1e-3)
    lines = [line for line in drawn(charts[chart]).lines if np.size(line.get_xdata()) == truth.shape[1]]
    assert np.array([line.get_ydata() for line in lines]) == pytest.approx(truth, rel=1e-6)
    seconds = lines[0].get_xdata().astype("datetime64[ms]").astype(np.int64)
    assert seconds.tolist() == [START_MS + 1000 * second for second in range(720)]


def test_limits_and_marks_stand_where_they_were(charts: dict[str, Chart]) -> None:
    ticks = [
        orjson.loads(one.payload or b"") for one in training_job(720, 2) if one.topic.endswith("nvml-samples")
    ]
    first = ticks[0]["gpus"][0]
    limits = {"gpu-memory": first["mem_total_bytes"] / 2**30, "gpu-power": first["power_limit_w"]}
    for chart, limit in limits.items():
        shapes = figure_of(charts[chart], 0, 1)["layout"]["shapes"]
        lines = [shape for shape in shapes if "dash" in shape["line"]]
        assert [(line["y0"], line["y1"]) for line in lines] == [(pytest.approx(limit), pytest.approx(limit))]
    clocks = {
        (tick["ts_ms"], gpu["sm_clock_mhz"])
        for tick in ticks for gpu in tick["gpus"] if "hw_thermal_slowdown" in gpu.get("throttle", ())
    }  # fmt: skip
    (marks,) = (one for one in figure_of(charts["clock"], 0, 1)["data"] if one["mode"] == "markers")
    drawn = set(zip(marks["x"], marks["y"], strict=True))
    assert drawn
    assert drawn <= clocks


def test_rows_of_gpus_are_their_means(charts: dict[str, Chart]) -> None:
    chart = charts["ranks"]
    (heat,) = figure_of(chart, 0, 1)["data"]
    step_ms = 2160  # 720 s in at most 333 steps
    assert (heat["x0"], heat["dx"]) == (START_MS, step_ms)
    places = np.arange(720) * 1000 // step_ms
    truth = np.array([
        [row[places == place].mean() for place in range(places[-1] + 1)] for row in measured("gpu-util")
    ])  # fmt: skip
    assert np.array(heat["z"]) == pytest.approx(truth, abs=0.51)
    assert np.array(drawn(chart).images[0].get_array()) == pytest.approx(truth)


def test_one_cycle_is_the_mean_of_its_cycles(gathered: Gathered) -> None:
    """From the rise of the work on; each bin has the ticks of the last cycles that lie in it."""
    known = replace(gathered, cycles={f"pod/{UID}/nvml": [{**_TOLD, "metrics": {"gpu_util_pct": {
        **_CYCLE, "period_s": 12.0}}}]})  # fmt: skip
    report = report_of(known, Settings(), "t", job="bert")
    (chart,) = (one for one in report.charts if one.id == "cycle")
    shown = shown_cycle(known, report.view)
    assert shown is not None
    begin, end = (round(moment_ms - START_MS) // 1000 for moment_ms in (shown.from_ms, shown.to_ms))
    assert end - begin == 12 * FOLD_PERIODS
    ticks = measured("gpu-util")[:, begin:end].reshape(2, FOLD_PERIODS, 12)
    truth = ticks.mean(axis=(0, 1))
    truth = np.roll(truth, -int(np.argmax(truth - np.roll(truth, 1))))
    assert chart.lines[0].points.mean == pytest.approx(truth)
    assert figure_of(chart, 0, 1)["data"][-1]["y"] == pytest.approx([*truth, truth[0]], rel=1e-3)


@pytest.mark.slow
def test_machines_with_ticks_of_several_lengths_have_rows_of_one_time(tmp_path: Path) -> None:
    """Of 1, 1.001 and 5 s: each row ends its work where the machine did."""
    busy_s, all_s = 100, 200
    records = []
    for node, step_ms in (("a", 1000), ("b", 1001), ("c", 5000)):
        for seq in range(1000 * all_s // step_ms):
            util, ts_ms = 90 if seq * step_ms < 1000 * busy_s else 0, START_MS + seq * step_ms
            gpus = [{**gpu(gpu_util_pct=util), "uuid": f"GPU-{node}"}]
            tick = nvml(seq, gpus, ts_ms=ts_ms, node=node, interval_ms=step_ms)
            records.append(record("nvml-samples", node, tick, seq))
    found = gather_records(sorted(records, key=lambda tick: tick.ts_ms), Settings())
    report = report_of(found, Settings(), "t")
    (chart,) = (one for one in report.charts if one.id == "ranks")
    (heat,) = figure_of(chart, 0, 1)["data"]
    ends_s = [heat["dx"] / 1000 * np.count_nonzero(row) for row in np.array(heat["z"], float)]
    assert len(ends_s) == 3
    assert ends_s == pytest.approx([busy_s] * 3, abs=3)
    assert write_pictures(report.charts, [], tmp_path)


def test_forecasts_of_a_cycle_are_moments_and_of_a_slope_a_fan(gathered: Gathered) -> None:
    """Between two moments ahead a cycle goes up and down: a line through them would be of nothing."""
    view = report_of(gathered, Settings(), "t", job="bert").view
    busiest = max(view.gpus, key=lambda one: one.ticks.mean("gpu_util_pct") or 0)
    key = f"gpu/gpu-a/{busiest.traced.uuid}/nvml"
    whole = replace(gathered, cycles={key: [_TOLD]})
    util, memory, *_ = forecasts_of(whole, view)
    assert (util.fans, [one.name for one in util.dots]) == ([], ["forecast, 90 % interval"])
    (dots,) = util.dots
    records = {one["ts_ms"]: one for one in map(orjson.loads, gathered.trends[key])}
    said = {
        (ts_ms + round(1000 * one["horizon_s"]), one["value"], one["p05"], one["p95"])
        for ts_ms, record in records.items()
        for one in record["metrics"]["gpu_util_pct"]["forecast"]
    }
    points = dots.points
    drawn = zip(*(one.tolist() for one in (points.times, points.mean, points.low, points.high)), strict=True)
    assert len(points.times) > 10
    assert set(drawn) <= said
    assert (points.high > points.low).any()
    assert memory.dots == []
    assert memory.fans
    without = next(iter(forecasts_of(replace(gathered, cycles={}), view)))
    assert (len(without.fans), without.dots) == (len(memory.fans), [])


def test_forecasts_are_those_of_the_time_of_the_job(gathered: Gathered) -> None:
    """A GPU is forecast before a job comes and after it has gone, for others."""
    view = view_of(gathered, job="bert")
    middle = replace(view, first_ms=START_MS + 300_000, last_ms=START_MS + 480_000)
    charts = list(forecasts_of(gathered, middle))
    made = {at for chart in charts for fan in chart.fans for at in fan.times_ms[:1]}
    assert made
    assert middle.first_ms <= min(made) <= max(made) <= middle.last_ms


def test_the_page_says_where_and_how_it_ended_and_has_the_title_of_its_reader(gathered: Gathered) -> None:
    plain = html_of(report_of(gathered, Settings(), "t", job="bert"))
    assert "<dt>Host</dt><dd>gpu-a</dd>" in plain
    assert "<dt>Ended</dt>" not in plain
    told = html_of(report_of(gathered, Settings(), "t", job="bert", title="Batch < 64", ended="status 3"))
    assert "<h1>Batch &lt; 64</h1>" in told
    assert "<title>Batch &lt; 64 – Dutycycle report</title>" in told
    assert "<dt>Of</dt><dd>ml/bert</dd>" in told
    assert "<dt>Ended</dt><dd>status 3</dd>" in told


def test_gpus_are_ranks_where_they_are_of_one_job(gathered: Gathered) -> None:
    """Of a node with several jobs none of them waits for another."""
    charts = {one.id: one for one in charts_of(gathered, view_of(gathered, job="bert"))}
    assert charts["ranks"].title == "GPU utilization by rank"
    assert "wait" in charts["ranks"].note
    gpus = [replace(one, users=dict(one.users)) for one in gathered.gpus.values()]
    gpus[0].users = {"somebody-else": next(iter(gpus[0].users.values()))}
    shared = replace(gathered, gpus=dict(zip(gathered.gpus, gpus, strict=True)))
    charts = {one.id: one for one in charts_of(shared, view_of(shared))}
    assert (charts["ranks"].title, charts["ranks"].note) == ("GPU utilization by GPU", "Each row is one GPU.")


_ODD = "sh -c 'echo $$ > pid; x $_$ <b>&lt;'"
"""A command whose text matplotlib would read as a formula, and Plotly as tags, entities and one, too."""


@pytest.mark.slow
def test_a_name_with_dollars_is_no_formula(tmp_path: Path) -> None:
    points = buckets(np.array([0, 1000, 2000]), np.ones(3), 0, 2000, 100)
    lines = [Line(f"{_ODD} {place}", "", place, points) for place in range(2)]
    charts = [Chart(kind, _ODD, "%", lines, kind=kind, limits=[(_ODD, 1.0)]) for kind in ("lines", "heat")]
    for picture in write_pictures(charts, [], tmp_path):
        assert picture.stat().st_size > 1000
    write_charts(charts, _ODD, (0, 2000), tmp_path / "both.svg")
    assert (tmp_path / "both.svg").read_text().count("$$") >= 7


async def test_a_name_is_text_on_the_page_whatever_stands_in_it(tmp_path: Path) -> None:
    points = buckets(np.array([0, 1000, 2000]), np.ones(3), 0, 2000, 100)
    lines = [Line(f"{_ODD} {place}", "", place, points) for place in range(2)]
    charts = [
        Chart("a", _ODD, "s", lines, limits=[(_ODD, 1.0)]), Chart("b", _ODD, "%", lines, kind="heat"),
    ]  # fmt: skip
    write_charts(charts, None, (0, 2000), tmp_path / "page.html")
    async with tab(tmp_path / "profile") as browser:
        await browser.look(1280, "light")
        await browser.open((tmp_path / "page.html").as_uri())
        await browser.wait_for("document.documentElement.dataset.drawn === '2'")
        texts = await browser.value("[...document.querySelectorAll('text')].map((one) => one.textContent)")
        assert browser.said == []
    assert {f"{_ODD} 0", f"{_ODD} 1", f"{_ODD} 1 s"} <= set(texts), texts
    assert texts.count(f"{_ODD} 0") == 2  # a legend's, and a row's
