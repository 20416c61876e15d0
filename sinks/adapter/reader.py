"""Keeps the figures up to date. Each replica reads all, because each may be asked for any pod."""

import time
from collections.abc import Sequence

from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.consumer import Message, Start
from dutycycle.telemetry.events import Telemetry
from sinks.adapter.figures import Figures
from sinks.events import DERIVED
from sinks.follow import TopicFollower
from sinks.tasks import together

_WINDOWS = ("window-aggregates",)
_COMPACTED = tuple(name for name in DERIVED if name not in _WINDOWS)
_LOOK_BACK_MS = 180_000
"""So old are the windows that a start begins with: figures are there at once."""


class AdapterReader:
    """Reads until cancelled; a broker that is away is waited for."""

    def __init__(self, settings: Settings, current: Figures, telemetry: Telemetry) -> None:
        self._follower = TopicFollower(settings, telemetry, "dutycycle-adapter")
        self._figures = current
        self._behind = {_COMPACTED, _WINDOWS}

    def readiness_error(self) -> str | None:
        """What of the topics was not read yet that was there at the start; None if nothing."""
        return "reading " + ", ".join(map(", ".join, self._behind)) if self._behind else None

    async def run(self) -> None:
        """Identities and cycles from the beginning, windows from now on."""
        await together(self._follow(_COMPACTED), self._follow(_WINDOWS))

    async def _follow(self, topics: tuple[str, ...]) -> None:
        def begin() -> Start:
            return "beginning" if topics == _COMPACTED else round(time.time() * 1000) - _LOOK_BACK_MS

        await self._follower.follow(topics, begin, self._take, lambda: self._behind.discard(topics))

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            topic, key, record = self._follower.decoded(message)
            if record is not None or message.payload is None:
                self._figures.take(topic, key, record)
