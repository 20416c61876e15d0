"""What somebody may send who means no good, or by mistake: it is refused in words, and the page goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from aiohttp import ClientSession
from yarl import URL

from tests.support.servers.postgres import Postgres
from tests.support.sinks.recording import insert_jobs
from tests.support.web_worlds import shown, usual

ODD = (
    "%00", "%ff%fe", "%ED%A0%80", "%F0%9F%92%A9", "1e999", "-1", "nan", "9" * 400, "a" * 1900, "%25%30%30",
    "*", "../../etc/passwd", "';DROP%20TABLE%20jobs;--", "%22%3E%3Cscript%3E", "{{7*7}}",
    "%0d%0aSet-Cookie:x=1",
)  # fmt: skip
NAMES = {
    "fleet": ("color", "model", "node", "namespace", "state"), "gpus": ("sort", "q", "reverse"),
    "subject": ("key", "since"),
    "history": ("q", "since", "sort", "state", "namespace", "kind", "label", "compare"),
    "job": ("uid",), "report": ("uid", "other", "back"), "usage": ("by", "since", "namespace"),
    "usage.csv": ("by", "since", "namespace"), "login": ("token",), "about": ("x",),
    "idle": ("x",),
}  # fmt: skip
HEADS = tuple((head.replace("GET:", "GET /fleet HTTP/1.1\r\nHost: "), b"") for head in (
    "GET:[", "GET:a:b:c", "GET:\x00", "GET http://[/fleet HTTP/1.1\r\nHost: a",
    "GET:a\r\nCookie: " + "a=b; " * 1500, "GET:a\r\nCookie: dutycycle-session=\xff\x80",
    "GET:a\r\nAuthorization: Bearer \xff\xfe", "GET:a\r\nX: " + "x" * 100_000,
    "POST /fleet HTTP/1.1\r\nHost: a", "BREW /fleet HTTP/1.1\r\nHost: a",
))  # fmt: skip
SIGN_IN = "POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: "
FORMS = (
    ("multipart/form-data", b"token=x"), ("multipart/form-data; boundary=x", b"--y\r\n\r\n"), ("", b""),
    ("application/x-www-form-urlencoded; charset=no", b"token=x"),
    ("application/x-www-form-urlencoded", b"token=%ff"), ("application/x-www-form-urlencoded", b"\xff\xfe"),
    ("application/x-www-form-urlencoded", b"token=" + b"x" * 40_000),
    ("application/x-www-form-urlencoded\r\nContent-Encoding: gzip", b"token=x"),
)  # fmt: skip
REFUSED_HERE = {b"303", b"400", b"401", b"403", b"404", b"405", b"413", b"415", b"431"}
REFUSED = {200, 303, 400, 404, 414, 503}


@asynccontextmanager
async def page_of_eight(tmp_path: Path, **settings: str) -> AsyncIterator[str]:
    async with shown(usual(f"sqlite:///{tmp_path}/none.db", ticks=3), **settings) as url:
        yield url


async def raw(url: str, request: bytes) -> bytes:
    """The first bytes of the answer to what no client would send; b"" where the connection is ended."""
    address = URL(url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(30):
            return await reader.read(65_536)
    finally:
        writer.close()


async def test_odd_questions_are_answered_in_words(tmp_path: Path, records_url: str) -> None:
    world = usual(records_url, ticks=3)
    async with shown(world) as url, ClientSession(url) as client:
        for path, names in NAMES.items():
            for name in names:
                for odd in ODD:
                    asked = URL(f"{url}{path}?{name}={odd}", encoded=True)
                    async with client.get(asked, allow_redirects=False) as answer:
                        body = await answer.text()
                        assert answer.status in REFUSED, (path, name, odd, body[-300:])
                        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                        assert "Set-Cookie" not in answer.headers
                        assert "Traceback" not in body
            async with client.get(URL(f"{url}{path}?{'x=1&' * 300}", encoded=True)) as answer:
                assert answer.status in REFUSED


async def test_files_of_others_are_not_given(tmp_path: Path) -> None:
    async with page_of_eight(tmp_path) as url:
        for path in (
            "static/../server.py", "static/..%2fserver.py", "static/%2e%2e%2fserver.py",
            "static/..%5cserver.py", "static//etc/passwd", "static/%2fetc%2fpasswd", "static/web.css%00.js",
            "static/",
            "static/.", "../static/web.css", f"static/{quote('ä' * 300)}.css", "static/page.css",
            "templates/base.html",
        ):  # fmt: skip
            host = f"Host: {URL(url).authority}\r\nConnection: close\r\n\r\n"
            answer = await raw(url, f"GET /{path} HTTP/1.1\r\n{host}".encode())
            assert answer.split(b" ")[1] in (b"400", b"404"), (path, answer[:300])
            assert b"import" not in answer, path


async def test_what_no_client_sends_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-many-letters")
    async with page_of_eight(tmp_path, web_token=str(tmp_path / "token")) as url:
        for head, body in (*HEADS, *((f"{SIGN_IN}{kind}", body) for kind, body in FORMS)):
            request = f"{head}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode("latin-1")
            answer = await raw(url, request + body)
            assert answer.split(b" ")[1] in REFUSED_HERE, (head[:120], answer[:400])
        async with ClientSession(url) as client:
            signed_in = {"Authorization": "Bearer a-token-of-many-letters"}
            async with client.get("fleet", headers=signed_in) as response:
                assert response.status == 200


async def test_so_many_pages_are_open_and_no_more_and_none_keeps_others_out(tmp_path: Path) -> None:
    async with page_of_eight(tmp_path, web_open="20") as url, ClientSession(url) as client:
        opened = [await client.get("changes?of=fleet") for _ in range(20)]
        assert {answer.status for answer in opened} == {200}
        async with client.get("changes?of=fleet") as answer:
            assert await answer.text() == "retry: 30000\nevent: full\ndata: 20\n\n", "and it ends"
        async with client.get("fleet") as answer:
            assert answer.status == 200
        for stream in opened:
            stream.close()
        async with asyncio.timeout(60):
            while True:
                async with client.get("changes?of=fleet") as answer:
                    if (await answer.content.readline()).startswith(b"data:"):
                        break
                await asyncio.sleep(0.1)


async def test_who_reads_slowly_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    async with page_of_eight(tmp_path) as url, ClientSession(url) as client:
        address = URL(url)
        slow = []
        for path in ("static/plotly.js", "fleet", "changes?of=fleet") * 30:
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(f"GET /{path} HTTP/1.1\r\nHost: {address.authority}\r\n\r\n".encode())
            slow.append(writer)
        for _ in range(30):  # and those who never end what they ask
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET /fleet HTTP/1.1\r\nHost: ")
            slow.append(writer)
        async with asyncio.timeout(60):
            for path in ("fleet", "static/web.js", "jobs", "gpus"):
                async with client.get(path) as answer:
                    assert (answer.status, bool(await answer.read())) == (200, True)
        for writer in slow:
            writer.close()


async def test_a_database_that_comes_back_is_read_again(tmp_path: Path, postgres: Postgres) -> None:
    url_of = postgres.new_database()
    world = usual(url_of, ticks=3)
    insert_jobs(url_of, [("u1", "train-1", world.state.now_ms - 7_200_000)])
    async with shown(world) as url, ClientSession(url) as client:
        async with client.get("job?uid=u1") as answer:
            assert answer.status == 200
        postgres.stop()
        async with client.get("history?since=1d") as answer:
            assert (answer.status, "cannot read" in await answer.text()) == (503, True)
        async with client.get("fleet") as answer:
            assert answer.status == 200
        postgres.start()
        async with client.get("history?since=1d") as answer:
            assert (answer.status, "train-1" in await answer.text()) == (200, True)
