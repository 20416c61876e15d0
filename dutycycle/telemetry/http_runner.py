"""Runs an application of aiohttp as all of our servers do, and refuses bodies that are compressed."""

from collections.abc import Awaitable, Callable

from aiohttp import web


def runner_of(largest: int, close_s: float) -> web.AppRunner:
    """Return the runner of an empty application. ``largest``: bytes of a body; ``close_s``: how long the last
    answers may take."""
    app = web.Application(client_max_size=largest, middlewares=[_refuse_compressed])
    # A body that is not in the encoding that it names would be an error of the connection, with a traceback,
    # and not of the request.
    return web.AppRunner(app, shutdown_timeout=close_s, access_log=None, auto_decompress=False)


@web.middleware
async def _refuse_compressed(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() in ("identity", ""):
        return await handler(request)
    return web.Response(
        status=415, headers={"Accept-Encoding": "identity"},
        text=f"Content-Encoding {encoding[:40]!r}: send the body as it is, without compression\n",
    )  # fmt: skip
