"""Objects that are not there: not asked for again with each record that names them."""

from collections.abc import Callable

from sinks.annotations.core.targets import Target

NODE_S = 60.0
"""A Node may be registered later under the same name."""
UID_S = 3600.0
"""A uid is never given twice. Records of it go on for a while, of a static pod as long as that runs."""


class GoneObjects:
    """Which they are, each for as long as it is not asked for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[Target, float] = {}

    def has(self, target: Target) -> bool:
        """Tell whether it was not there a while ago."""
        return self._clock() < self._until.get(target, float("-inf"))

    def add(self, target: Target) -> None:
        """The API server says that there is none."""
        now = self._clock()
        self._until = {target: until for target, until in self._until.items() if now < until}
        self._until[target] = now + (NODE_S if target.uid is None else UID_S)

    def clear(self) -> None:
        """Ask for all of them again."""
        self._until.clear()
