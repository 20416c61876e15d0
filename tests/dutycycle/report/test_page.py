"""The page: what is in it, that it needs nothing else, and how large it is."""

import re
import resource
from csv import DictReader
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import orjson
import pytest
from plotly.graph_objects import Figure
from pyarrow import parquet

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.report.build import report_of, write_report
from dutycycle.report.charts.chart import cycle_lines_ms
from dutycycle.report.charts.plot import figure_of
from dutycycle.report.gather import GPU_COLUMNS, HOST_COLUMNS, Gathered, TracedGpu, TracedHost
from dutycycle.report.page import Report, html_of
from dutycycle.traces.frames import Frame
from tests.support.data.training_job import START_MS, UID

DAY_S = 86_400


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of its figures."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._in = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._in = dict(attrs).get("id") or tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._in, []).append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def report(gathered: Gathered) -> Report:
    return report_of(gathered, Settings(price_gpu_hour=2.0), "job.jsonl.zst", job="bert")


@pytest.fixture(scope="module")
def page(report: Report) -> Elements:
    return Elements(html_of(report))


def test_every_chart_is_a_figure_that_plotly_accepts(report: Report) -> None:
    for chart in report.charts:
        Figure(figure_of(chart, 0, 1), skip_invalid=False)


def test_everything_that_was_asked_for_has_a_chart(report: Report) -> None:
    ids = [one.id for one in report.charts]
    assert ids[:12] == [
        "gpu-time", "gpu-util", "gpu-mem-copy", "gpu-memory", "gpu-power", "gpu-temperature", "clock",
        "cpu", "memory", "network", "disk", "ranks",
    ]  # fmt: skip
    assert {one.partition("-")[0] for one in ids[12:]} == {"cycle", "forecast"}
    clock = next(one for one in report.charts if one.id == "clock")
    assert {one.name for one in clock.marks} == {"hw_thermal_slowdown"}


def test_a_cycle_is_marked_and_folded(gathered: Gathered) -> None:
    cycle = {"cyclic": True, "period_s": 12.0, "confidence": 0.9, "since_ms": START_MS + 60_000}
    told = {"ts_ms": START_MS + 90_000, "metrics": {"gpu_util_pct": cycle}}
    known = replace(gathered, cycles={"pod/" + UID + "/nvml": [told]})
    charts = {one.id: one for one in report_of(known, Settings(), "t", job="bert").charts}
    label, first_ms, last_ms, period_s = charts["gpu-util"].cycle or ("", 0, 0, 0)
    assert label == "cycle 12 s (ml/bert-worker-0)"
    assert (first_ms, last_ms, period_s) == (START_MS + 60_000, START_MS + 719_000, 12)
    assert cycle_lines_ms(charts["gpu-util"]) == []  # 54 lines would hide the chart
    assert (
        len(cycle_lines_ms(replace(charts["gpu-util"], cycle=("", START_MS, START_MS + 36_000, 12.0)))) == 4
    )
    both = {**cycle, "others": [{"period_s": 300.0, "confidence": 0.9}]}
    told = {"ts_ms": START_MS + 90_000, "metrics": {"gpu_util_pct": both}}
    known = replace(gathered, cycles={"pod/" + UID + "/nvml": [told]})
    two = {one.id: one for one in report_of(known, Settings(), "t", job="bert").charts}["gpu-util"]
    assert two.cycle is not None
    assert two.cycle[0] == "cycle 12 s, 300 s (ml/bert-worker-0)"
    assert cycle_lines_ms(two) == [START_MS + second * 1000 for second in (90, 390, 690)]
    (folded,) = charts["cycle"].lines
    assert len(folded.points.mean) == 12
    high = folded.points.mean > 40
    assert high.tolist() == [True] * 9 + [False] * 3  # three quarters of a step are work, and come first


def test_of_many_gpus_the_page_names_the_cycles_of_a_few(report: Report) -> None:
    (what, cycle), *_ = report.facts.cycles
    cycles = [(what, replace(cycle, name=f"gpu 10{at}")) for at in range(9)]
    many = replace(report, facts=replace(report.facts, cycles=cycles))
    shown = html_of(many)
    assert [f"<td>gpu 10{at}</td>" in shown for at in range(9)] == [True] * 3 + [False] * 6
    assert "Of each figure the 3 whose cycles lasted longest; all are in cycles.csv." in shown
    assert "lasted longest" not in html_of(
        replace(many, facts=replace(many.facts, cycles=many.facts.cycles[:3]))
    )


def test_the_page_asks_for_nothing_from_elsewhere(page: Elements) -> None:
    named = [
        value for _, one in page.found for name, value in one.items() if name in ("src", "href", "action")
    ]
    assert named == []
    assert {name for name, _ in page.found} & {"link", "iframe", "img", "object"} == set()


def test_a_chart_says_its_figures_to_who_does_not_see_it(page: Elements, report: Report) -> None:
    plots = [one for one in page.of("div") if one.get("class") == "plot"]
    assert [one["data-chart"] for one in plots] == [one.id for one in report.charts]
    for plot in plots:
        assert plot["role"] == "img"
        assert re.search(r": mean [\d.e+-]+, from ", str(plot["aria-label"]))
    over_time = [one for one in plots if "data-time" in one]
    assert all(one["tabindex"] == "0" for one in over_time)
    assert len(over_time) == 12
    assert {one["data-group"] for one in page.of("input")} == {"gpu 0", "gpu 1"}
    assert len(page.of("details")) == len(plots)


def test_the_points_of_the_page_are_those_of_the_trace(page: Elements, gathered: Gathered) -> None:
    figures = orjson.loads("".join(page.texts["figures"]))
    first, second = figures["gpu-util"]["data"]
    assert (first["meta"], first["x0"], first["dx"]) == ("gpu 0", START_MS, 1000)
    truth = gathered.gpus["gpu-a", "GPU-0000"].frame.between(0, 2**60)["gpu_util_pct"]
    assert first["y"] == truth.tolist()
    assert max(second["y"]) < max(first["y"])


def test_a_name_is_text_and_never_markup(gathered: Gathered) -> None:
    report = report_of(gathered, Settings(), "</script><script>alert(1)</script>", job="bert")
    bad = html_of(report)
    assert "<script>alert(1)" not in bad
    assert "&lt;script&gt;alert(1)" in bad


def _fill(frame: Frame, columns: dict[str, "np.ndarray"]) -> None:
    rows = zip(*(one.tolist() for one in columns.values()), strict=True)
    for second, row in enumerate(rows):
        frame.add(START_MS + 1000 * second, dict(zip(columns, row, strict=True)))


@pytest.mark.slow
def test_a_day_of_eight_gpus_stays_small() -> None:
    chance, found = (
        np.random.default_rng(3),
        Gathered(first_ms=START_MS, last_ms=START_MS + 1000 * (DAY_S - 1)),
    )
    for index in range(8):
        traced = found.gpus["a", f"GPU-{index}"] = TracedGpu(
            "a", index, f"GPU-{index}", "NVIDIA H200", 150e9, 700.0
        )
        _fill(traced.frame, {name: chance.uniform(0, 99.9, DAY_S) for name in GPU_COLUMNS[:-1]})
    host = found.hosts["a"] = TracedHost(64, 1e12)
    _fill(host.frame, {name: chance.uniform(0, 1e9, DAY_S) for name in HOST_COLUMNS})
    text = html_of(report_of(found, Settings(), "day"))
    assert 5e6 < len(text.encode()) < 8e6


def test_the_files(report: Report, tmp_path: Path) -> None:
    folder = write_report(report, tmp_path / "bert.html")
    assert folder == tmp_path / "bert.files"
    assert {one.stem for one in folder.glob("*.png")} == {*(one.id for one in report.charts), "phases"}
    assert all(one.read_bytes()[:4] == b"\x89PNG" for one in folder.glob("*.png"))
    heads = {one.stem: one.read_text().splitlines() for one in folder.glob("*.csv")}
    assert heads.keys() == {"gpus", "phases", "cycles", "insights", "series"}
    assert [line.split(",")[0] for line in heads["gpus"]] == ["gpu", "gpu 0", "gpu 1"]
    assert len(heads["phases"]) == 1 + len(report.phases)
    for csv in folder.glob("*.csv"):
        table = parquet.read_table(csv.with_suffix(".parquet"))
        assert table.column_names == heads[csv.stem][0].split(",")
        assert table.num_rows == len(list(DictReader(heads[csv.stem])))
    powers = parquet.read_table(folder / "gpus.parquet")["power_max"].to_pylist()
    assert powers == [one.power_max for one in report.facts.gpus]
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.slow
def test_a_report_without_room_leaves_nothing(report: Report, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(DutycycleError, match="File too large"):
            write_report(report, tmp_path / "bert.html")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_the_same_trace_gives_the_same_page(report: Report) -> None:
    assert html_of(report) == html_of(report)
