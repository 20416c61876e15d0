"""Chooses what a job carries of its pods: a key for each; of a large job a summary, and those that needed
most. Pure.

While the job runs, a pod that has a key keeps it, whatever others need later: the choice is made once more,
at the end, and then depends on the record alone.

An owner that does not end, such as a Deployment, carries its current revision or run: keys of pods that are
gone leave, the maxima are those of the current revision, and those of earlier ones stand beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from msgspec.structs import replace

from dutycycle.contract.records.derived import JobPeaks, Peaks, PodOfJob
from sinks.annotations.core import keys
from sinks.annotations.core.diff import Present, keep_what_fits, size_of, stays
from sinks.annotations.core.targets import is_name
from sinks.annotations.core.values import (
    MEGA,
    maxima,
    measured,
    number,
    p95,
    plain_figures,
    text,
)


@dataclass(frozen=True, slots=True)
class JobView:
    """Holds a job's record as texts by key: ``plain`` of the job, ``pods`` with those that needed most
    first."""

    prefix: str
    plain: Mapping[str, str]
    pods: Mapping[str, str]
    summary: str
    final: bool
    hidden: int = 0
    """Pods that not even the record has."""
    is_unending: bool = False
    """Whether its pods come and go while it stays."""

    @classmethod
    def of(cls, prefix: str, record: JobPeaks) -> "JobView":
        """Return the view of one record."""
        counts, is_unending = job_counts(record), record.current is not None
        hidden = record.pods_omitted or 0
        if record.current is not None:
            there = {name: pod for name, pod in record.pods.items() if not pod.former}
            record = replace(record, pods=there, metrics=record.current, pods_omitted=None)
            hidden = max(0, (record.pods_now or 0) - len(there)) if hidden else 0
        record = replace(record, pods=pods_by_name(record))
        values, ranks = job_values(record), job_ranks(record)
        names = sorted(values, key=lambda pod: (*(-rank for rank in ranks[pod]), pod))
        pods = {}
        for pod in names:
            name = keys.pod_key_name(pod)
            # The value says the pod's name where the key cannot.
            pods[f"{prefix}/{name}"] = text(values[pod] if name == pod else {"pod": pod} | values[pod])
        figures, summary = plain_figures(record.metrics) | counts, job_summary(record)
        if is_unending:
            figures |= {keys.PODS_SUMMARY: summary}
            figures |= measured({keys.EARLIER_REVISIONS: earlier_revisions(record) or None})
        plain = {f"{prefix}/{name}": text(value) for name, value in figures.items()}
        return cls(prefix, plain, pods, text(summary), record.final, hidden, is_unending)

    def wanted(self, present: Present, insight: Mapping[str, str]) -> dict[str, str]:
        """Return all that we want on the job, ``insight`` before its pods, within what fits beside
        what is kept there."""
        ordered = list(self.pods)  # the most important first
        if not self.final:
            # What is there comes first: left out, its older value would stay, and take room all the same.
            ordered.sort(key=lambda key: key not in present.ours)
        may_leave = self.final or self.is_unending
        most = keys.MOST_PODS if may_leave else keys.MOST_PODS - len(self._unrecorded(present))
        of_pods = {key: self.pods[key] for key in ordered[: max(0, most)]}
        chosen = {**insight, **self.plain, **of_pods}
        taken = present.others_bytes + size_of(self._stays(present, chosen))
        kept = keep_what_fits(chosen.items(), taken)
        if self.pods.keys() <= kept.keys() and not self.hidden:
            return kept
        summary = {self._key(keys.PODS_SUMMARY): self.summary}
        kept = keep_what_fits((summary | chosen).items(), taken)
        with_key = kept.keys() | self._stays(present, kept).keys()
        hidden = max(0, self.hidden - len(self._unrecorded(present) & with_key))
        return kept | {self._key(keys.PODS_OMITTED): text(hidden + len(self.pods.keys() - with_key))}

    def surplus(self, present: Present, wanted: Mapping[str, str]) -> frozenset[str]:
        """Return the keys of pods that others have to make room for: at the end alone, or as pods go."""
        if not self.final and not self.is_unending:
            return frozenset()
        mine = (self.pods.keys() & present.ours.keys()) | self._unrecorded(present)
        return frozenset(mine - wanted.keys())

    def _unrecorded(self, present: Present) -> frozenset[str]:
        """Return the keys of pods that the record had once: of a very large job it has those that need most
        by now."""
        if not self.hidden and not self.is_unending:
            return frozenset()
        return frozenset(
            key
            for key, value in present.ours.items()
            if key not in self.pods and "_" not in key and value.startswith("{")
        )

    def _stays(self, present: Present, wanted: Mapping[str, str]) -> dict[str, str]:
        """Return what is on the job after the write beside ``wanted``."""
        may_leave = self.final or self.is_unending
        gone = self.pods.keys() | self._unrecorded(present) if may_leave else frozenset[str]()
        return stays("job", self.prefix, present.ours, wanted.keys() | gone)

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}"


def job_values(record: JobPeaks) -> dict[str, dict[str, Any]]:
    """Return what a job says about each of its pods, by pod name."""
    values = {}
    for name, pod in sorted(record.pods.items()):
        value: dict[str, Any] = {}
        places = [(*scope.rpartition("/")[::2], peaks) for scope, peaks in pod.gpus.items()]
        for node, index, peaks in sorted(places, key=lambda place: (place[0], int(place[1]))):
            if "gpu_util_pct" in peaks:
                value[f"{node}-gpu-{index}_util"] = number(peaks["gpu_util_pct"].max)
            if "mem_used_bytes" in peaks:
                value[f"{node}-gpu-{index}_mem_mb"] = number(peaks["mem_used_bytes"].max / MEGA)
        # The GPUs of a large job are left out of the record; the pod's own figures are not.
        value |= maxima(pod.metrics, "pod" if pod.gpus else "job", prefix="")
        value |= measured({keys.CPU_UTIL_P95: p95(pod.metrics, "cpu_util_pct")})
        if value:
            values[name] = value
    return values


def job_summary(record: JobPeaks) -> dict[str, Any]:
    """Return what the pods of a job needed at most, whichever of them it was."""
    return {"pods": record.pod_count} | maxima(record.metrics, "job")


def job_counts(record: JobPeaks) -> dict[str, int]:
    """Tell how many pods and GPUs a job has now, and ever had, by name; of one without counts nothing.

    How many GPUs it ever had is absent where the record leaves some out.
    """
    if record.pods_now is None:
        return {}
    of_all = record.gpus_omitted is None and record.pods_omitted is None
    return measured(
        {
            keys.PODS_NOW: record.pods_now, keys.GPUS_NOW: record.gpus_now,
            keys.PODS_EVER: record.pod_count,
            keys.GPUS_EVER: len(record.known_gpus) if of_all else None,
        }
    )  # fmt: skip


def earlier_revisions(record: JobPeaks) -> dict[str, dict[str, Any]]:
    """Return the maxima of each revision or run before the current one, by its name."""
    return {name: maxima(peaks, "job") for name, peaks in (record.earlier or {}).items()}


def job_ranks(record: JobPeaks) -> dict[str, tuple[float, ...]]:
    """Return by pod name what says who needed more: GPU memory, GPU, memory, CPU. The larger, the more."""
    return {
        name: tuple(
            pod.metrics[metric].max if metric in pod.metrics else -1.0
            for metric in ("gpu_mem_used_bytes", "gpu_util_pct", "mem_used_bytes", "cpu_util_pct")
        )
        for name, pod in record.pods.items()
    }


def pods_by_name(record: JobPeaks) -> dict[str, PodOfJob]:
    """Return the pods of a job; what can be no pod's name is passed over."""
    incarnations: dict[str, list[PodOfJob]] = {}
    for listed, pod in record.pods.items():
        name = listed.partition("@")[0]
        if is_name(name):
            incarnations.setdefault(name, []).append(pod)
    pods = {}
    for name, several in incarnations.items():
        if len(several) == 1:
            pods[name] = several[0]
            continue
        # The maximum of all for each figure. GPUs are left out where one incarnation lacks its own.
        gpus: dict[str, Peaks] = {}
        if all(incarnation.gpus or "gpu_util_pct" not in incarnation.metrics for incarnation in several):
            for incarnation in several:
                gpus |= {
                    scope: _greatest(gpus.get(scope, {}), peaks) for scope, peaks in incarnation.gpus.items()
                }
        metrics = reduce(_greatest, (incarnation.metrics for incarnation in several))
        pods[name] = PodOfJob(node=several[-1].node, metrics=metrics, gpus=gpus)
    return pods


def _greatest(first: Peaks, other: Peaks) -> Peaks:
    """Return the larger peak of each metric."""
    return {
        metric: max((peaks[metric] for peaks in (first, other) if metric in peaks), key=lambda peak: peak.max)
        for metric in first.keys() | other.keys()
    }
