"""A page that is open while the database is away: it ages, says why, and goes on with no reload."""

import asyncio
import time
from pathlib import Path

import pytest

from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.web import pages
from sinks.records.rows import rows_of
from tests.support.servers.postgres import Postgres
from tests.support.sinks.recording import open_store
from tests.support.tab import tab
from tests.support.web_worlds import shown, usual

NO_RELOAD = "window.opened === true"


def text_of(id_: str) -> str:
    return f"document.getElementById('{id_}').textContent"


@pytest.mark.slow
async def test_the_database_restarted_under_an_open_page(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_TODAY_S", 0.5)
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
