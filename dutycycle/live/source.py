"""What a live view is of."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dutycycle.live.model.state import LiveState


@dataclass(frozen=True, slots=True)
class Source:
    """What is shown. ``title`` and ``place``: whose it is, and where the records come from.

    ``degraded``: what does not work, and why; ``stop`` is set when somebody wants to leave.
    """

    state: LiveState
    title: str
    place: str
    degraded: Callable[[], Sequence[str]]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
