"""Every page in a real browser, with what there may be to show: scripts and charts run under its policy, it
fits a telephone and a wall, is read by keyboard, and axe finds nothing that keeps people out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from dutycycle.contract.settings.load import load
from dutycycle.live.follow import ClusterFollower
from dutycycle.live.model.state import LiveState
from tests.support.live import feed, nvml
from tests.support.servers.axe import SERIOUS, axe_script
from tests.support.servers.ports import free_port
from tests.support.tab import Tab, tab
from tests.support.web_pictures import PICTURES, draw_pictures, named_in_docs
from tests.support.web_worlds import (
    HOSTILE,
    WebWorld,
    behind_proxy,
    hostile,
    records_of_teams,
    shown,
    stale,
    usual,
)

LIVE = "document.getElementById('live').textContent === 'live'"
NOT_WIDER = "document.documentElement.scrollWidth <= innerWidth"
LABELLED = """[...document.querySelectorAll('input, select')].every(
  (field) => field.type === 'hidden' || field.labels.length)"""
DRAWN = """[...document.querySelectorAll('.plot')].every((plot) => plot.querySelector('.main-svg'))"""
AWAY = "postgresql://nobody@127.0.0.1:9/none"
_CONTROLS = """[...document.querySelectorAll('a[href], button, input, select, [tabindex="0"]')]
  .filter((each) => each.type !== 'hidden' && each.getClientRects().length)"""
_FOCUSED = f"""((controls) => {{
  const {{ outlineStyle, outlineWidth }} = getComputedStyle(document.activeElement);
  const place = document.activeElement.getBoundingClientRect();
  return [controls.indexOf(document.activeElement), outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2,
    place.bottom > 0 && place.top < innerHeight && place.right > 0 && place.left < innerWidth];
}})({_CONTROLS})"""
WORLDS: dict[str, Callable[[Path], WebWorld]] = {
    "eight": lambda folder: usual(records_of_teams(folder)),
    "thousands": lambda folder: usual(records_of_teams(folder), 10_000, ticks=3),
    "empty": lambda folder: WebWorld(LiveState(), f"sqlite:///{folder}/none.db", None, None),
    "stale": lambda folder: stale(records_of_teams(folder)),
    "database away": lambda _: usual(AWAY),
    "hostile": hostile,
}
SAID: dict[str, dict[str, str]] = {
    "eight": {"fleet": "busy", "gpus": "gpu-a", "usage": "ml", "history": "job-of-pod-d", "idle": "Free"},
    "thousands": {"fleet": "GPUs", "gpus": "the first 500 of 10000"},
    "empty": {"fleet": "not known: no sample came in yet", "usage": "there are no peak records",
              "idle": "Not known: no sample came in yet."},
    "stale": {"fleet": "no sample for 30s", "subject?key=node/gpu-a": "30s old"},
    "database away": {"fleet": "busy", "usage": "cannot read peak records",
                      "subject?key=gpu/gpu-a/GPU-gpu-a-0": "cannot read peak records"},
    "hostile": {"pods": HOSTILE, "idle": HOSTILE, "processes": HOSTILE, "history": HOSTILE,
                "job?uid=j": HOSTILE, "subject?key=gpu/a/GPU-1": HOSTILE},
}  # fmt: skip
"""What is read on a page of each."""
VIEWS = ((390, "light"), (2560, "dark"))
"""With eight GPUs axe looks at each page in both, else in turns."""


def complaints(page: Tab) -> list[str]:
    """What the browser said since the last call. Plotly brings a style of maps, which no page of ours has; an
    answer that refuses is one of the worlds' own."""
    said = [
        line for line in page.said
        if not ("style-src" in line and "plotly.js" in line) and "status of 503" not in line
    ]  # fmt: skip
    page.said.clear()
    return said


async def findings(page: Tab, script: str) -> Any:
    """What axe finds that is serious."""
    await page.value(f"{script}; true")
    return await page.value(SERIOUS)


async def look(page: Tab, url: str, width: int, scheme: str) -> None:
    """Open it in a view, and wait until all of it is there."""
    await page.look(width, scheme)
    await page.open(url)
    await page.wait_for(f"!document.getElementById('live') || {LIVE}")
    await page.wait_for(DRAWN)


@pytest.mark.parametrize("name", WORLDS)
async def test_every_page(name: str, tmp_path: Path) -> None:
    script = axe_script()
    world = WORLDS[name](tmp_path)
    async with shown(world) as url, tab(tmp_path / "profile") as page:
        for at, path in enumerate(world.paths):
            for view, (width, scheme) in enumerate(VIEWS):
                is_next = at % len(VIEWS) == view
                if name == "thousands" and path != "fleet" and not is_next:
                    continue
                await look(page, url + path, width, scheme)
                assert await page.value(NOT_WIDER), (path, width)
                assert await page.value(LABELLED), path
                if name == "eight" or is_next:
                    assert await findings(page, script) == [], (path, width, scheme)
            said = SAID[name].get(path, "")
            assert said in await page.value("document.body.textContent"), path
            assert await page.value("document.querySelectorAll('script:not([src])').length") == 0
        assert complaints(page) == []


@asynccontextmanager
async def broker_away() -> AsyncIterator[WebWorld]:
    """What ``dutycycle top`` shows of a broker that does not answer."""
    state, stop = LiveState(), asyncio.Event()
    follower = ClusterFollower(load({}, {"broker": f"kafka://127.0.0.1:{free_port()}"}), state)
    reading = asyncio.create_task(follower.run(stop))
    try:
        yield WebWorld(state, AWAY, None, None, degraded=follower.problems)
    finally:
        stop.set()
        with suppress(asyncio.CancelledError):
            await reading


async def test_a_broker_that_is_away_is_said(tmp_path: Path) -> None:
    async with broker_away() as world, shown(world) as url, tab(tmp_path / "profile") as page:
        script = axe_script()
        for path in ("fleet", "gpus", "jobs", "idle", "about"):
            await look(page, url + path, 390, "dark")
            # It is known after a while, and without a record nothing tells the page to look again.
            while "127.0.0.1" not in await page.value("document.getElementById('problems').textContent"):
                await asyncio.sleep(0.5)
                await page.open(url + path)
            assert await findings(page, script) == [], path


async def test_by_keyboard(tmp_path: Path) -> None:
    world = usual(records_of_teams(tmp_path))
    async with shown(world) as url, tab(tmp_path / "profile") as page:
        for path in world.paths:
            await look(page, url + path, 1280, "light")
            count = await page.value(f"{_CONTROLS}.length")
            assert count > 10
            for at in range(min(count, 150)):
                await page.press("Tab")
                assert await page.value(_FOCUSED) == [at, True, True], (path, at)
        await look(page, url + "fleet", 1280, "light")
        await page.press("Tab")
        await page.press("Enter")
        assert await page.value("location.hash") == "#main", "past the names of the pages"
        await page.press("Tab")
        assert await page.value("document.querySelector('main').contains(document.activeElement)")


async def test_below_a_path_of_a_proxy_it_is_the_same_and_goes_on(tmp_path: Path) -> None:
    world = usual(records_of_teams(tmp_path), gpus=16)
    async with shown(world) as own, behind_proxy(own) as url, tab(tmp_path / "profile") as page:
        for path in ("", world.paths[0], "history", "usage"):
            await look(page, url + path, 1280, "light")
            links = await page.value("[...document.querySelectorAll('a[href]')].map((link) => link.href)")
            strangers = [link for link in links if not urljoin(url, link).startswith((url, "data:"))]
            assert strangers == [], path
        assert complaints(page) == []

        await look(page, url + "fleet", 1280, "light")
        feed(world.state, "nvml-samples", "a", nvml(71, ts_ms=world.state.now_ms + 1000))
        await page.wait_for("document.querySelector('#grid').textContent.includes('71')")
        for _ in range(3):  # past the link to the content, and the page itself
            await page.press("Tab")
        await page.press("Enter")
        await page.wait_for(
            "location.pathname.endsWith('/ui/gpus') && document.querySelectorAll('tbody tr').length === 17"
        )


async def test_pictures_of_the_docs_are_of_these_pages(tmp_path: Path) -> None:
    await draw_pictures(tmp_path)
    sizes = {name: len((tmp_path / name).read_bytes()) for name in PICTURES}
    assert all(8_000 < size < 250_000 for size in sizes.values()), sizes
    assert set(PICTURES) == named_in_docs()
