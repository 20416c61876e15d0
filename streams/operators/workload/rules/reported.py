"""Keeps what the training in a pod reports of itself: the steps of its last minutes, and how many make a
cycle."""

from dataclasses import dataclass, field
from statistics import median

from msgspec.structs import replace

from dutycycle.contract.records.derived import OtherCycle
from dutycycle.contract.records.parts import PodSteps, WorkloadState
from streams.operators.workload.rules.stats import three_digits

_WINDOW_MS = 120_000
_COUNTED_MS = 600_000
"""Steps in a cycle are counted so far back, and no farther: a training may go on in another way."""
_FEWEST = 2
"""One step may be all that ever comes, and says nothing of a rate."""
_MOST = 256
"""Reports that are kept: those of the window at a tick of a second, and some that come early or late."""

REPORTED = "reported"
"""The source of a period that is the time of a reported step."""
_SURE = 0.99
"""How sure such a period is: who steps says so."""
_APART = 0.03
"""A period is known to this share, so many steps of one to this share of their count."""

_LONG = 3.0
"""A step that takes so many times the median is no usual one: it writes a checkpoint, or waits."""


@dataclass(slots=True)
class ReportedSteps:
    """Keeps reports of steps. ``reports``: time, steps, seconds, samples (None: not counted), in the order in
    which they came."""

    reports: list[tuple[int, int, float, int | None]] = field(default_factory=list)

    def add(self, ts_ms: int, steps: PodSteps) -> None:
        """Take a report; another one of its time is a repeat. A clock that is ahead hides no other report."""
        if any(report[0] == ts_ms for report in self.reports):
            return
        self.reports.append((ts_ms, steps.steps, float(steps.seconds), steps.samples))
        del self.reports[:-_MOST]

    def figures(self, until_ms: int) -> dict[str, float]:
        """Return steps a minute, seconds of a step and, where all are counted, samples a second, of the two
        minutes before ``until_ms``; empty where no training reports any.

        By the time of the reports, and a span behind: which of the topics was read first changes nothing.
        """
        recent = [report for report in self.reports if until_ms - _WINDOW_MS < report[0] <= until_ms]
        steps, seconds = sum(report[1] for report in recent), sum(report[2] for report in recent)
        if steps < _FEWEST or seconds <= 0:
            return {}
        figures = {"steps_per_min": 60 * steps / seconds, "step_s": seconds / steps}
        samples = [report[3] for report in recent if report[3] is not None]
        return figures | ({"samples_per_s": sum(samples) / seconds} if len(samples) == len(recent) else {})

    def in_cycle(self, period_s: float, until_ms: int) -> tuple[float, float, float] | None:
        """Return steps in a cycle of ``period_s``, counted over the whole cycles before ``until_ms`` that the
        reports cover; how far off that count may be; and how many steps of usual length would fill it. None
        before they cover one.

        A pause in the cycle counts, and steps may be uneven: the usual step says nothing of either. A
        checkpoint that comes once in many cycles is in the count of all, and in no usual step.
        """
        known = [report for report in self.reports if until_ms - _COUNTED_MS < report[0] <= until_ms]
        if not known:
            return None
        period_ms = 1000 * period_s
        cycles = int((until_ms - min(report[0] for report in known)) / period_ms)
        if cycles < 1:
            return None
        inside = [report for report in known if report[0] > until_ms - cycles * period_ms]
        count = sum(report[1] for report in inside) / cycles
        at_the_ends = max((report[1] for report in inside), default=0)
        lengths = [seconds / steps for _, steps, seconds, _ in known if steps]
        most = _LONG * median(lengths) if lengths else 0.0
        usual = [(steps, seconds) for _, steps, seconds, _ in known if steps and seconds <= most * steps]
        took_s = sum(seconds for _, seconds in usual)
        fill = period_s * sum(steps for steps, _ in usual) / took_s if took_s else count
        return count, max(_APART * count, (1 + at_the_ends) / cycles), fill


def with_steps(state: WorkloadState, reported: ReportedSteps, until_ms: int) -> WorkloadState:
    """Return the state of a pod with what its training reported until ``until_ms``; as it is where that is
    nothing.

    A cycle of a whole number of steps, by count or of usual or of the newest steps, says how many. One that
    is none contradicts who steps: then the time of a step is the period, from the source ``reported``, and
    what was found is a further cycle. A count that is not known to half a step contradicts nothing, and is
    not said before it is known to a tenth of itself.
    """
    figures = reported.figures(until_ms)
    if not figures:
        return state
    state = replace(
        state, steps_per_s=three_digits(figures["steps_per_min"] / 60),
        samples_per_s=three_digits(figures["samples_per_s"]) if "samples_per_s" in figures else None,
    )  # fmt: skip
    counted = None if state.period_s is None else reported.in_cycle(float(state.period_s), until_ms)
    if counted is None or state.period_s is None:
        return state
    count, off, usual = counted
    newest = float(state.period_s) / figures["step_s"]
    fits = [
        max(round(steps), 1) for steps in (count, usual, newest) if abs(steps - max(round(steps), 1)) <= off
    ]
    if off < 0.5 and not fits:
        cycle = OtherCycle(period_s=state.period_s, confidence=state.confidence or 0)
        return replace(
            state, period_s=three_digits(figures["step_s"]), period_source=REPORTED, confidence=_SURE,
            cycle_steps=1, other_cycles=(cycle, *(state.other_cycles or ())),
        )  # fmt: skip
    if off > max(0.5, 0.1 * count):
        return state
    return replace(state, cycle_steps=fits[0] if fits else round(count))
