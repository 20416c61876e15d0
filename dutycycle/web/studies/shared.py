"""Keeps the pages that were made last, so that what many look at is made once, and has reports made in a
process beside what answers."""

import asyncio
import gzip
import json
import os
import pickle
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from dutycycle.contract.settings.groups import Settings
from dutycycle.process import PARENT_VARIABLE
from dutycycle.web.questions import PageError
from dutycycle.web.studies.study import StudyQuestion

_KEPT = 16
"""Pages: a hundred kB each, packed."""
_LEVEL = 4
"""Of gzip: half of the time that 6 takes, for some 5 % more bytes."""
_MOST_WAITING = 4
_LIMIT_S = 150.0
_LEAST_AGE_S = 30.0
_PAUSE = 50
"""A page of a job that runs is made anew after so many times of what making it took: an open one costs a
fiftieth of a core at most."""


@dataclass(frozen=True, slots=True)
class MadePage:
    """Holds a page, packed by gzip, and when it was made (``time.monotonic``). ``took_s``: what making it
    took; ``fresh_s``: for how long it is as good as new."""

    packed: bytes
    at_s: float
    took_s: float
    fresh_s: float

    @property
    def is_fresh(self) -> bool:
        """Tell whether it may be shown as it is."""
        return time.monotonic() - self.at_s < self.fresh_s


class SharedPages:
    """Keeps the last ``kept`` pages. One is fresh for ``least_s``, or ``pause`` times of what making it took
    where that is longer: however many look at it, making it takes a share of ``1 / pause`` of a core at most.
    ``most_s``: no page is fresh for longer. ``at_once``: how many are made at a time.
    """

    def __init__(
        self, kept: int, least_s: float, pause: int, most_s: float = float("inf"), at_once: int = 8
    ) -> None:
        self._kept, self._least_s, self._pause, self._most_s = kept, least_s, pause, most_s
        self._turns = asyncio.Semaphore(at_once)
        self._made: OrderedDict[Hashable, MadePage] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[MadePage]] = {}

    @property
    def making(self) -> int:
        """Tell how many are being made now."""
        return len(self._making)

    def is_at_hand(self, key: Hashable) -> bool:
        """Tell whether the page of ``key`` is fresh, or being made."""
        made = self._made.get(key)
        return key in self._making or (made is not None and made.is_fresh)

    async def page(self, key: Hashable, make: Callable[[], Awaitable[str]]) -> MadePage:
        """Give the page of ``key``; where none is fresh it is made, once for all who ask. What ``make``
        raises, all of them get."""
        made = self._made.get(key)
        if made is not None and made.is_fresh:
            return made
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._make(key, make))
        # Whoever leaves does not take it from others who wait for it.
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[str]]) -> MadePage:
        try:
            async with self._turns:
                began_s = time.monotonic()
                text = await make()
                packed = await asyncio.to_thread(gzip.compress, text.encode(), _LEVEL)
                at_s = time.monotonic()
            took_s = at_s - began_s
            fresh_s = min(max(self._least_s, self._pause * took_s), self._most_s)
            made = self._made[key] = MadePage(packed, at_s, took_s, fresh_s)
            self._made.move_to_end(key)
            while len(self._made) > self._kept:
                self._made.popitem(last=False)
            return made
        finally:
            del self._making[key]


class Studies:
    """Answers with a page for a key, made once for all who ask; one is made at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pages = SharedPages(_KEPT, _LEAST_AGE_S, _PAUSE, at_once=1)

    async def page(self, key: Hashable, question: StudyQuestion) -> MadePage:
        """Give the page of ``key``, and make it where none is fresh. Raises ``PageError``."""
        if self._pages.making >= _MOST_WAITING and not self._pages.is_at_hand(key):
            raise PageError(f"{_MOST_WAITING} reports are being made: try again in a minute")
        return await self._pages.page(key, lambda: self._ask(question))

    async def _ask(self, question: StudyQuestion) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dutycycle.web.studies.study", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
        )  # fmt: skip
        try:
            async with asyncio.timeout(_LIMIT_S):
                out, _ = await process.communicate(pickle.dumps((self._settings, question)))
        except TimeoutError:
            raise PageError(f"it took longer than {_LIMIT_S:g} s: ask for a shorter time") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        answer = json.loads(out) if process.returncode == 0 else {}
        if "page" not in answer:
            raise PageError(answer.get("error") or f"the report ended with status {process.returncode}")
        return str(answer["page"])
