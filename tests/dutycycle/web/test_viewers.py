"""Who asks, and what he may see: no answer of the page has a name of a namespace that is not his."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from msgspec import structs
from multidict import CIMultiDict

from dutycycle.contract.errors import SettingError
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.web.pages import TABLES
from dutycycle.web.questions import Viewer
from dutycycle.web.server import WebPage
from tests.support.data.two_teams import two_teams
from tests.support.kafka import all_topics, send
from tests.support.sinks.recording import derived, write_all

SECRET = ("rivals", "pod-b", "vision", "pod-d", "secret-lab", "secret-program", "container-b")
"""What may not be read by who may see namespace ml alone: of names, uids, labels, processes."""
HIDDEN = "another namespace"
UNKNOWN = "zzz"
"""A uid that nobody has, to compare with."""
PROXIED = {"web_proxies": "127.0.0.1", "web_allow": "alice,group:ml-team"}


def two_namespaces(start_ms: int) -> list[ConsumerRecord]:
    """The samples of two teams, whose namespaces have names that stand nowhere else."""
    return [structs.replace(record, value=renamed(record.value or b"")) for record in two_teams(start_ms)]


def renamed(value: bytes) -> bytes:
    """The same with other names of namespaces."""
    return value.replace(b'"default"', b'"secret-lab"').replace(b'"cv"', b'"rivals"')


def shared_gpus(start_ms: int) -> Iterator[tuple[str, str, bytes, int]]:
    """The samples of two teams; on GPU 1 there are processes of both namespaces, and on GPU 2 one of a pod
    whose name only an exporter tells."""
    for record in two_namespaces(start_ms):
        sample: dict[str, Any] = orjson.loads(record.value or b"")
        if record.topic.endswith("nvml-samples"):
            alone, other = (
                {"pid": pid, "name": name, "pod_uid": uid, "container_id": f"container-{uid[-1]}",
                 "gpu_util_pct": 5, "mem_used_bytes": 2**30}
                for pid, name, uid in ((7, "train.py", "pod-c"), (8, "secret-program", "pod-b"))
            )  # fmt: skip
            sample["gpus"][1]["processes"] = [alone, other]
            given = {"namespace": "secret-lab", "pod": "name-of-pod-d", "container": "container-b"}
            sample["gpus"][2]["allocated"] = [given, given | {"pod_uid": "pod-d"}]
        yield record.topic, record.key or "", orjson.dumps(sample), record.ts_ms


def live_state(records: list[tuple[str, str, bytes, int]]) -> LiveState:
    """What is shown of now: the last of these records, as if they came in just now."""
    state, prefix = LiveState(), "dutycycle."
    for topic, key, value, ts_ms in records:
        name = topic.removeprefix(prefix)
        if name != "pods" or orjson.loads(value)["phase"] == "Running":
            state.feed(name, key, value, ts_ms)
    for uid in ("pod-b", "pod-c", "pod-d"):
        insight = {
            "v": 1, "subject": {"kind": "pod", "node": "gpu-a", "pod_uid": uid}, "ts_ms": state.now_ms,
            "since_ms": state.now_ms - HOUR_MS, "kind": "idle", "confidence": 0.9, "bottleneck": "idle",
            "bottleneck_confidence": 0.9, "advice": f"end name-of-{uid}",
        }  # fmt: skip
        state.feed("insights", f"pod/{uid}", orjson.dumps(insight), state.now_ms)
    return state


class OneNamespace:
    """Stands for the word of an API server: who asks may see ``ml``."""

    asks, takes_tokens = True, False

    async def viewer(self, _: web.Request) -> Viewer:
        return Viewer("alice", frozenset({"ml"}))

    async def open(self) -> None:
        """There is no connection."""

    async def close(self) -> None:
        """There is none."""


QUESTIONS: dict[str, tuple[str, ...]] = {
    "/": ("",), "/fleet": ("", "?namespace=rivals", "?state=idle"), "/idle": ("",), "/about": ("",),
    **{f"/{name}": ("", "?q=rivals", "?q=pod-b", "?q=secret-program") for name in TABLES},
    "/subject": (
        "?key=pod/pod-b", "?key=pod/pod-d", "?key=job/job-pod-b", "?key=gpu/gpu-a/GPU-1",
        "?key=gpu/gpu-a/GPU-2", "?key=node/gpu-a", "?key=pod/pod-c", "?key=job/job-pod-c",
        "?key=pod/another namespace",
    ),
    "/usage": (
        "", "?by=namespace,job,pod,team", "?by=pod,gpu", "?namespace=rivals", "?by=team",
        "?by=cost-centre,node", "?by=nothing",
    ),
    "/usage.csv": ("", "?by=namespace,job,pod,team", "?namespace=rivals", "?by=team,hour"),
    "/usage.parquet": ("", "?by=namespace,job,pod,team", "?namespace=rivals"),
    "/history": ("", "?namespace=rivals", "?q=pod-b", "?label=team=vision", "?kind=Job", "?sort=cost"),
    "/job": ("?uid=job-pod-b", "?uid=job-pod-d", "?uid=job-pod-c", "?uid="),
    "/report": (
        "?uid=job-pod-b", "?uid=job-pod-b&other=job-pod-c", "?uid=job-pod-c&other=job-pod-b", "?uid=pod-b",
        "?uid=job-pod-c&back=6h", "?uid=job-pod-c&other=job-pod-c", "?uid=job-pod-a&back=6h",
    ),
    "/changes": ("?of=fleet", "?of=rivals"),
    "/login": ("",), "/static/{name}": ("web.css",),
}  # fmt: skip
"""Of every address what is asked; a new one has to be among them."""


@pytest.mark.slow
async def test_no_answer_has_a_name_of_another_namespace(tmp_path: Path) -> None:
    start_ms = (time.time_ns() // 1_000_000 - 2 * HOUR_MS) // HOUR_MS * HOUR_MS
    records = list(shared_gpus(start_ms))
    url = f"sqlite:///{tmp_path}/records.db"
    write_all(derived(two_namespaces(start_ms)), url, load({}, {"price_gpu_hour": "2"}))
    state = live_state(records)
    assert {"rivals/name-of-pod-b", "secret-lab/name-of-pod-d"} <= {pod.title for pod in state.pods()}
    with EmbeddedBroker(all_topics()) as broker:
        # The topics have forgotten a pod that the records still have: its samples are found by these.
        kept = [record for record in records if (record[0], record[1]) != ("pods", "pod-a")]
        assert len(kept) == len(records) - 1
        await send(load({}, {"broker": broker.url}), kept)
        settings = load(
            {}, {"broker": broker.url, "records": url, "web": "127.0.0.1:0", "web_kubernetes": "on"}
        )
        page = WebPage(Source(state, "dutycycle", "a broker", list), settings)
        page.gate = OneNamespace()  # type: ignore[assignment]
        paths = {route.path for route in page.routes()}
        assert paths == QUESTIONS.keys(), "of a new address say here what is asked"
        answered: dict[str, str] = {}
        async with page.serving() as address, aiohttp.ClientSession(address) as client:
            for path, questions in QUESTIONS.items():
                for question in questions:
                    asked = path.replace("{name}", "").lstrip("/") + question
                    answered[asked] = await answer_of(client, asked)
    for asked, text in answered.items():
        own = text
        for part in (*asked.replace("?", "&").replace("=", "&").replace("/", "&").split("&"), asked):
            own = own.replace(part, "") if part in SECRET or part.startswith("job-pod-") else own
        assert [secret for secret in SECRET if secret in own] == [], asked
    assert HIDDEN in answered["fleet"]
    assert HIDDEN in answered["subject?key=gpu/gpu-a/GPU-1"]
    assert "train.py" in answered["subject?key=gpu/gpu-a/GPU-1"]
    assert "ml/job-of-pod-c" in answered["report?uid=job-pod-c&back=6h"]
    forgotten = answered["report?uid=job-pod-a&back=6h"]
    assert "ml/job-of-pod-a" in forgotten
    assert "the topics have them no more" not in forgotten
    assert "In other namespaces 2 GPUs are held and not used" in answered["idle"]
    by_namespace = dict(line.split(",")[:2] for line in answered["usage.csv"].splitlines()[2:])
    assert by_namespace["(another namespace)"] == "7200.0", by_namespace
    assert by_namespace["ml"] == "7200.0"


async def answer_of(client: aiohttp.ClientSession, asked: str) -> str:
    """The status in a line, headers, and the body; of a stream its first line."""
    async with client.get(asked, allow_redirects=False) as answer:
        head = f"{answer.status} {dict(answer.headers)}\n"
        if asked.startswith("changes"):
            return head + (await answer.content.readline()).decode()
        return head + (await answer.read()).decode(errors="replace")


@pytest.mark.slow
async def test_what_may_not_be_seen_is_answered_as_what_is_not_there(tmp_path: Path) -> None:
    start_ms = (time.time_ns() // 1_000_000 - 2 * HOUR_MS) // HOUR_MS * HOUR_MS
    url = f"sqlite:///{tmp_path}/records.db"
    write_all(derived(two_namespaces(start_ms)), url)
    state = live_state(list(shared_gpus(start_ms)))
    page = WebPage(Source(state, "t", "p", list), load({}, {"records": url, "web": "127.0.0.1:0"}))
    page.gate = OneNamespace()  # type: ignore[assignment]
    async with page.serving() as address, aiohttp.ClientSession(address) as client:
        for asked, name in (
            ("job?uid=%s", "job-pod-b"), ("report?uid=%s", "job-pod-b"), ("report?uid=%s", "pod-b"),
            ("report?uid=job-pod-c&other=%s", "job-pod-b"), ("subject?key=%s", "pod/pod-b"),
            ("subject?key=%s", "job/job-pod-b"), ("usage?namespace=%s", "rivals"), ("usage?by=%s", "pod-b"),
            ("history?namespace=%s", "rivals"),
        ):  # fmt: skip
            answers = [await answer_of(client, asked % given) for given in (name, UNKNOWN)]
            texts = [
                (answer[:3], answer.partition("\n")[2].replace(given, ""))
                for answer, given in zip(answers, (name, UNKNOWN), strict=True)
            ]
            assert texts[0] == texts[1], asked


@asynccontextmanager
async def served(tmp_path: Path, **given: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a page with no records."""
    settings = load({}, {"records": f"sqlite:///{tmp_path}/none.db", "web": "127.0.0.1:0", **given})
    async with (
        WebPage(Source(LiveState(), "t", "p", list), settings).serving() as url,
        aiohttp.ClientSession(url) as client,
    ):
        yield client


async def status(client: aiohttp.ClientSession, *headers: tuple[str, str], path: str = "about") -> int:
    async with client.get(path, headers=CIMultiDict(headers), allow_redirects=False) as answer:
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        return answer.status


async def test_who_is_named_by_a_proxy_is_answered_if_he_is_allowed(tmp_path: Path) -> None:
    user, groups = "X-Forwarded-User", "X-Forwarded-Groups"
    async with served(tmp_path, **PROXIED) as client:
        for headers, expected in (
            ([(user, "alice")], 200), ([(user, "bob")], 403), ([(user, "bob"), (groups, "x,ml-team")], 200),
            ([(user, "bob"), (groups, "x, ml-team ,y")], 200), ([(groups, "ml-team")], 403), ([], 401),
            # What a proxy never sends, and who asks through it may have smuggled in.
            ([(user, "alice,bob")], 403),
            ([(user, "bob, alice")], 403), ([(user, "Alice")], 403), ([(user, "")], 403),
            ([(user, "alice\u200b")], 403), ([(user, "alic\u0435")], 403), ([(user, "a" * 300)], 403),
            ([(user, "system:admin"), (groups, "ml-team")], 403), ([(user, "group:ml-team")], 403),
            ([("X-Auth-Request-User", "alice")], 401), ([("X-Remote-User", "alice")], 401),
        ):  # fmt: skip
            assert await status(client, *headers) == expected, headers
    async with served(tmp_path, web_proxies="10.0.0.0/8,::1", web_allow="*") as client:
        assert await status(client, (user, "alice")) == 403, "this address is no proxy's"
        assert await status(client, (user, "alice"), ("X-Forwarded-For", "10.0.0.1")) == 403
        assert await status(client) == 401
    names = {"web_user_header": "X-Auth-Request-Email", "web_groups_header": "X-Auth-Request-Groups"}
    async with served(tmp_path, web_proxies="127.0.0.1", web_allow="*", **names) as client:
        assert await status(client, ("X-Auth-Request-Email", "jürgen@example.org")) == 200
        assert await status(client, (user, "alice")) == 401


async def test_headers_that_are_no_headers_reach_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, **PROXIED) as client:
        assert client._base_url is not None
        port = client._base_url.port
        for hostile in (
            b"X-Forwarded-User: alice\r\nX-Forwarded-User: alice",
            b"X-Forwarded-User: bob\r\nx-forwarded-user: alice",
            b"X-Forwarded-User: bob\r\nX-Forwarded-Groups: x\r\nX-Forwarded-Groups: ml-team",
            b"X-Forwarded-User: bob\nX-Forwarded-User: alice", b"X-Forwarded-User: bob\r\n X-y: alice",
            b"X-Forwarded-User: \xff\xfe", b"X-Forwarded-User : alice", b"X-Forwarded-User: ali\x00ce",
            b"X-Forwarded-User: " + b"a" * 20_000, b"X_Forwarded_User: alice",
        ):  # fmt: skip
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /about HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + hostile + b"\r\n\r\n")
            line = await reader.readline()
            assert line.split()[1] in (b"400", b"401", b"403"), (hostile[:60], line)
            writer.close()


async def test_settings_that_let_everybody_in_are_refused(tmp_path: Path) -> None:
    for given, said in (
        ({"web_proxies": "10.0.0.0/8"}, "DUTYCYCLE_WEB_ALLOW"), ({"web_allow": "*"}, "DUTYCYCLE_WEB_PROXIES"),
        ({"web": "0.0.0.0:0"}, "DUTYCYCLE_WEB_KUBERNETES=on"),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=said):
            async with served(tmp_path, **given):
                pass


async def test_so_many_tokens_are_tried_at_once_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-many-letters")
    async with served(tmp_path, web_token=str(tmp_path / "token")) as client:
        wrong = [status(client, ("Authorization", f"Bearer {number}")) for number in range(60)]
        statuses = await asyncio.gather(*wrong)
        assert set(statuses) == {401, 429}
        assert await status(client, ("Authorization", "Bearer a-token-of-many-letters")) == 200
