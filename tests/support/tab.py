"""A tab of a real browser without a window, by its DevTools protocol."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse

from tests.support.servers.missing import program
from tests.support.waiting import DEADLINE_S, until

_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0")


class Tab:
    """``said``: what scripts wrote to the console, and what the browser refused."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket, self._ids = socket, count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.said: list[str] = []

    async def listen(self) -> None:
        """Hear answers and events until cancelled."""
        async for message in self._socket:
            plain = message.json()
            if "id" in plain:
                self._waiting.pop(plain["id"]).set_result(plain)
            elif plain["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                self.said.append(str(plain["params"]))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask one thing of the browser."""
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        plain = await asyncio.wait_for(answer, DEADLINE_S)
        assert "error" not in plain, plain
        result: dict[str, Any] = plain["result"]
        return result

    async def open(self, url: str) -> None:
        """Go to a page."""
        await self.call("Page.navigate", url=url)
        await self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def value(self, script: str) -> Any:
        """What an expression is there."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def wait_for(self, script: str) -> None:
        """Wait until an expression is true."""
        await until(lambda: self.value(script), lambda: script)

    async def resize(self, width: int, height: int) -> None:
        """Be a window of this size."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=False,
        )  # fmt: skip

    async def look(self, width: int, scheme: str) -> None:
        """Be so wide, and ``light`` or ``dark``."""
        await self.resize(width, 900)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def press(self, key: str) -> None:
        """A key, down and up."""
        for kind in ("rawKeyDown", "char", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "char" else {}
            code = {"Enter": 13, "Tab": 9}[key]
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    async def printed_pages(self) -> int:
        """How many sheets it is when it is printed."""
        answer = await self.call("Page.printToPDF")
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(answer["data"])))

    async def picture(self) -> bytes:
        """What is seen, as a PNG."""
        answer = await self.call("Page.captureScreenshot")
        return base64.b64decode(answer["data"])


@asynccontextmanager
async def tab(profile: Path) -> AsyncIterator[Tab]:
    """Start the browser, and end it with the block."""
    process = await asyncio.create_subprocess_exec(
        program("chromium"), *_FLAGS, f"--user-data-dir={profile}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async with asyncio.timeout(DEADLINE_S):
            found = None
            while found is None:
                line = await process.stderr.readline()
                assert line, "the browser has ended"
                found = re.search(rb"DevTools listening on ws://([^/]+)/", line)
        reading = asyncio.create_task(_read_all(process.stderr))
        async with ClientSession() as client:
            async with client.get(f"http://{found[1].decode()}/json") as answer:
                target = next(one for one in await answer.json() if one["type"] == "page")
            async with client.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                opened = Tab(socket)
                listening = asyncio.create_task(opened.listen())
                for domain in ("Page", "Runtime", "Log"):
                    await opened.call(f"{domain}.enable")
                yield opened
                listening.cancel()
        reading.cancel()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _read_all(stream: asyncio.StreamReader) -> None:
    while await stream.read(65_536):
        pass
