"""What the training in a pod reports of itself: the steps of its last two minutes."""

from dataclasses import dataclass, field

from dutycycle.contract.records.parts import PodSteps

_WINDOW_MS = 120_000
_FEWEST = 2
"""One step may be all that ever comes, and says nothing of a rate."""
_MOST = 256
"""Reports that are kept: those of the window at a tick of a second, and some that come early or late."""


@dataclass(slots=True)
class ReportedSteps:
    """``reports``: time, steps, seconds, samples (None: not counted), in the order in which they came."""

    reports: list[tuple[int, int, float, int | None]] = field(default_factory=list)

    def add(self, ts_ms: int, steps: PodSteps) -> None:
        """Take a report; another one of its time is a repeat. A clock that is ahead hides no other report."""
        if any(one[0] == ts_ms for one in self.reports):
            return
        self.reports.append((ts_ms, steps.steps, float(steps.seconds), steps.samples))
        del self.reports[:-_MOST]

    def figures(self, until_ms: int) -> dict[str, float]:
        """Steps a minute, seconds of a step and, where all are counted, samples a second, of the two minutes
        before ``until_ms``; empty where no training reports any.

        By the time of the reports, and a span behind: which of the topics was read first changes nothing.
        """
        recent = [one for one in self.reports if until_ms - _WINDOW_MS < one[0] <= until_ms]
        steps, seconds = sum(one[1] for one in recent), sum(one[2] for one in recent)
        if steps < _FEWEST or seconds <= 0:
            return {}
        found = {"steps_per_min": 60 * steps / seconds, "step_s": seconds / steps}
        samples = [one[3] for one in recent if one[3] is not None]
        return found | ({"samples_per_s": sum(samples) / seconds} if len(samples) == len(recent) else {})
