"""Goal: a compressed body, or what says that it is one, is refused in words and leaves no traceback."""

import asyncio
import gzip

import pytest
from aiohttp import web

from dutycycle.telemetry.http_runner import runner_of

FORM = b"token=abc"


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", FORM, 415),
        ("GZIP", gzip.compress(FORM, mtime=0), 415),  # a time would be in the test's name
        ("deflate", FORM, 415),
        ("br", FORM, 415),
        ("identity", FORM, 200),
    ],
)
@pytest.mark.parametrize("path", ["/read", "/passed-over"])
async def test_a_body_that_says_that_it_is_compressed(
    encoding: str, body: bytes, status: int, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def read(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def pass_over(_: web.Request) -> web.Response:
        return web.Response()

    runner = runner_of(1024, 1.0)
    runner.app.router.add_post("/read", read)
    runner.app.router.add_post("/passed-over", pass_over)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Encoding: {encoding}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    finally:
        await runner.cleanup()
    assert int(answer.split()[1]) == status
    assert (b"send the body as it is, without compression" in answer) == (status == 415)
    assert not caplog.records
