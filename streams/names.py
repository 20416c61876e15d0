"""Lists the stages by name, for who needs no operator: importing those takes seconds, most of it compiled
loops."""

from collections.abc import Iterable
from itertools import pairwise

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS

SOURCES = {
    "nvml": "nvml-samples",
    "cgroup": "cgroup-samples",
    "cuda": "cuda-samples",
    "pods": "pods",
    "processes": "processes",
    "health": "gpu-events",
    "pod-peaks": "pod-parts",
    "job-peaks": "job-parts",
    "insights": "insight-parts",
    "job-insights": "job-insight-parts",
}
"""What each stage reads, sources first: what a stage sends is read by a later one or by nobody."""
STATELESS = frozenset({"pods", "processes"})
_WORKS_FOR = {
    "cuda": ("windows", "peaks", "cycles", "models"),
    "pods": ("peaks", "insights"),
    "processes": ("insights",),
    "pod-peaks": ("peaks",),
    "job-peaks": ("peaks",),
    "insights": ("insights",),
    "job-insights": ("insights",),
}
"""The analyses that a stage works for, and is left out without any of; all others are always there."""


def sources(settings: Settings) -> dict[str, str]:
    """Return what each stage reads that the chosen analyses need, in the order of ``SOURCES``."""
    on = {*settings.analyses, *(("models",) if settings.models else ())}
    return {
        stage: source
        for stage, source in SOURCES.items()
        if stage not in _WORKS_FOR or not on.isdisjoint(_WORKS_FOR[stage])
    }


def changelog_name(settings: Settings, stage: str) -> str:
    """Return the full name of the topic that holds a stage's state."""
    return f"{settings.topic_prefix}state-{stage}"


def changelogs(settings: Settings) -> dict[str, str]:
    """Return full names of all changelogs: name of the source that must have as many partitions."""
    return {
        changelog_name(settings, stage): source
        for stage, source in sources(settings).items()
        if stage not in STATELESS
    }


def split_topics(sources: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the topics whose partitions belong together, and those that a worker only writes. What the
    chosen analyses do not write is not created (``dutycycle.kafka.topics``)."""
    alike = list(dict.fromkeys((*sources, "node-parts")))
    return alike, [name for name, topic in TOPICS.items() if "streams" in topic.writer and name not in alike]


def check_settings(settings: Settings) -> None:
    """Raises ``SettingError`` where settings do not go together.

    What a later stage knows must not leave before what it is made of, and no source is retired while its
    longest window may still be open.
    """
    names = ("retire", "evict", "evict_pods", "evict_jobs")
    for shorter, longer in pairwise(names):
        least, value = getattr(settings, shorter), getattr(settings, longer)
        if value < least:
            raise SettingError(
                f"DUTYCYCLE_{longer.upper()}={value:.10g}s: expected at least DUTYCYCLE_{shorter.upper()}, "
                f"{least:.10g}s"
            )
    if settings.windows_metrics and "windows" not in settings.analyses:
        raise SettingError("DUTYCYCLE_WINDOWS_METRICS is set, but DUTYCYCLE_ANALYSES has no windows")
    open_for = settings.windows[-1] + settings.lateness
    if settings.retire < open_for:
        raise SettingError(
            f"DUTYCYCLE_RETIRE={settings.retire:g}s: expected at least the longest window and the allowed "
            f"lateness, {open_for:g}s"
        )
