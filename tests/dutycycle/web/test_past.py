"""The past of a GPU or node on its page: by the records and by a Prometheus, with what cannot be read."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dutycycle.contract.records.health import GpuEvent, HitPod
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.load import load
from dutycycle.contract.units import unix_ms
from dutycycle.web.ledger import usage_charts
from dutycycle.web.subject.charts import charts_of
from dutycycle.web.subject.past import HardwareKey, Past, read_past
from sinks.records.rollup import Retention
from sinks.records.usage import UsageQuery, hours_since, usage
from tests.dutycycle.web.test_pages import plain, served, text
from tests.dutycycle.web.test_recorded import DAY_MS, START_MS, write_run
from tests.support.data.prometheus_history import CYCLE_S, history
from tests.support.data.two_teams import two_teams
from tests.support.fleet import fleet
from tests.support.live import GIB, ahead, cycles, fed, feed, nvml, trends
from tests.support.servers.prometheus import Prometheus, scrape
from tests.support.sinks.recording import derived, write_all, write_records

NODE = HardwareKey("gpu-a", None, (("GPU-0", "gpu-a:0"), ("GPU-1", "gpu-a:1"), ("GPU-2", "gpu-a:2")))


def hour_before(hours: int) -> int:
    """The beginning of the hour so many hours ago."""
    return (time.time_ns() // 1_000_000 // HOUR_MS - hours) * HOUR_MS


def values_of(past: Past, title: str, name: str) -> list[float | None]:
    """The drawn values of one line of a chart that are there."""
    figure = next(figure for shown, figure in past.charts if shown == title)
    line = next(trace for trace in figure["data"] if trace.get("name") == name and trace["showlegend"])
    return [value for value in line["y"] if value is not None]


@pytest.mark.slow
def test_a_gpu_has_its_hours_and_those_who_used_it(records_url: str) -> None:
    start_ms = hour_before(5)
    settings = load({}, {"price_gpu_hour": "2"})
    write_all(derived(two_teams(start_ms)), records_url, settings)
    gpu = HardwareKey("gpu-a", "GPU-1", NODE.gpus[1:2])
    past = read_past(settings, records_url, gpu, start_ms - HOUR_MS, start_ms + 4 * HOUR_MS)
    assert past.errors == []
    # 10 % in the first half hour, then 100 % in the second; of the second hour nobody had it.
    assert values_of(past, "GPU use by hour", "busy") == [55, 0]
    assert {row["pod"]: row["gpu_s"] for row in past.users} == {
        "name-of-pod-b": 1800, "name-of-pod-c": 1800, "(nobody)": 1800,
    }  # fmt: skip
    node = read_past(settings, records_url, NODE, start_ms, start_ms + 2 * HOUR_MS)
    assert {row["pod"] for row in node.users} >= {"name-of-pod-a", "name-of-pod-d"}
    assert values_of(node, "Power of a GPU by hour", "Power of a GPU by hour") == pytest.approx(
        [150, 150], rel=0.01
    )
    elsewhere = HardwareKey("gpu-b", None, ())
    nothing = read_past(settings, records_url, elsewhere, start_ms, start_ms + 2 * HOUR_MS)
    assert (nothing.charts, list(nothing.users), nothing.errors) == ([], [], [])


def test_days_that_hours_became_stand_where_they_were(records_url: str) -> None:
    keep = Retention(hours_s=86_400, days_s=1e9)
    write_run(records_url, "old", START_MS, [0.5] * 24 + [0.25] * 6, retention=keep)
    write_run(records_url, "new", START_MS + 4 * DAY_MS, [0.9] * 2, retention=keep)
    gpu = HardwareKey("a", "GPU-gpu-a", (("GPU-gpu-a", "a:0"),))
    past = read_past(load({}), records_url, gpu, START_MS + 10 * HOUR_MS, START_MS + 5 * DAY_MS)
    assert values_of(past, "GPU use by day", "busy") == pytest.approx([50, 25, 90])
    figure = next(figure for title, figure in past.charts if title == "GPU use by day")
    (line,) = (trace for trace in figure["data"] if trace["showlegend"])
    assert (line["x0"], line["dx"]) == (START_MS, DAY_MS)
    recent = read_past(load({}), records_url, gpu, START_MS + 4 * DAY_MS, START_MS + 5 * DAY_MS)
    assert values_of(recent, "GPU use by hour", "busy") == pytest.approx([90, 90])


def test_usage_by_hour_is_drawn_by_the_day_where_hours_became_days(records_url: str) -> None:
    keep = Retention(hours_s=86_400, days_s=1e9)
    write_run(records_url, "old", START_MS, [0.5] * 24, retention=keep)
    write_run(records_url, "new", START_MS + 2 * DAY_MS, [0.9] * 2, retention=keep)
    asked = UsageQuery(by=("hour",), start_ms=START_MS, end_ms=START_MS + 3 * DAY_MS)
    rows, since_ms = usage(records_url, asked), hours_since(records_url)
    title, figure = usage_charts(asked.by, rows, since_ms)[0]
    assert title == "GPU hours, by day"
    assert drawn_hours(figure) == [48, None, 4]
    recent = [row for row in rows if since_ms is not None and unix_ms(row["hour"]) >= since_ms]
    title, figure = usage_charts(asked.by, recent, since_ms)[0]
    assert (title, drawn_hours(figure)) == ("GPU hours, by hour", [2, 2])


def drawn_hours(figure: dict[str, Any]) -> list[float | None]:
    """The hours that a chart of one layer shows where one points at it."""
    return next(list(trace["customdata"]) for trace in figure["data"] if "customdata" in trace)


def test_what_happened_is_of_the_gpu_and_of_the_time(records_url: str) -> None:
    at_ms = hour_before(3)
    of: Any = {
        "node": "gpu-a", "collector": "c", "kind": "xid", "severity": "reset", "name": "Xid 79", "code": 79,
    }  # fmt: skip
    pod = HitPod(uid="p", namespace="ml", name="train")
    write_records(
        records_url,
        GpuEvent(**of, seq=1, ts_ms=at_ms, gpu="GPU-1", index=1, pods=(pod,)),
        GpuEvent(**of, seq=2, ts_ms=at_ms + 1, gpu="GPU-0", index=0),
        GpuEvent(**of, seq=3, ts_ms=at_ms - 9 * HOUR_MS, gpu="GPU-1", index=1),
    )
    gpu = HardwareKey("gpu-a", "GPU-1", NODE.gpus[1:2])
    events = read_past(load({}), records_url, gpu, at_ms - HOUR_MS, at_ms + HOUR_MS).events
    assert [(event["at_ms"], event["pod"]) for event in events] == [(at_ms, "train")]
    of_node = read_past(load({}), records_url, NODE, at_ms - HOUR_MS, at_ms + HOUR_MS).events
    assert [event["gpu_index"] for event in of_node] == [0, 1], "the newest first"


def test_a_cycle_is_folded_with_its_spread() -> None:
    utils = [90 if at % 10 < 6 else 10 for at in range(200)]
    utils[105] = 30
    state = fed(*(("nvml-samples", "a", nvml(util, ts_ms=1000 * at + 1000)) for at, util in enumerate(utils)))
    assert not any(title.startswith("One cycle") for title, _ in charts_of(state.gpus()[0]))
    fed(cycles({"kind": "gpu", "node": "a", "gpu": "GPU-1"}, gpu_util_pct={
        "cyclic": True, "period_s": 10, "confidence": 0.9, "since_ms": 1000,
    }), state=state)  # fmt: skip
    title, figure = charts_of(state.gpus()[0])[0]
    assert title.startswith("One cycle of 10 s, 90% sure: GPU use, the last 19 periods")
    mean = next(trace["y"] for trace in figure["data"] if trace.get("name") == "mean")
    assert len(mean) == 11, "where a cycle ends the next begins"
    assert sum(value > 80 for value in mean[:10]) == 6
    band = next(trace["y"] for trace in figure["data"] if trace.get("fill"))
    assert (min(filter(None, band)), max(filter(None, band))) == (10, 90)


def test_memory_is_drawn_in_gib_with_its_forecast() -> None:
    state = fed(*(("nvml-samples", "a", nvml(50, ts_ms=1000 * at, mem_used_bytes=at * GIB)) for at in (1, 2)))
    fed(trends(mem_used_bytes=ahead(4 * GIB)), state=state)
    (figure,) = (figure for title, figure in charts_of(state.gpus()[0]) if title.startswith("Memory: "))
    values = {trace.get("name"): [*filter(None, trace["y"])] for trace in figure["data"]}
    assert values["measured"] == [1, 2]
    assert values["forecast"] == [4, 4]


@pytest.mark.slow
async def test_a_page_says_who_was_on_a_gpu_how_it_is_and_what_is_not_known(tmp_path: Path) -> None:
    state = fleet(8)
    write_all(derived(two_teams(hour_before(4))), f"sqlite:///{tmp_path}/records.db")
    async with served(state, tmp_path) as client:
        node = await text(client, "subject?key=node/gpu-a&since=24h")
        assert 'aria-current="true">a day</a>' in node
        assert "ml job-of-pod-a name-of-pod-a 1.50 1.20 0.30" in plain(node)
        assert node.count('href="subject?key=gpu%2Fgpu-a%2F') >= 16, "GPUs, and processes on them"
        assert 'href="subject?key=pod%2Fgpu-a-0"' in node
        assert "not known: nobody has judged its GPUs yet" in plain(node)
        assert "expected one of 24h" in plain(await text(client, "subject?key=node/gpu-a&since=2h", 400))
        finding = {"kind": "xid", "code": 79, "level": "reset", "reason": "fell off the bus",
                   "action": "reset it", "since_ms": 1, "last_ms": 2, "count": 3}  # fmt: skip
        verdict = {"gpu": "GPU-gpu-a-0", "index": 0, "level": "reset", "since_ms": 1, "findings": [finding],
                   "reason": "fell off the bus", "action": "reset it", "seen_ms": state.now_ms,
                   "counters": {"ecc_corrected": 4}}  # fmt: skip
        feed(state, "gpu-health", "gpu-a", {"node": "gpu-a", "ts_ms": state.now_ms, "gpus": [verdict]})
        gpu = plain(await text(client, "subject?key=gpu/gpu-a/GPU-gpu-a-0"))
        assert "gpu-a:0: reset : fell off the bus; reset it as of 0s ago" in gpu
        assert "3 times" in gpu
        assert "corrected errors of memory: 4" in gpu
        assert "The records have nothing of this time" in gpu, "the GPU of another name has no hours"
        other = plain(await text(client, "subject?key=gpu/gpu-a/GPU-gpu-a-1"))
        assert "not known: nobody has judged it yet" in other


async def test_without_records_a_gpu_is_shown_all_the_same(tmp_path: Path) -> None:
    async with served(fleet(8), tmp_path, records="postgresql://nobody@127.0.0.1:9/none") as client:
        page = plain(await text(client, "subject?key=gpu/gpu-a/GPU-gpu-a-0"))
    assert "cannot read peak records" in page
    assert "What happened to it then not known" in page
    assert "training: GPU waits for input" in page


def test_figures_come_from_a_prometheus_where_one_is_set(
    prometheus: Callable[..., Prometheus], tmp_path: Path
) -> None:
    start_s = hour_before(4) // 1000
    server = prometheus(scrape([]), history=history(start_s))
    given = {"prometheus": server.url, "records": f"sqlite:///{tmp_path}/none.db"}
    key = HardwareKey("gpu-a", "GPU-gpu-a", (("GPU-gpu-a", "gpu-a:0"),))
    span = 1000 * start_s, 1000 * start_s + 3 * HOUR_MS
    past = read_past(load({}, given), given["records"], key, *span)
    assert past.is_from_prometheus
    titles = [title for title, _ in past.charts]
    assert titles == ["GPU utilization", "GPU memory", "GPU power"], "of the heat it has nothing"
    util = np.array(values_of(past, "GPU utilization", "GPU utilization"), float)
    assert util[: 7200 // CYCLE_S].max() == pytest.approx(95, abs=3)
    assert util[-10:].tolist() == [0] * 10, "its pod has ended"
    memory = past.charts[1][1]["data"][0]
    assert memory["y"][5] == pytest.approx(4), "in GiB"
    assert any("peak records" in error for error in past.errors), "and who used it is not known"
    server.stop()
    away = read_past(load({}, given), given["records"], key, *span)
    assert any("Prometheus" in error and "does not answer" in error for error in away.errors)
    assert not away.is_from_prometheus


def test_a_name_that_is_no_uuid_comes_into_no_query(prometheus: Callable[..., Prometheus]) -> None:
    server = prometheus(scrape([]))
    name = 'x"} or vector(1) or {a="'
    key = HardwareKey("gpu-a", name, ((name, "gpu-a:0"),))
    settings: Any = load({}, {"prometheus": server.url})
    assert not read_past(settings, "sqlite:////nowhere/none.db", key, 0, HOUR_MS).is_from_prometheus
