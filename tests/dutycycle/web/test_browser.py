"""The page in a real browser: scripts and charts run under its policy, figures go on, it fits a telephone."""

from pathlib import Path

from dutycycle.contract.settings.load import load
from dutycycle.live.source import Source
from dutycycle.web.pages import TABLES
from dutycycle.web.server import WebPage
from tests.support.fleet import fleet
from tests.support.live import feed, nvml
from tests.support.tab import tab

PAGES = ("fleet", *TABLES, "idle", "usage")
LIVE = "document.getElementById('live').textContent === 'live'"
NOT_WIDER = "document.documentElement.scrollWidth <= innerWidth"
LABELLED = """[...document.querySelectorAll('input, select')].every(
  (field) => field.type === 'hidden' || field.labels.length)"""


async def test_every_page_in_chromium(tmp_path: Path) -> None:
    state = fleet(16)
    gpu, job = state.gpus()[0], state.jobs()[0]
    source = Source(state, "dutycycle on gpu-a", "broker: kafka://b:1", list)
    settings = load({}, {"web": "127.0.0.1:0", "records": f"sqlite:///{tmp_path}/records.db"})
    async with WebPage(source, settings).serving() as url, tab(tmp_path / "profile") as page:
        for width in (390, 2560):
            await page.resize(width, 900)
            for path in (*PAGES[:-1], f"subject?key={gpu.key}", f"subject?key={job.key}"):
                await page.open(url + path)
                await page.wait_for(LIVE)
                assert await page.value(NOT_WIDER), (path, width)
                assert await page.value(LABELLED), path
                if path.startswith("subject"):
                    await page.wait_for("document.querySelectorAll('.plot .main-svg').length >= 2")
        # Plotly brings a style of maps, which no page of ours has.
        assert [said for said in page.said if not ("style-src" in said and "plotly.js" in said)] == []

        await page.open(url + "fleet")
        await page.wait_for(LIVE)
        now_ms = state.now_ms + 1000
        feed(state, "nvml-samples", "a", nvml(71, ts_ms=now_ms))
        await page.wait_for("document.querySelector('#grid').textContent.includes('71')")
        for _ in range(2):  # past the link to the content: the first page
            await page.press("Tab")
        assert await page.value("document.activeElement.getAttribute('href')") == "fleet"
        await page.press("Tab")
        await page.press("Enter")
        await page.wait_for(
            "location.pathname === '/gpus' && document.querySelectorAll('tbody tr').length === 17"
        )
        assert len(await page.picture()) > 10_000
