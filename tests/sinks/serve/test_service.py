"""Several roles in one process: each says what it waits for, and none delays another."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.records.samples import GpuProcess
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import BROKER_UNREACHABLE, Telemetry
from sinks.events import EXTENDER_SERVES
from sinks.prometheus.series import SeriesRows
from sinks.serve.roles import chosen_roles
from tests.support.kafka import send
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.sinks.scheduling import gpu, nvml
from tests.support.sinks.serving import ANSWER_S, serving
from tests.support.waiting import until

ASKED = {"Pod": gpu_pod("ml", "new"), "NodeNames": ["a", "b"]}


@asynccontextmanager
async def scheduling(settings: Settings) -> AsyncIterator[Telemetry]:
    """Series and an extender, which answers."""
    async with serving(settings, "metrics", "extender") as telemetry:
        await until(lambda: telemetry.count(EXTENDER_SERVES) > 0)
        yield telemetry


async def ask(settings: Settings) -> list[tuple[str, int]]:
    """What the extender says of the nodes."""
    url = f"http://{settings.serve_listen}/prioritize"
    async with aiohttp.ClientSession() as session, session.post(url, json=ASKED) as response:
        return [(score["Host"], score["Score"]) for score in await response.json()]


async def feed(settings: Settings) -> None:
    now_ms = round(time.time() * 1000)
    hot = gpu(processes=(GpuProcess(pid=7),), throttle=("hw_thermal_slowdown",))
    samples = [nvml(hot, node="a", ts_ms=now_ms), nvml(gpu(), node="b", ts_ms=now_ms)]
    await send(settings, [("nvml-samples", sample.node, sample) for sample in samples])


async def test_one_process_has_series_and_answers_the_scheduler(serve_settings: Settings) -> None:
    await feed(serve_settings)
    async with scheduling(serve_settings) as telemetry:
        scores = dict(await ask(serve_settings))
        assert scores["b"] > scores["a"]
        page = telemetry.metrics.page().decode()
        assert 'dutycycle_gpu_memory_used_bytes{gpu="0",node="b",uuid="GPU-0"}' in page
        assert 'dutycycle_records_taken_total{topic="nvml-samples"} 2.0' in page
        assert "dutycycle_extender_answers_total" in page
        assert "dutycycle_placement_dropped_total" in page, "the events of a role are counted from 0"
        assert BROKER_UNREACHABLE.name in page


async def test_a_scrape_that_takes_long_delays_neither_records_nor_answers(
    serve_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()

    def slow_rows(_series: SeriesRows, _now_ms: int) -> tuple[()]:
        begun.set()
        assert over.wait(4 * ANSWER_S)
        return ()

    async with scheduling(serve_settings) as telemetry:
        monkeypatch.setattr(SeriesRows, "rows", slow_rows)
        scrape = asyncio.create_task(asyncio.to_thread(telemetry.metrics.page))
        await until(begun.is_set)
        before = await ask(serve_settings)
        await feed(serve_settings)

        async def has_taken_them() -> bool:
            return await ask(serve_settings) != before

        await until(has_taken_them)
        assert not scrape.done()
        over.set()
        await scrape


def test_roles_are_named_once_each_and_only_those_that_are_there() -> None:
    assert chosen_roles(("webhook", "metrics", "webhook")) == ("webhook", "metrics")
    with pytest.raises(SettingError, match="DUTYCYCLE_ROLES: expected some of metrics, autoscaler, extender"):
        chosen_roles(())
    with pytest.raises(SettingError, match="DUTYCYCLE_ROLES=metrics,sink: expected some of"):
        chosen_roles(("metrics", "sink"))
