"""Says what a live view is of."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from dutycycle.contract.settings.groups import Settings
from dutycycle.live.model.state import LiveState


@dataclass(frozen=True, slots=True)
class Source:
    """Holds what is shown. ``title`` and ``place``: whose it is, and where the records come from.

    ``degraded``: what does not work, and why; ``stop`` is set when somebody wants to leave.
    """

    state: LiveState
    title: str
    place: str
    degraded: Callable[[], Sequence[str]]
    stop: asyncio.Event = field(default_factory=asyncio.Event)


WithPage = Callable[[Source, Settings], AbstractAsyncContextManager[Source]]
"""Serves a page for browsers of a source while a block runs; the source, whose place names the page."""
