"""The live view of ``dutycycle up``: reads the topics as any consumer would, and draws what they say."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live as RichLive

from bus.kafka.consumer import Consumer, Message, Start
from bus.kafka.errors import BrokerError
from contract.codec import DecodeError, decode, to_plain
from contract.settings.groups import Settings
from contract.topics import TOPICS, full_name, short_name
from dutycycle.live.children import Child
from dutycycle.live.state import LiveState
from dutycycle.live.view import draw, plain_lines
from dutycycle.process import stopped_within

_FROM_BEGINNING = ("pods",)
"""A pod's name may have been published long ago."""
_FROM_END = (
    "nvml-samples",
    "cgroup-samples",
    "pod-peaks",
    "job-peaks",
    "cycles",
    "trends",
    "insights",
    "dead-letters",
)
_REFRESH_S = 0.5
_LINES_EVERY_S = 5.0
_IDLE_S = 3.0
_IDLE_WAIT_S = 15.0
_RETRY_S = 1.0


class LiveView:
    """Keeps a ``LiveState`` up to date and shows it: on a terminal as a table, elsewhere as lines."""

    def __init__(self, settings: Settings, children: Sequence[Child], header: str, logs: Path) -> None:
        self.state = LiveState()
        self._settings = settings
        self._children = children
        self._header = header
        self._logs = logs
        self._last_record_s = time.monotonic()
        self._reading = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Read and draw until ``stop``; a broker that is away is waited for."""
        reading = asyncio.gather(
            self._read(stop, _FROM_BEGINNING, "beginning"), self._read(stop, _FROM_END, "end")
        )
        with self._drawing() as refresh:
            while not stop.is_set():
                refresh()
                await stopped_within(stop, _REFRESH_S)
            refresh()
        await reading

    async def wait_until_idle(self) -> None:
        """Wait until no record has come for a moment: the pipeline has worked off what it was given."""
        begun = time.monotonic()
        self._last_record_s = begun
        while self._reading and time.monotonic() - begun < _IDLE_WAIT_S:
            if time.monotonic() - self._last_record_s > _IDLE_S:
                return
            await asyncio.sleep(_REFRESH_S)

    async def _read(self, stop: asyncio.Event, topics: Sequence[str], begin: Start) -> None:
        names = [full_name(self._settings.topic_prefix, name) for name in topics]
        while not stop.is_set():
            consumer = Consumer(self._settings, "dutycycle-live", names, begin)
            try:
                await consumer.start()
                await self._take(consumer, stop)
            except BrokerError:  # the children say it, with more detail
                await stopped_within(stop, _RETRY_S)
            finally:
                await consumer.stop()

    async def _take(self, consumer: Consumer, stop: asyncio.Event) -> None:
        self._reading += 1
        try:
            while not stop.is_set():
                for message in await consumer.take(_REFRESH_S):
                    self._feed(message)
        finally:
            self._reading -= 1

    def _feed(self, message: Message) -> None:
        topic = short_name(self._settings.topic_prefix, message.topic) or ""
        if topic != "dead-letters":
            self._last_record_s = time.monotonic()
        try:
            plain = None
            if message.payload is not None:  # checked: a wrong type must not reach the drawing
                plain = to_plain(decode(TOPICS[topic].record, message.payload, topic))
            self.state.feed(topic, message.key_text or "", plain)
        except DecodeError:  # the streams make a dead letter of it
            self.state.unreadable += 1

    def degraded(self) -> list[str]:
        """What a person should know is not well."""
        lines = [line for child in self._children for line in child.warnings]
        if self.state.dead_letters:
            lines.append(f"{self.state.dead_letters} records could not be used: see the topic dead-letters")
        return lines + ([f"more in {self._logs}"] if lines else [])

    @contextmanager
    def _drawing(self) -> Iterator[Callable[[], None]]:
        console = Console()
        if not console.is_terminal:
            yield _Lines(self)
            return
        with RichLive(console=console, screen=False, auto_refresh=False, vertical_overflow="crop") as screen:

            def refresh() -> None:
                view = draw(self.state, self._header, self.degraded(), console.height, console.width)
                screen.update(view, refresh=True)

            yield refresh

    @property
    def header(self) -> str:
        """The first line of the view."""
        return self._header


class _Lines:
    """Draws as lines: new warnings at once, figures every few seconds."""

    def __init__(self, live: LiveView) -> None:
        self._live = live
        self._printed: set[str] = set()
        self._due = 0.0
        _print(live.header)

    def __call__(self) -> None:
        for line in self._live.degraded():
            if line not in self._printed:
                self._printed.add(line)
                _print(f"! {line}")
        now = time.monotonic()
        if now >= self._due and self._live.state.ticks:
            self._due = now + _LINES_EVERY_S
            for line in plain_lines(self._live.state):
                _print(line)


def _print(line: str) -> None:
    print(line, file=sys.stdout, flush=True)  # noqa: T201
