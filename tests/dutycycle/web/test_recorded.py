"""Reports and comparisons of jobs whose samples are gone, by the records and a Prometheus alone."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientSession
from sqlalchemy import create_engine, text

from dutycycle.compare.comparison import NamedRun, verdicts
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.settings.load import load
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.measures.change import change
from dutycycle.report.charts.chart import Chart
from dutycycle.report.facts import key_figures
from dutycycle.report.page import ServedPage, html_of
from dutycycle.web.about import address_of
from dutycycle.web.server import WebPage
from dutycycle.web.studies.recorded import recorded_run
from sinks.records.jobs import JobQuery, read_jobs
from sinks.records.prices import PriceList, set_prices
from sinks.records.rollup import Retention
from sinks.records.rows import rows_of
from sinks.records.usage import is_part
from tests.support.data.prometheus_history import history
from tests.support.data.two_teams import WATTS, two_teams
from tests.support.servers.prometheus import Prometheus, scrape
from tests.support.sinks.made import job_peaks, pod_peaks
from tests.support.sinks.recording import derived, open_store, write_all, write_records

DAY_MS = 24 * HOUR_MS
START_MS = 1_790_000_000_000 // DAY_MS * DAY_MS


def report_on(url: str, uid: str, namespaces: list[str] | None = None, **given: str) -> NamedRun:
    settings = load({}, {"records": url, **given})
    report, measures = recorded_run(uid, f"ml/{uid}", settings, "they are too old", namespaces)
    return NamedRun(report.heading, report, measures)


def chart_of(run: NamedRun, id_: str) -> Chart:
    return next(chart for chart in run.report.charts if chart.id == id_)


def write_run(url: str, uid: str, start_ms: int, busy: list[float], **options: Any) -> None:
    """Write a job that used two GPUs for so many hours, the first of them ``busy``, the second unknown."""
    last_ms = start_ms + len(busy) * HOUR_MS - 1000
    job = JobRef(api_version="batch/v1", kind="Job", name=f"train-{uid}", uid=uid)
    of_pod = {"job": job, "namespace": "ml", "name": f"train-{uid}"}
    write_records(
        url, job_peaks(uid, job=job, namespace="ml", first_ms=start_ms, last_ms=last_ms, final=True),
        pod_peaks(f"p-{uid}", of_pod, first_ms=start_ms, last_ms=last_ms, final=True),
    )  # fmt: skip
    store = open_store(url, **options)
    for at, share in enumerate(busy):
        gpus = (
            GpuHour(
                pod_uid=f"p-{uid}", gpu="GPU-gpu-a", model="NVIDIA H200", gpu_s=3600, known_s=3600,
                busy_s=3600 * share, energy_j=3600 * 500 * share,
            ),
            GpuHour(pod_uid=f"p-{uid}", gpu="GPU-2", model="NVIDIA H200", gpu_s=3600, known_s=0, busy_s=0),
        )  # fmt: skip
        at_ms = start_ms + at * HOUR_MS
        assert (
            store.put(rows_of(UsageHour(node="a", source="nvml", hour_ms=at_ms, ts_ms=at_ms, gpus=gpus)))
            == []
        )
    store.roll_up()
    store.close()


def test_figures_are_those_of_the_ledger_and_what_is_not_kept_is_not_known(records_url: str) -> None:
    write_all(derived(two_teams(START_MS)), records_url, load({}, {"price_gpu_hour": "2"}))
    run = report_on(records_url, "job-pod-a")
    (gpu,) = run.report.facts.gpus
    assert [gpu.seconds, gpu.busy_s, gpu.util_mean] == pytest.approx([5400, 4320, 80])
    assert gpu.power_mean == pytest.approx(WATTS[0], rel=0.01)
    assert (gpu.util_max, gpu.mem_max, gpu.temp_max, gpu.sm_mean) == (None, None, None, None)
    assert [run.report.facts.cost, run.report.facts.idle_cost] == pytest.approx([3, 0.6])
    assert [chart.id for chart in run.report.charts] == ["gpu-util", "gpu-power"]
    points = chart_of(run, "gpu-util").lines[0].points
    assert (points.start_ms, points.step_ms, points.mean.tolist()) == (START_MS, HOUR_MS, [80, 80])
    assert run.measures["duration_s"].value == pytest.approx(5390)
    assert "sm_active_pct" not in run.measures
    assert all(measure.error is None for measure in run.measures.values()), "two hours tell no noise"
    page = html_of(run.report, ServedPage([], address_of))
    figures = re.findall("<dt>(.+?)</dt>", page)
    assert len(figures) > 5
    assert [name for name in figures if "about#" not in name] == ["Of", "Host"]
    assert "about#" not in html_of(run.report), "a file has all that it needs"
    assert "Its samples cannot be had: they are too old." in page
    assert "phases, processes, forecasts" in page
    assert "<h2>Phases</h2>" not in page
    with pytest.raises(DutycycleError, match="they are too old; and the records have no such job"):
        report_on(records_url, "job-of-nobody")
    with pytest.raises(DutycycleError, match="no such job"):
        report_on(records_url, "job-pod-a", ["cv"])


def test_runs_of_hours_are_told_apart_by_what_differs_between_their_hours(records_url: str) -> None:
    steady = [0.6, 0.62, 0.61, 0.6, 0.59, 0.6, 0.61, 0.6]
    write_run(records_url, "j1", START_MS, steady)
    write_run(records_url, "j2", START_MS + DAY_MS, [share + 0.3 for share in steady])
    write_run(records_url, "j3", START_MS + 2 * DAY_MS, steady[::-1])
    first, better, same = (report_on(records_url, uid) for uid in ("j1", "j2", "j3"))
    assert first.measures["gpu_util_pct"].value == pytest.approx(60.375)
    assert first.measures["power_w"].value == pytest.approx(301.875), "of the GPU whose energy is known"
    assert "In time there is no difference." in list(verdicts([first, same]))
    assert change(first.measures["power_w"], better.measures["power_w"]).is_one
    assert "energy_j" not in first.measures, "of half of the GPUs it is no figure to compare"
    util = chart_of(first, "gpu-util")
    assert [line.name for line in util.lines] == ["GPU-gpu-a"], "of the other nothing is known"
    assert len(first.report.view.gpus) == 2


@pytest.mark.parametrize(
    ("prices", "cost", "is_compared"),
    [(PriceList(gpu_hour=2.0), "12.00, idle 3.00", True), (PriceList(kwh=2.0), "≥ 1.50", False)],
    ids=["of a GPU hour", "of a kWh"],
)
def test_a_cost_that_lacks_energy_says_so_and_is_not_compared(
    records_url: str, prices: PriceList, cost: str, is_compared: bool
) -> None:
    write_run(records_url, "j1", START_MS, [0.5] * 3, prices=prices)
    run = report_on(records_url, "j1")
    assert dict(key_figures(run.report.facts, run.report.view))["Cost"] == cost
    assert ("cost" in run.measures, "energy_j" in run.measures) == (is_compared, False)
    [row] = read_jobs(records_url, JobQuery(since_ms=0)).rows
    assert is_part(row, "cost") is not is_compared


def test_a_job_that_ran_before_energy_had_a_price_says_so(records_url: str) -> None:
    write_run(records_url, "j1", START_MS, [0.5, 0.5])
    later = datetime.fromtimestamp((START_MS + HOUR_MS) / 1000, UTC)
    metered = GpuHour(pod_uid="p-j1", gpu="GPU-2", gpu_s=3600, known_s=0, busy_s=0, energy_j=0)
    store = open_store(records_url)
    for at_ms in (START_MS, START_MS + HOUR_MS):
        hour = UsageHour(node="b", source="nvml", hour_ms=at_ms, ts_ms=at_ms, gpus=(metered,))
        assert store.put(rows_of(hour)) == []
    store.close()
    with create_engine(records_url).begin() as connection:
        connection.execute(text("DELETE FROM usage_hours WHERE node = 'a' AND gpu = 'GPU-2'"))
        set_prices(connection, PriceList(gpu_hour=1.0))
        set_prices(connection, PriceList(gpu_hour=1.0, kwh=2.0), later)
    for since_ms, cost, is_of_part in ((0, 4.5, True), (START_MS + HOUR_MS, 2.5, False)):
        [row] = read_jobs(records_url, JobQuery(since_ms=since_ms)).rows
        assert (row["cost"], is_part(row, "cost")) == (pytest.approx(cost), is_of_part)


async def test_jobs_whose_cost_lacks_energy_say_so_on_their_pages(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    write_run(
        url, "old", START_MS, [0.5] * 3, prices=PriceList(kwh=2.0), retention=Retention(hours_s=0, days_s=1e9)
    )
    page = WebPage(
        Source(LiveState(), "dutycycle", "", list), load({}, {"records": url, "web": "127.0.0.1:0"})
    )
    async with page.serving() as address, ClientSession(address) as client:
        of_jobs, of_job = [
            await (await client.get(path)).text() for path in ("history?since=20000h", "job?uid=old")
        ]
    assert '<td class="right">≥ 1.50</td>' in of_jobs
    assert "≥: at least" in of_jobs
    assert "<dd>≥ 1.50</dd>" in of_job


def test_days_that_hours_became_are_drawn_as_days(records_url: str) -> None:
    keep = Retention(hours_s=86_400, days_s=1e9)
    write_run(records_url, "old", START_MS, [0.5] * 30, retention=keep)
    write_run(records_url, "new", START_MS + 4 * DAY_MS, [0.9] * 2, retention=keep)
    old, new = report_on(records_url, "old"), report_on(records_url, "new")
    points = chart_of(old, "gpu-util").lines[0].points
    assert (points.step_ms, points.mean.tolist()) == (DAY_MS, pytest.approx([50, 50]))
    assert old.report.facts.total("busy_s") == pytest.approx(30 * 1800)
    assert chart_of(new, "gpu-util").lines[0].points.step_ms == HOUR_MS
    assert any("by the day" in note for note in old.report.notes)


def test_series_of_a_prometheus_are_finer_than_hours(
    prometheus: Callable[..., Prometheus], records_url: str
) -> None:
    start_ms = START_MS // 1000 * 1000
    write_run(records_url, "j1", start_ms, [0.5] * 3)
    server = prometheus(scrape([]), history=history(start_ms // 1000))
    run = report_on(records_url, "j1", prometheus=server.url)
    util = chart_of(run, "gpu-util").lines[0].points
    assert util.step_ms < HOUR_MS
    assert np.nanmax(util.mean) == pytest.approx(95, abs=5)
    assert "gpu-memory" in [chart.id for chart in run.report.charts], "which the ledger does not have"
    assert len([chart for chart in run.report.charts if chart.id == "gpu-power"]) == 1
    server.stop()
    away = report_on(records_url, "j1", prometheus=server.url)
    assert chart_of(away, "gpu-util").lines[0].points.step_ms == HOUR_MS
    assert any("Prometheus" in note and "does not answer" in note for note in away.report.notes)
