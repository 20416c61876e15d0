"""Says what is said at the end of a run: one screenful."""

from collections.abc import Iterator, Sequence

from dutycycle.report.facts import anomalies_of, evidence_of, headline, key_figures
from dutycycle.report.page import Report
from dutycycle.run.command import Ended
from dutycycle.words import moment, short_duration

_WIDTH = 22
_EVIDENCE = 6
_LEAST_S = 1.0
"""Of a shorter run, what starting to measure took is no share of anything."""


def lines_of(name: str, ended: Ended, seconds: float, own_s: float) -> Iterator[str]:
    """Yield how the command ended, and what it cost to watch it. ``own_s``: CPU seconds of ours meanwhile."""
    lasted = f"{seconds:.2f} s" if seconds < 60 else short_duration(seconds)
    yield f"{name}: {ended_words(ended)} after {lasted}"
    yield _row("CPU time", f"{ended.cpu_s:.2f} s")
    share = f", {100 * own_s / seconds:.1f} % of one core" if seconds >= _LEAST_S else ""
    yield _row("Measuring took", f"{own_s:.2f} s of CPU time{share}")


def ended_words(ended: Ended) -> str:
    """Return its exit status, and the signal that ended it."""
    by = f" (ended by {ended.signal.name})" if ended.signal is not None else ""
    return f"status {ended.status}{by}"


def figures_of(report: Report) -> Iterator[str]:
    """Yield the figures of the report, and its verdict with the evidence."""
    for name, value in key_figures(report.facts, report.view):
        if name != "Duration":
            yield _row(name, value)
    for at_ms, incident in report.facts.incidents:
        yield _row("GPU fault", f"{moment(at_ms)} UTC: {incident}")
    for profile in report.profiles:
        yield _row("From inside", profile.headline())
        if profile.evidence:
            evidence = list(profile.figures())[1 : 1 + _EVIDENCE]
            yield _row("Evidence", ", ".join(f"{name} {value}" for name, value in evidence))
        if profile.advice:
            yield _row("Advice", profile.advice)
    line, advice = headline(report.facts)
    if not line:
        yield _row("Kind", "not known: that takes a minute of a GPU's work")
        return
    yield _row("Kind", line)
    evidence = evidence_of(report.facts.verdicts[0])[:_EVIDENCE]
    yield _row("Evidence", ", ".join(f"{name} {value}" for name, value in evidence))
    if advice:
        yield _row("Advice", advice)
    for _, odd in anomalies_of(report.facts.verdicts[0]):
        yield _row("Anomaly", odd)


def notes_of(errors: Sequence[str], conditions: Sequence[str]) -> Iterator[str]:
    """Yield what could not be measured, once."""
    for condition in (*conditions, *errors):
        yield _row("Not measured", condition)


def _row(name: str, value: str) -> str:
    return f"  {name:<{_WIDTH}} {value}"
