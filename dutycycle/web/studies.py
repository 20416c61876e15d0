"""Keeps the reports and comparisons that were made last, and has new ones made beside what answers."""

import asyncio
import json
import os
import pickle
import sys
from collections.abc import Hashable

from dutycycle.contract.settings.groups import Settings
from dutycycle.process import PARENT_VARIABLE
from dutycycle.web.questions import PageError
from dutycycle.web.shared import MadePage, SharedPages
from dutycycle.web.study import StudyQuestion

_KEPT = 16
"""Pages: a hundred kB each, packed."""
_MOST_WAITING = 4
_LIMIT_S = 150.0
_LEAST_AGE_S = 30.0
_PAUSE = 50
"""A page of a job that runs is made anew after so many times of what making it took: an open one costs a
fiftieth of a core at most."""


class Studies:
    """Answers with a page for a key, made once for all who ask; one is made at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pages = SharedPages(_KEPT, _LEAST_AGE_S, _PAUSE)
        self._turn = asyncio.Semaphore(1)

    async def page(self, key: Hashable, question: StudyQuestion) -> MadePage:
        """Give the page of ``key``, and make it where none is fresh. Raises ``PageError``."""
        if self._pages.making >= _MOST_WAITING and not self._pages.is_at_hand(key):
            raise PageError(f"{_MOST_WAITING} reports are being made: try again in a minute")
        return await self._pages.page(key, lambda: self._take_turn(question))

    async def _take_turn(self, question: StudyQuestion) -> str:
        async with self._turn:
            return await self._ask(question)

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
