"""Keeps the pages that were made last, so that what many look at is made once."""

import asyncio
import gzip
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass


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
    ``most_s``: no page is fresh for longer.
    """

    def __init__(self, kept: int, least_s: float, pause: int, most_s: float = float("inf")) -> None:
        self._kept, self._least_s, self._pause, self._most_s = kept, least_s, pause, most_s
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
        began_s = time.monotonic()
        try:
            text = await make()
            packed = await asyncio.to_thread(gzip.compress, text.encode(), 4)
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
