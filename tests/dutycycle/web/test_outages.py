"""A page that is open while Kafka or the database is away: it ages, says why, and goes on with no reload."""

import asyncio
import time
from pathlib import Path

import orjson
import pytest

from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import TOPICS
from dutycycle.live.follow import ClusterFollower
from dutycycle.live.model.state import LiveState
from dutycycle.web import ledger
from sinks.records.rows import rows_of
from tests.support.kafka import make_topics, send
from tests.support.live import nvml
from tests.support.servers.kafka.broker import OwnBroker, RunningBroker
from tests.support.servers.postgres import Postgres
from tests.support.sinks.recording import open_store
from tests.support.tab import tab
from tests.support.web_worlds import WebWorld, shown, usual

NO_RELOAD = "window.opened === true"


def text_of(id_: str) -> str:
    return f"document.getElementById('{id_}').textContent"


def sample(util: float, seq: int) -> tuple[str, str, bytes]:
    now_ms = time.time_ns() // 1_000_000
    head = {"v": 1, "collector": "c", "interval_ms": 1000, "seq": seq}
    return "nvml-samples", "a", orjson.dumps(head | nvml(util, ts_ms=now_ms, processes=[]))


@pytest.mark.slow
async def test_kafka_restarted_under_an_open_page(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    if not isinstance(kafka, OwnBroker):
        pytest.skip("stops its broker: unset DUTYCYCLE_TEST_BROKER, and the tests start their own")
    settings = load({}, {"broker": kafka.url, "topic_prefix": topic_prefix, "partitions": "1"})
    state, stop = LiveState(), asyncio.Event()
    await make_topics(settings, list(TOPICS))
    await send(settings, [sample(41, 1)])
    follower = ClusterFollower(settings, state)
    reading = asyncio.create_task(follower.run(stop))
    world = WebWorld(state, f"sqlite:///{tmp_path}/none.db", None, None, degraded=follower.problems)
    try:
        async with shown(world) as url, tab(tmp_path / "profile") as page:
            await page.open(url + "fleet")
            await page.value("window.opened = true")
            async with asyncio.timeout(60):
                seq = 2
                while "41" not in await page.value(text_of("grid")):
                    await send(settings, [sample(41, seq)])
                    seq += 1
                    await asyncio.sleep(1)
            assert await page.value(text_of("problems")) == ""
            await asyncio.to_thread(kafka.stop)
            await page.wait_for(f"{text_of('problems')} !== ''")
            await page.wait_for(f"/silent\\W*1 GPU/.test({text_of('totals')})")
            await asyncio.to_thread(kafka.start)
            await send(settings, [sample(73, 1000)])
            await page.wait_for(f"{text_of('grid')}.includes('73') && {text_of('problems')} === ''")
            await page.wait_for(f"/silent\\W*0 GPUs/.test({text_of('totals')})")
            assert await page.value(NO_RELOAD)
    finally:
        stop.set()
        await reading


@pytest.mark.slow
async def test_the_database_restarted_under_an_open_page(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_TODAY_S", 0.5)
    url_of_records = postgres.new_database()
    hour_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS

    def used(seconds: int) -> None:
        store = open_store(url_of_records)
        gpu = GpuHour(gpu="GPU-gpu-a-0", gpu_s=seconds, known_s=seconds, busy_s=0)
        hour = UsageHour(node="gpu-a", source="nvml", hour_ms=hour_ms, ts_ms=hour_ms + seconds, gpus=(gpu,))
        assert store.put(rows_of(hour)) == []
        store.close()

    used(1800)
    async with shown(usual(url_of_records)) as url, tab(tmp_path / "profile") as page:
        await page.open(url + "fleet")
        await page.value("window.opened = true")
        assert "0.50" in await page.value(text_of("totals"))
        await asyncio.to_thread(postgres.stop)
        await page.wait_for(f"{text_of('problems')}.includes('sums are as of')")
        assert "0.50" in await page.value(text_of("totals")), "what was read before is shown, with its time"
        await asyncio.to_thread(postgres.start)
        used(3600)
        await page.wait_for(f"{text_of('problems')} === '' && {text_of('totals')}.includes('1.00')")
        assert await page.value(NO_RELOAD)
