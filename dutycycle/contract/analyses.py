"""Lists the analyses of the streams, from which a deployment chooses: what each needs, and the topics it
fills.

An analysis that computes with the figures of another *needs* it. A record that only carries figures of
another beside its own lacks them where that one is off: of a node's part (``node-parts``) the cycle, the
trend and the ledger's totals, of the peaks of pods and jobs the totals, of an insight the anomalies.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Describes an analysis. ``topics``: what nobody writes without it, without prefix. ``needs``: other
    analyses, and ``why``."""

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

NEEDED_BY: dict[str, tuple[str, str]] = {
    "adapter": ("windows", "an autoscaler is answered with windows"),
    "cull": ("insights", "an insight says what is idle"),
}
"""Services that can do nothing without an analysis: the analysis, and why."""
MISSED_BY: dict[str, dict[str, str]] = {
    "adapter": {
        "cycles": "a forecast does not follow the cycle of the load",
        "trends": "a forecast of what has no cycle is the figure of now",
    },
    "extender": {
        "peaks": "nothing is predicted of a pod: nodes are scored by what is free, not left out for memory",
        "cycles": "whether two pods work in step does not count",
        "insights": "what kind of workload a pod is does not count",
    },
    "webhook": {
        "peaks": "nothing is predicted of a pod: each is placed as one of which nothing is known",
        "usage": "what teams and namespaces used does not count",
    },
    "sink": {
        "windows": "Nodes say of their GPUs only what holds now",
        "peaks": "pods and jobs carry neither peaks nor what they do, and SQL has no peaks",
        "usage": "the ledger is empty, and pods do not say for how long they left GPUs untouched",
        "cycles": "Nodes do not say the cycles of their GPUs",
        "trends": "Nodes do not say the trends of their GPUs",
        "insights": "pods and jobs do not say what they do, in which cycle, and what holds them back",
        "anomalies": "pods and jobs do not say what is odd about them",
    },
    "metrics": {
        "windows": "there are no series of means, maxima and p95, and no counters",
        "usage": "there are no counters of what GPUs and pods used",
        "cycles": "there are no series of cycles",
        "trends": "there are no series of trends",
        "insights": "there are no series of what kind of workload a pod is, and what holds it back",
        "anomalies": "there are no series of anomalies",
    },
    "web": {
        "windows": "GPUs, pods and nodes have no means and maxima of windows",
        "peaks": "pods and jobs have no peaks",
        "usage": "nothing comes into the ledger: the page of the usage has what is there already",
        "cycles": "no cycle is shown",
        "trends": "no forecast is shown",
        "insights": "it is not said what pods and jobs do, and what holds them back",
        "anomalies": "it is not said what is odd about pods and jobs",
    },
}
"""Services that do less without an analysis, and what is missing then. ``sink``: annotations and SQL;
``metrics``: series for Prometheus, scraped or by remote write; ``web``: the page for browsers."""


def choose(names: Collection[str]) -> tuple[str, ...]:
    """Return the chosen analyses in the order of ``ANALYSES``.

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
    """Give those of ``topics``, without prefix, that somebody writes where only ``analyses`` are computed."""
    off = {topic for name, of in ANALYSES.items() if name not in analyses for topic in of.topics}
    return tuple(topic for topic in topics if topic not in off)
