"""Keeps the reports and comparisons that were made last, and has new ones made beside what answers."""

import asyncio
import json
import os
import pickle
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass

from dutycycle.contract.settings.groups import Settings
from dutycycle.process import PARENT_VARIABLE
from dutycycle.web.questions import PageError
from dutycycle.web.study import StudyQuestion

_KEPT = 16
"""Pages: a few hundred kB each."""
_MOST_WAITING = 4
_LIMIT_S = 150.0
_LEAST_AGE_S = 30.0
_PAUSE = 50
"""A page of a job that runs is made anew after so many times of what making it took: an open one costs a
fiftieth of a core at most."""


@dataclass(frozen=True, slots=True)
class MadePage:
    """Holds a page, when it was made (``time.monotonic``), and for how long it is as good as new."""

    text: str
    at_s: float
    fresh_s: float

    @property
    def age_s(self) -> float:
        """Tell how old it is."""
        return time.monotonic() - self.at_s


class Studies:
    """Answers with a page for a key, made once for all who ask; one is made at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: OrderedDict[object, MadePage] = OrderedDict()
        self._making: dict[object, asyncio.Task[MadePage]] = {}
        self._turn = asyncio.Semaphore(1)

    async def page(self, key: object, question: StudyQuestion) -> MadePage:
        """Give the page of ``key``, and make it where none is fresh. Raises ``PageError``."""
        made = self._made.get(key)
        if made is not None and made.age_s < made.fresh_s:
            return made
        task = self._making.get(key)
        if task is None:
            if len(self._making) >= _MOST_WAITING:
                raise PageError(f"{_MOST_WAITING} reports are being made: try again in a minute")
            task = self._making[key] = asyncio.create_task(self._make(key, question))
        # Whoever leaves does not take it from others who wait for it.
        return await asyncio.shield(task)

    async def _make(self, key: object, question: StudyQuestion) -> MadePage:
        try:
            async with self._turn:
                began_s = time.monotonic()
                text = await self._ask(question)
                took_s = time.monotonic() - began_s
            made = MadePage(text, time.monotonic(), max(_LEAST_AGE_S, _PAUSE * took_s))
            self._made[key] = made
            self._made.move_to_end(key)
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
            return made
        finally:
            del self._making[key]

    async def _ask(self, question: StudyQuestion) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dutycycle.web.study", stdin=asyncio.subprocess.PIPE,
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
