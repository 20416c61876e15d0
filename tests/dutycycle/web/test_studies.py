"""Reports and comparisons on the page: the figures of the commands, made in a process of its own."""

import re
import time
from pathlib import Path

import aiohttp
import pytest

from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.report.build import gather_records, report_of
from dutycycle.report.page import ServedPage, html_of
from dutycycle.web.about import address_of
from dutycycle.web.server import WebPage
from tests.support.data.two_teams import two_teams
from tests.support.kafka import all_topics, send
from tests.support.servers.axe import SERIOUS, axe_script
from tests.support.sinks.recording import derived, write_all
from tests.support.tab import tab

KEY_FIGURES = re.compile(r'<dl class="figures">.*?</dl>', re.DOTALL)


async def test_a_report_has_the_figures_of_the_command_and_is_compared_in_two_clicks(tmp_path: Path) -> None:
    start_ms = (time.time_ns() // 1_000_000 - 2 * HOUR_MS) // HOUR_MS * HOUR_MS
    samples = list(two_teams(start_ms))
    records = f"sqlite:///{tmp_path}/records.db"
    with EmbeddedBroker(all_topics()) as broker:
        settings = load({}, {"broker": broker.url, "records": records, "web": "127.0.0.1:0"})
        await send(settings, [(record.topic, record.key, record.value, record.ts_ms) for record in samples])
        write_all(derived(samples), records)
        source = Source(LiveState(), "dutycycle top", f"broker: {broker.url}", list)
        async with WebPage(source, settings).serving() as url, aiohttp.ClientSession(url) as client:
            async with client.get("report?uid=job-pod-b&back=6h") as answer:
                page = await answer.text()
                assert answer.status == 200, page
                made, policy = answer.headers["X-Made"], answer.headers["Content-Security-Policy"]
            # An open page asks each half a minute by the head alone whether there is a newer one.
            async with client.head("report?uid=job-pod-b&back=6h") as head:
                assert (head.headers["X-Made"], await head.read()) == (made, b"")
            assert "script-src 'self';" in policy
            assert not re.search(r"<script>|<style|\son\w+=", page)
            expected = html_of(
                report_of(
                    gather_records(samples, settings), settings, "", job="job-pod-b", title="cv/job-of-pod-b"
                ),
                ServedPage([], address_of),
            )
            assert KEY_FIGURES.findall(page)[0] == KEY_FIGURES.findall(expected)[0]
            async with client.get("report?uid=job-pod-b&back=6h") as answer:
                assert answer.headers["X-Made"] == made, "what was just made is not made again"
            async with client.get("report?uid=job-pod-b&back=6h&other=job-pod-c") as answer:
                compared = await answer.text()
                assert answer.status == 200, compared
            assert "Side by side" in compared
            assert compared.index("1: cv/job-of-pod-b") < compared.index("2: ml/job-of-pod-c")
            async with tab(tmp_path / "profile") as browser:
                await browser.open(url + "report?uid=job-pod-b&back=6h")
                await browser.wait_for("document.documentElement.dataset.drawn > 3")
                assert [said for said in browser.said if "plotly.js" not in said] == []
                (tmp_path / "report.png").write_bytes(await browser.picture())
                await browser.resize(390, 800)
                # Charts follow the window a moment later.
                await browser.wait_for("document.documentElement.scrollWidth <= innerWidth")


async def test_a_job_of_very_many_pods_is_reported_by_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by the whole topic of pods, which nobody asks a broker for that is not there."""
    monkeypatch.setattr("dutycycle.web.studies.runs.MOST_JOBS", 1)
    start_ms = (time.time_ns() // 1_000_000 - 2 * HOUR_MS) // HOUR_MS * HOUR_MS
    records = f"sqlite:///{tmp_path}/records.db"
    write_all(derived(list(two_teams(start_ms))), records)
    settings = load({}, {"broker": "kafka://127.0.0.1:1", "records": records, "web": "127.0.0.1:0"})
    source = Source(LiveState(), "dutycycle top", "a broker", list)
    async with (
        WebPage(source, settings).serving() as url,
        aiohttp.ClientSession(url) as client,
        client.get("report?uid=job-pod-b") as answer,
    ):
        page = await answer.text()
    assert answer.status == 200, page
    assert "which pods it had is not known in whole" in page
    assert "1800 GPU-s, busy 180 GPU-s" in page.replace("\u00a0", " ")


async def test_a_job_whose_samples_are_gone_is_reported_by_its_records(tmp_path: Path) -> None:
    start_ms = (time.time_ns() // 1_000_000 - 2 * HOUR_MS) // HOUR_MS * HOUR_MS
    records = f"sqlite:///{tmp_path}/records.db"
    write_all(derived(list(two_teams(start_ms))), records)
    with EmbeddedBroker(all_topics()) as broker:
        settings = load({}, {"broker": broker.url, "records": records, "web": "127.0.0.1:0"})
        source = Source(LiveState(), "dutycycle top", f"broker: {broker.url}", list)
        async with WebPage(source, settings).serving() as url, aiohttp.ClientSession(url) as client:
            for path, said in (
                ("report?uid=job-pod-b", "1800 GPU-s, busy 180 GPU-s"),
                ("report?uid=job-pod-b&other=job-pod-c", "Side by side"),
            ):
                async with client.get(path) as answer:
                    page = await answer.text()
                    assert answer.status == 200, page
                page = page.replace("\u00a0", " ")
                assert "From the records, of its whole life. Its samples cannot be had" in page
                assert "the topics have them no more" in page, "the reason"
                assert said in page
            async with client.get("report?uid=job-of-nobody") as answer:
                assert answer.status == 404
            async with tab(tmp_path / "profile") as browser:
                for width in (390, 1280):
                    await browser.look(width, "light")
                    await browser.open(url + "report?uid=job-pod-b&other=job-pod-c")
                    await browser.wait_for("document.documentElement.dataset.drawn > 1")
                    await browser.wait_for("document.documentElement.scrollWidth <= innerWidth")
                    await browser.value(f"{axe_script()}; true")
                    assert await browser.value(SERIOUS) == [], width
                assert [said for said in browser.said if "plotly.js" not in said] == []
