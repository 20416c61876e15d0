"""Pages that are made once for all who ask the same and may see the same."""

import asyncio
import gzip
from pathlib import Path
from types import SimpleNamespace

import pytest

from dutycycle.web.questions import EVERYBODY, Viewer
from dutycycle.web.studies import shared
from dutycycle.web.studies.shared import SharedPages
from tests.dutycycle.web.test_pages import served
from tests.support.fleet import fleet
from tests.support.waiting import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What pages are timed by."""
    clock = Clock()
    monkeypatch.setattr(shared, "time", SimpleNamespace(monotonic=clock))
    return clock


async def test_it_is_made_once_for_all_who_ask_while_it_is_fresh() -> None:
    pages = SharedPages(2, least_s=60, pause=10)
    made: list[int] = []

    async def make() -> str:
        await asyncio.sleep(0.01)
        made.append(len(made))
        return f"page {len(made)}"

    answers = await asyncio.gather(*(pages.page("a", make) for _ in range(20)))
    assert {gzip.decompress(page.packed) for page in answers} == {b"page 1"}
    assert gzip.decompress((await pages.page("b", make)).packed) == b"page 2", "another question"
    await pages.page("c", make)
    assert pages.is_at_hand("c")
    assert not pages.is_at_hand("a"), "the oldest leaves"
    assert gzip.decompress((await pages.page("a", make)).packed) == b"page 4"


async def test_it_is_fresh_by_what_making_it_took_and_never_for_longer_than_allowed(clock: Clock) -> None:
    async def make() -> str:
        clock.now_s += 0.5
        return ""

    for pages, fresh_s in (
        (SharedPages(2, least_s=0, pause=10), 5),
        (SharedPages(2, least_s=0, pause=10, most_s=0.25), 0.25),
        (SharedPages(2, least_s=7, pause=0), 7),
    ):
        page = await pages.page("a", make)
        assert page.fresh_s == fresh_s
        assert page.is_fresh
        clock.now_s += fresh_s
        assert not page.is_fresh
    brief = SharedPages(2, least_s=0, pause=0)
    assert await brief.page("a", make) is not await brief.page("a", make)


async def test_waiting_for_a_turn_is_no_part_of_what_it_took(clock: Clock) -> None:
    pages = SharedPages(4, least_s=0, pause=10, at_once=1)

    async def make() -> str:
        clock.now_s += 2
        return ""

    made = await asyncio.gather(*(pages.page(key, make) for key in "abcd"))
    assert [page.took_s for page in made] == [2] * 4


async def test_what_fails_is_told_to_all_and_tried_anew() -> None:
    pages = SharedPages(2, least_s=60, pause=10)

    async def fail() -> str:
        await asyncio.sleep(0)
        raise ValueError("away")

    answers = await asyncio.gather(*(pages.page("a", fail) for _ in range(3)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["away"] * 3
    assert (pages.making, pages.is_at_hand("a")) == (0, False)
    with pytest.raises(ValueError, match="away"):
        await pages.page("a", fail)


def test_who_shares_sees_the_same() -> None:
    ml, cv = frozenset({"ml"}), frozenset({"cv"})
    assert Viewer("alice", ml).scope == Viewer("bob", ml).scope
    scopes = [
        EVERYBODY.scope, Viewer("alice", ml).scope, Viewer("alice", cv).scope,
        Viewer("alice", frozenset()).scope, Viewer("bob", frozenset()).scope,
    ]  # fmt: skip
    assert len(set(scopes)) == len(scopes)


async def test_who_cannot_unpack_gets_text_and_who_has_a_file_gets_it_once(tmp_path: Path) -> None:
    async with served(fleet(8), tmp_path) as client:
        packed: list[str] = []
        for encoding in ("gzip", "identity"):
            async with client.get("fleet", headers={"Accept-Encoding": encoding}) as answer:
                packed.append(answer.headers.get("Content-Encoding", ""))
                assert "GPUs by node" in await answer.text()
            async with client.get("static/plotly.js", headers={"Accept-Encoding": encoding}) as answer:
                assert (answer.status, "plotly" in (await answer.text())[:500]) == (200, True)
                tag = answer.headers["ETag"]
        assert packed == ["gzip", ""]
        async with client.get("static/plotly.js", headers={"If-None-Match": tag}) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
            assert "default-src" in answer.headers["Content-Security-Policy"]
