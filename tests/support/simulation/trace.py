"""What happened in a run, for people: only kept when somebody wants to read it."""

from collections.abc import Callable


class Trace:
    """Lines with their virtual time. ``keep`` False drops them."""

    def __init__(self, *, keep: bool) -> None:
        self.lines: list[str] = []
        self.now: Callable[[], float] = lambda: 0.0
        self._keep = keep

    def say(self, who: str, what: str) -> None:
        """Note one event."""
        if self._keep:
            self.lines.append(f"{self.now():9.3f}  {who:<8} {what}")
