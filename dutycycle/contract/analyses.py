"""The analyses of the streams, from which a deployment chooses: what each needs, and the topics it fills.

An analysis that computes with the figures of another *needs* it. A record that only carries figures of
another beside its own lacks them where that one is off: of a node's part (``node-parts``) the cycle, the
trend and the ledger's totals, of the peaks of pods and jobs the totals, of an insight the anomalies.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """``topics``: what nobody writes without it, without prefix. ``needs``: other analyses, and ``why``."""

    topics: tuple[str, ...]
    needs: tuple[str, ...] = ()
    why: str = ""


ANALYSES: dict[str, Analysis] = {
    "windows": Analysis(topics=("window-aggregates", "node-parts")),
    "peaks": Analysis(topics=("pod-parts", "job-parts", "pod-peaks", "job-peaks", "node-peaks")),
    "usage": Analysis(topics=("usage",)),
    "cycles": Analysis(topics=("cycles",)),
    "trends": Analysis(topics=("trends",), needs=("cycles",), why="a forecast follows the cycle"),
    "insights": Analysis(
        topics=("insight-parts", "job-insight-parts", "pod-insights", "job-insights", "insights"),
        needs=("cycles", "trends"),
        why="what a pod does is told by its cycle, and when its memory is full by its trend",
    ),
    "anomalies": Analysis(topics=(), needs=("insights",), why="it is told in the insight of a pod or job"),
}
"""In the order of the help; what an analysis needs comes before it."""


def choose(names: Collection[str]) -> tuple[str, ...]:
    """The chosen analyses in the order of ``ANALYSES``.

    Raises ``ValueError`` for no name, one that is unknown, and one without what it needs.
    """
    known = ", ".join(ANALYSES)
    if others := sorted(set(names) - set(ANALYSES)):
        raise ValueError(f"expected some of {known}, separated by commas; {others[0]!r} is none of them")
    if not names:
        raise ValueError(f"expected at least one of {known}")
    for name in filter(names.__contains__, ANALYSES):
        analysis = ANALYSES[name]
        if missing := [need for need in analysis.needs if need not in names]:
            raise ValueError(
                f"{name} needs {' and '.join(missing)}, because {analysis.why}: "
                f"add {','.join(missing)}, or leave out {name}"
            )
    return tuple(name for name in ANALYSES if name in names)


def written_topics(topics: Iterable[str], analyses: Collection[str]) -> tuple[str, ...]:
    """Those of ``topics``, without prefix, that somebody writes where only ``analyses`` are computed."""
    off = {topic for name, of in ANALYSES.items() if name not in analyses for topic in of.topics}
    return tuple(topic for topic in topics if topic not in off)
