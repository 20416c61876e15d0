"""Says what is said while a job runs: a line for each change, and how it goes on the last line of a
terminal."""

import time
from collections import Counter
from collections.abc import Collection
from statistics import median

from dutycycle.status_line import StatusLine
from dutycycle.submit.follow import JobFollower
from dutycycle.words import short_duration

_LINE_EVERY_S = 60.0


class JobStatusLine(StatusLine):
    """Writes to stderr: what the job itself writes is on stdout."""

    def __init__(self) -> None:
        super().__init__()
        self._line_due_s = time.monotonic() + _LINE_EVERY_S

    def status(self, text: str) -> None:
        """Show how it goes: on a terminal always, elsewhere once a minute."""
        self.show(text)
        if not self.is_terminal and time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + _LINE_EVERY_S
            self.line(text)


def status_of(
    follower: JobFollower,
    now_s: float,
    running_s: float | None,
    periods_s: Collection[float],
    past_s: float | None,
) -> str:
    """Return the line of how it goes. ``now_s``: since it was made; ``running_s``: since its first container
    ran; ``periods_s``: the cycles of its pods; ``past_s``: how long its last run took."""
    words = Counter(  # of each pod's state the beginning, such as running
        follower.state(pod).words.partition(":")[0].partition(" on ")[0] for pod in follower.pods.values()
    )
    parts = [", ".join(f"{count} {word}" for word, count in words.items()) or "no pod yet"]
    if periods_s:
        parts.append(f"{60 / median(periods_s):.1f} steps a minute")
    if past_s and running_s is not None:
        parts.append(f"{100 * running_s / past_s:.0f} % of its last run ({short_duration(past_s)})")
    return f"{short_duration(now_s)}: {'; '.join(parts)}"
