"""The page for browsers, over HTTP without a browser: what it says, whom it answers, what it refuses."""

import csv
import io
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import ClientSession

from dutycycle.contract.errors import SettingError
from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.contract.settings.load import load
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.web.fleet import joined_warnings
from dutycycle.web.pages import TABLES
from dutycycle.web.questions import span_of
from dutycycle.web.server import WebPage
from dutycycle.words import moment
from sinks.records.rows import rows_of
from tests.support.data.two_teams import two_teams
from tests.support.fleet import fleet
from tests.support.live import POD, fed, insight, nvml
from tests.support.sinks.recording import derived, open_store, write_all
from tests.support.web_worlds import records_of_teams, usual

PAGES = ("fleet", *TABLES, "history", "idle", "usage", "about")
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}"
NAMES = ("use", "sm", "tensor", "memory", "power", "heat", "health", "age")
TOKEN = "a-token-of-many-letters"
NO_FIGURES = frozenset({"pid", "for"})
"""Names of columns at the right, and of what is beside the figures, that name no figure."""
VOID = frozenset({"meta", "link", "input", "br", "option"})


class Checked(HTMLParser):
    """Counts the elements, and fails where one is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        assert not {name for name in of if name.startswith("on")} | ({"style"} & of.keys()), attrs
        self.ids += [of["id"] or ""] if "id" in of else []
        if tag == "script":
            self.scripts.append(of)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@asynccontextmanager
async def served(state: LiveState, tmp_path: Path, **settings: str) -> AsyncIterator[ClientSession]:
    """A client of the page, with an empty ledger of its own."""
    given = {"records": f"sqlite:///{tmp_path}/records.db", "web": "127.0.0.1:0", **settings}
    source = Source(state, "dutycycle on gpu-a", "broker: kafka://b:1", lambda: ["the sink waits"])
    async with WebPage(source, load({}, given)).serving() as url, ClientSession(url) as client:
        yield client


async def text(client: ClientSession, path: str, status: int = 200) -> str:
    async with client.get(path) as answer:
        assert answer.status == status, await answer.text()
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        return await answer.text()


def words(page: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", page))


async def test_every_page_is_whole_with_and_without_anything_to_show(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/records.db").close()
    for state in (LiveState(), fleet(8), fleet(40)):
        keys = [
            row.key
            for row in (*state.gpus()[:1], *state.pods()[:1], *state.node_rows()[:1], *state.jobs()[:1])
        ]
        async with served(state, tmp_path) as client:
            for path in (*PAGES, *(f"subject?key={key}" for key in keys)):
                page = await text(client, path)
                checked = Checked()
                checked.feed(page)
                assert checked.open == [], path
                assert len(set(checked.ids)) == len(checked.ids), path
                assert all(script.get("src") for script in checked.scripts), path
                assert "dutycycle on gpu-a" in words(page)


async def test_a_gpu_that_is_used_all_the_time_and_hardly_works(tmp_path: Path) -> None:
    state = fed(("nvml-samples", "a", nvml(100, sm_active_pct=12, tensor_active_pct=3)), ("pods", "p", POD))
    async with served(state, tmp_path) as client:
        shades = {}
        for color in NAMES:
            square = re.search(
                r'<li><a class="(\w+)"[^>]*>([^<]*)</a>', await text(client, f"fleet?color={color}")
            )
            assert square is not None
            shades[color] = square.groups()
        assert shades["use"] == ("s4", "100")
        assert shades["sm"] == ("s0", "12")
        assert shades["heat"] == ("unknown", "·"), "what is not known is no 0"
        assert "SM 12.0 %" in re.sub(r"\s+", " ", words(await text(client, "subject?key=gpu/a/GPU-1")))


async def test_who_is_idle_since_when_and_what_ends_it(tmp_path: Path) -> None:
    pod = POD | {"job": {"api_version": "apps/v1", "kind": "StatefulSet", "name": "notebook", "uid": "j"}}
    state = fed(
        ("nvml-samples", "a", nvml(0, ts_ms=7_201_000)), ("pods", "p", pod),
        insight("idle", "idle", evidence={"gpus": 1}),
    )  # fmt: skip
    async with served(state, tmp_path, price_gpu_hour="3") as client:
        page = re.sub(r"\s+", " ", words(await text(client, "idle")))
    assert "ml/train-0" in page
    assert "1970-01-01 00:00:01 2h00m 2.00 6.00" in page
    assert "GPUs 1 as of 1970-01-01" in page, "what was found then is not of now"
    assert "kubectl -n ml scale statefulset/notebook --replicas=0" in page


async def test_filters_sorting_and_what_is_wrong_in_them(tmp_path: Path) -> None:
    async with served(fleet(40), tmp_path) as client:
        grid = await text(client, "fleet?node=gpu-b")
        assert grid.count("<li><a class=") == 8
        assert (await text(client, "fleet?state=free")).count("<li><a class=") == 0
        names = re.findall(r'class="bold">(gpu-[^<]+)<', await text(client, "gpus?sort=memory&q=gpu-c"))
        assert [name.partition(":")[0] for name in names] == ["gpu-c"] * 8
        backwards = re.findall(
            r'class="bold">(gpu-[^<]+)<', await text(client, "gpus?sort=memory&q=gpu-c&reverse=1")
        )
        assert backwards == names[::-1]
        wrong = {
            "fleet?color=red": "expected one of use, sm",
            "gpus?sort=x": "expected one of GPU, use",
            "usage?since=soon": "since=soon",
            "usage?by=a,a": "each once",
            "fleet?state=odd": "expected one of busy",
        }
        for path, said in wrong.items():
            assert said in words(await text(client, path, 400)), path
        assert "is not there" in words(await text(client, "subject?key=gpu/x", 404))
        assert "has at most" in await text(client, "gpus?q=" + "x" * 3000, 414)
        await text(client, "static/../server.py", 404)
        await text(client, "static/server.py", 404)
        await text(client, "nothing", 404)


async def test_hostile_names_are_text(tmp_path: Path) -> None:
    pod = POD | {"name": HOSTILE, "namespace": "n"}
    process = {"pid": 7, "name": HOSTILE, "pod_uid": "p", "gpu_util_pct": 41, "mem_used_bytes": 5}
    sample = nvml(50, model=HOSTILE, processes=[process])
    state = fed(("pods", "p", pod), ("nvml-samples", "a", sample), insight("idle", "idle"))
    async with served(state, tmp_path) as client:
        subjects = ("subject?key=pod/p", "subject?key=gpu/a/GPU-1")
        questions = ("gpus?q=<script>x", "usage?namespace=<script>x")
        for path in ("fleet", "gpus", "pods", "processes", "idle", *subjects, *questions):
            async with client.get(path) as answer:
                page = await answer.text()
            assert "<script>alert" not in page, path
            assert "<script>x" not in page, path
            assert "49" not in re.findall(r"'&amp;\W*(\d+)", page), path
            checked = Checked()
            checked.feed(page)
            assert all(script.get("src") for script in checked.scripts), path


async def test_usage_by_team_as_a_page_and_as_csv(tmp_path: Path) -> None:
    hour_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
    gpus = (
        GpuHour(pod_uid="p", gpu="G", model="H100", gpu_s=3600, known_s=3600, busy_s=900, energy_j=7200),
        GpuHour(pod_uid="q", gpu="H", model="A100", gpu_s=1800, known_s=0, busy_s=0),
    )
    store = open_store(f"sqlite:///{tmp_path}/records.db")
    hour = UsageHour(node="a", source="nvml", hour_ms=hour_ms, ts_ms=hour_ms + 1, gpus=gpus)
    assert store.put(rows_of(hour)) == []
    store.close()
    async with served(LiveState(), tmp_path) as client:
        page = re.sub(r"\s+", " ", words(await text(client, "usage?by=model&since=24h")))
        assert "H100 1.00 0.25 0.75 · 0.00 0.00 · ·" in page
        assert "A100 0.50 · ·" in page, "of what is not known nothing is idle"
        async with client.get("usage.csv?by=model&since=24h") as answer:
            assert answer.content_type == "text/csv"
            rows = {row["model"]: row for row in csv.DictReader(io.StringIO(await answer.text()))}
        assert (rows["H100"]["gpu_s"], rows["H100"]["gpu_busy_s"]) == ("3600.0", "900.0")
        assert rows["A100"]["gpu_busy_s"] == ""
        assert '<script src="static/plotly.js">' not in await text(client, "usage?by=model&since=24h")
        by_day = await text(client, "usage?by=model,day&since=24h")
        assert f"H100 {datetime.now(UTC):%Y-%m-%d} 1.00" in plain(by_day)
        figures = map(json.loads, map(unescape, re.findall(r'data-figure="([^"]*)"', by_day)))
        areas = [
            {layer["name"]: layer["customdata"] for layer in figure["data"] if "customdata" in layer}
            for figure in figures
        ]
        assert areas == [{"H100": [1.0], "A100": [0.5]}, {"H100": [0.75]}], (
            "of what is not known nothing is idle"
        )
        for question in ("by=tem", "namespace=nobody"):
            assert "there is no such" in words(await text(client, f"usage?{question}", 400))
        fleet_page = words(await text(client, "fleet"))
        assert "today, GPU hours" in " ".join(fleet_page.split())


async def test_without_records_now_is_shown_all_the_same(tmp_path: Path) -> None:
    async with served(fleet(8), tmp_path, records="postgresql://nobody@127.0.0.1:9/none") as client:
        assert (await text(client, "fleet")).count("<li><a class=") == 8
        assert "cannot be read" in await text(client, "usage", 503)


async def test_changes_are_told_and_end_with_the_page(tmp_path: Path) -> None:
    state = fleet(8)
    async with served(state, tmp_path) as client, client.get("changes") as answer:
        assert answer.content_type == "text/event-stream"
        assert await answer.content.readline() == b"data: %d\n" % state.ticks


async def test_somebody_elses_name_is_not_answered(tmp_path: Path) -> None:
    async with served(fleet(8), tmp_path) as client:
        async with client.get("fleet", headers={"Host": "evil.example:80"}) as answer:
            assert answer.status == 403
        async with client.get("fleet", headers={"Host": "localhost:1"}) as answer:
            assert answer.status == 200


async def test_a_token_is_asked_for_and_kept_out_of_addresses(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    async with served(fleet(8), tmp_path, web_token=str(tmp_path / "token")) as client:
        for path in ("fleet", "usage.csv", "changes", "subject?key=gpu/a"):
            async with client.get(path, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "login"), path
        async with client.post("login", data={"token": "wrong-token-of-letters"}) as answer:
            assert answer.status == 403
            assert "not the token" in await answer.text()
        async with client.get("fleet", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert answer.status == 200
        async with client.post("login", data={"token": TOKEN}, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert TOKEN not in cookie
        name, _, value = cookie.partition(";")[0].partition("=")
        async with client.get("fleet", headers={"Cookie": f"{name}={value}"}) as answer:
            assert answer.status == 200


async def test_a_token_is_made_where_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for _ in range(2):
        async with served(fleet(8), tmp_path, web_token=str(file)) as client:
            token = file.read_text().strip()
            async with client.get("fleet", headers={"Authorization": f"Bearer {token}"}) as answer:
                assert answer.status == 200
            async with client.get("fleet", allow_redirects=False) as answer:
                assert answer.status == 303
    assert (len(token), file.stat().st_mode & 0o777) == (32, 0o600)


async def test_an_address_that_is_not_safe_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("abc")
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "binary").write_bytes(b"\xff" * 20)
    taken = ("192.0.2.1:8080", str(tmp_path / "token"))  # for documentation (RFC 5737): no machine has it
    for web, token, said in (
        ("0.0.0.0:0", "", "give a file with a token"),
        ("0.0.0.0:0", str(tmp_path / "short"), "16 letters or more"),
        ("0.0.0.0:0", str(tmp_path / "binary"), "binary: no token can be read or made: it is no text"),
        (*taken, "give another host:port"),
    ):
        given = {"web": web} | ({"web_token": token} if token else {})
        with pytest.raises(SettingError, match=said):
            async with WebPage(Source(LiveState(), "t", "p", list), load({}, given)).serving():
                pass


async def test_a_fleet_of_thousands_is_one_page(tmp_path: Path) -> None:
    gpus = [{"uuid": f"G{index}", "index": index, "gpu_util_pct": 50} for index in range(8)]
    state = fed(*(
        ("nvml-samples", f"n{node}", {"node": f"n{node}", "ts_ms": 1000, "gpus": gpus}) for node in range(250)
    ))  # fmt: skip
    async with served(state, tmp_path) as client:
        page = await text(client, "fleet")
        assert page.count("<li><a class=") == 2000
        async with client.get("fleet") as answer:
            assert answer.headers["Content-Encoding"] in ("gzip", "deflate")
            assert int(answer.headers.get("Content-Length", 0)) < len(page) / 5
        assert "the first 500 of 2000" in words(await text(client, "gpus"))


@asynccontextmanager
async def served_jobs(tmp_path: Path, **settings: str) -> AsyncIterator[ClientSession]:
    """A client of the page with the records of two teams, of an hour and a half that ended just now."""
    start_ms = (time.time_ns() // 1_000_000 - 2 * HOUR_MS) // HOUR_MS * HOUR_MS
    prices = {"price_gpu_hour": "2", **settings}
    write_all(derived(two_teams(start_ms)), f"sqlite:///{tmp_path}/records.db", load({}, prices))
    async with served(LiveState(), tmp_path, **prices) as client:
        yield client


def plain(page: str) -> str:
    return re.sub(r"\s+", " ", words(page.partition("<main")[2]))


async def test_jobs_that_ended_by_what_they_wasted(tmp_path: Path) -> None:
    async with served_jobs(tmp_path) as client:
        page = await text(client, "history")
        assert re.findall(r">(\w+/job-of-pod-\w)<", page)[0] == "default/job-of-pod-d"
        assert "not heard of any more" in plain(page)
        assert "1 1.50 1.50 3.00 3.00 0.0 %" in plain(page)
        assert re.findall(r">(\w+/job-of-pod-\w)<", await text(client, "history?label=team=vision")) == [
            "cv/job-of-pod-b"
        ]
        assert "No job is like that" in plain(await text(client, "history?q=<script>x"))
        assert "Jobs seen from" in plain(await text(client, "history?since=last-month"))
        for wrong, said in (
            ("sort=x", "expected one of waste"), ("state=x", "expected one of ended"),
            ("label=team", "team=nlp"), ("since=x", "last-month"), ("since=99999999h", "five years"),
        ):  # fmt: skip
            assert said in words(await text(client, f"history?{wrong}", 400)), wrong
        job = plain(await text(client, "job?uid=job-pod-d"))
        assert "idle 1.50" in job
        assert "name-of-pod-d gpu-a" in job
        assert "no such job" in await text(client, "job?uid=<script>", 404)
        assert "no such job runs" in await text(client, "report?uid=x", 404)
        for path in ("history", "job?uid=job-pod-d", "about"):
            checked = Checked()
            checked.feed(await text(client, path))
            assert checked.open == []
            assert len(set(checked.ids)) == len(checked.ids), path
    async with served(LiveState(), tmp_path, records="postgresql://nobody@127.0.0.1:9/none") as client:
        for path in ("history", "job?uid=a"):
            assert "cannot be read" in await text(client, path, 503)


@pytest.mark.slow
async def test_every_figure_leads_to_how_it_is_made(tmp_path: Path) -> None:
    world = usual(records_of_teams(tmp_path))
    keys = (f"subject?key={quote(row.key)}" for row in (world.state.pods()[0], world.state.jobs()[0]))
    orders: set[str] = set()
    async with served(world.state, tmp_path, records=world.records, price_gpu_hour="2") as client:
        checked = Checked()
        checked.feed(await text(client, "about"))
        for path in (*world.paths, "nodes", *keys):
            if path == "about":
                continue
            page = await text(client, path)
            for place in re.findall(r'href="about#([^"]+)"', page):
                assert place in checked.ids, (path, place)
            figures = re.findall('<dt>(.+?)</dt>|<th [^>]*class="right"[^>]*>(.+?)</th>', page)
            assert figures, path
            for name in map("".join, figures):
                assert "about#" in name or words(name).strip() in NO_FIGURES, (path, name)
            sorting = re.findall('"meaning" [^>]*aria-label="What ([^"]+) means"', page)
            orders |= {name for name in sorting if f">{name}</a> <a" in page}
    assert {"use", "memory", "power", "GPU hours", "idle", "CPU"} <= orders, "they sort, and are explained"


async def test_a_job_is_compared_with_any_other_in_two_clicks(tmp_path: Path) -> None:
    async with served_jobs(tmp_path) as client:
        page = await text(client, "job?uid=job-pod-b")
        assert "none that the records know" in page, "no run before it has its name"
        link = re.search(r'<a href="([^"]+)"[^>]*>Compare with another job</a>', page)
        assert link is not None
        page = await text(client, unescape(link[1]))
        offered = re.findall(r'href="(report\?[^"]+)"[^>]*>compare</a>', page)
        assert sorted(map(unescape, offered)) == [
            f"report?uid=job-pod-b&other=job-pod-{other}" for other in "acd"
        ]
        for link_on in re.findall(r'<a href="(history[^"]+)"', page):
            assert "compare=job-pod-b" in unescape(link_on), "other times and orders keep the question"
        hostile = await text(client, "history?compare=%22%3E%3Cscript%3E")
        assert "<script>" not in hostile.replace('<script src="static/web.js">', "")


def test_what_many_have_alike_is_said_once() -> None:
    full = [f"GPU n-{at}:2: memory full in {14 + at}m" for at in range(9)]
    heat = ["GPU n-1:0: slowed by heat at 91 °C", "GPU n-2:0: slowed by heat at 90 °C"]
    assert joined_warnings(["n-9: no sample for 30s", *full, *heat, "the database is away"]) == [
        "n-9: no sample for 30s",
        "GPU n-0:2: memory full in 14m; so or alike n-1:2, n-2:2, n-3:2 and 5 more",
        *heat,
        "the database is away",
    ]


def test_times_by_name() -> None:
    now_ms = 1_795_887_129_645  # 2026-11-28T17:32:09Z
    assert span_of("last-month", now_ms) == (1_790_812_800_000, 1_793_491_200_000)
    assert span_of("this-month", now_ms) == (1_793_491_200_000, now_ms)
    assert span_of("today", now_ms) == (1_795_824_000_000, now_ms)
    assert span_of("2h", now_ms)[0] == 1_795_878_000_000


@pytest.mark.slow
async def test_an_idle_gpu_its_holder_and_since_when_in_two_clicks(tmp_path: Path) -> None:
    world = usual(f"sqlite:///{tmp_path}/none.db")
    async with served(world.state, tmp_path) as client:
        page = await text(client, "fleet")
        for name in ("idle", "Which they are, who holds them and since when"):
            link = re.search(rf'<a href="([^"]+)"[^>]*>{name}</a>', page)
            assert link is not None, name
            page = await text(client, unescape(link[1]))
    holder = world.state.rows["pod/gpu-a-1"]
    assert holder.title in page
    assert moment(world.state.now_ms - 3 * HOUR_MS) in page


async def test_last_months_idle_cost_by_team_in_four_clicks(tmp_path: Path) -> None:
    """Usage, last month, team, CSV: each is a link of the page before."""
    now = datetime.now(UTC)
    last_month = now.replace(day=1, hour=12, minute=0, second=0, microsecond=0) - timedelta(days=3)
    samples = two_teams(round(last_month.timestamp()) * 1000)
    write_all(derived(samples), f"sqlite:///{tmp_path}/records.db", load({}, {"price_gpu_hour": "2"}))
    async with served(LiveState(), tmp_path) as client:
        page = await text(client, "fleet")
        for name in ("Usage", "last month", "team"):
            link = re.search(rf'<a href="([^"]+)"[^>]*>{name}</a>', page)
            assert link is not None, name
            page = await text(client, unescape(link[1]))
        link = re.search(r'<a href="(usage.csv[^"]*)"', page)
        assert link is not None
        async with client.get(unescape(link[1])) as answer:
            rows = {row["team"]: row for row in csv.DictReader(io.StringIO(await answer.text()))}
        assert float(rows["nlp"]["gpu_idle_cost"]) == pytest.approx(0.6)
        assert float(rows["vision"]["gpu_idle_cost"]) == pytest.approx(0.9)
        assert float(rows["(none)"]["gpu_idle_cost"]) == pytest.approx(3)
        assert "team=" not in page
        link = re.search(r'<a href="(usage.parquet[^"]*)"', page)
        assert link is not None
        async with client.get(unescape(link[1])) as answer:
            if answer.status == 501:
                assert "pip install" in await answer.text()
                return
            table = pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(await answer.read()))
        assert dict(zip(*(table[name].to_pylist() for name in ("team", "gpu_s")), strict=True))["nlp"] == 7200
        assert table["gpu_sm_s"].null_count == table.num_rows, "what is not known is no 0"
