"""The page as a role of ``dutycycle serve``: of what lies on the topics, beside what other roles answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Telemetry
from sinks.serve.service import run
from tests.support.kafka import send
from tests.support.servers.ports import free_port
from tests.support.sinks.scheduling import gpu, nvml
from tests.support.sinks.serving import ANSWER_S, serving


@asynccontextmanager
async def client_of(settings: Settings, *roles: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the page that these roles serve."""
    async with serving(settings, *roles), aiohttp.ClientSession(f"http://{settings.serve_listen}") as client:
        yield client


async def page_with(client: aiohttp.ClientSession, path: str, words: str) -> str:
    """The page at ``path``, once it has ``words``."""
    end_s = asyncio.get_running_loop().time() + ANSWER_S
    while asyncio.get_running_loop().time() < end_s:
        async with client.get(path) as response:
            text = await response.text()
            if response.status == 200 and words in text:
                return text
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path}: {text}")


@pytest.mark.parametrize("roles", [("web",), ("metrics", "web")])
async def test_it_shows_what_comes_in(serve_settings: Settings, roles: tuple[str, ...]) -> None:
    async with client_of(serve_settings, *roles) as client:
        now_ms = round(time.time() * 1000)
        await send(serve_settings, [("nvml-samples", "node-a", nvml(gpu(), node="node-a", ts_ms=now_ms))])
        await page_with(client, "/gpus", "node-a")
        assert "dutycycle serve" in await page_with(client, "/fleet", "node-a")
        async with client.get("/fleet", headers={"Host": "rebound.example"}) as response:
            assert response.status == 403
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]


async def test_where_others_reach_it_a_token_is_needed(serve_settings: Settings) -> None:
    open_to_all = replace(serve_settings, serve_listen="0.0.0.0:0", serve_plain="on")
    with pytest.raises(SettingError, match=r"DUTYCYCLE_SERVE_LISTEN=0\.0\.0\.0:0.*DUTYCYCLE_WEB_TOKEN"):
        await run(("web",), open_to_all, Telemetry("web"), asyncio.Event())


async def test_plain_http_for_others_has_to_be_asked_for(serve_settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "token"
    asking = replace(serve_settings, serve_listen=f"0.0.0.0:{free_port()}", web_token=str(file))
    with pytest.raises(SettingError, match=r"DUTYCYCLE_SERVE_LISTEN=0\.0\.0\.0:\d+: .*give the certificate"):
        await run(("web",), asking, Telemetry("web"), asyncio.Event())
    plain = replace(asking, serve_plain="on")
    with pytest.raises(SettingError, match=r"DUTYCYCLE_SERVE_PLAIN=on: is for web alone: give extender"):
        await run(("web", "extender"), plain, Telemetry("serve"), asyncio.Event())
    async with client_of(plain, "web") as client:
        await page_with(client, "/fleet", "Sign in")
        signed_in = {"Authorization": f"Bearer {file.read_text().strip()}"}
        async with client.get("/fleet", headers=signed_in) as answer:
            assert (answer.status, answer.url.path) == (200, "/fleet")
