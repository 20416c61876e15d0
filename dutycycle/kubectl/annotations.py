"""Reads what our annotations on a node, a pod and a job say. Pure. What is absent there is None here, never
0.

A value that somebody else has spoilt is as if it were not there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from dutycycle.contract.ownership.words import MEASURED
from sinks.annotations.core import keys

Json = dict[str, Any]
MaybeNumber = int | float | None
INSIGHTS = ("kind", "bottleneck", "advice")
"""What the pod or job is, what holds it up, what to do: on the object once somebody has found it out."""
_GPU_OF_POD = re.compile(r"gpu_(\d+)(?:_(\d+))?")
_GPU_OF_JOB = re.compile(r"(.+)-gpu-(\d+)_(util|mem_mb)")
_FIELDS = ("cpu_pct", "cpu_p95_pct", "mem_mb", "net_mbps", "disk")
_OF_POD = ("max_cpu_util", keys.CPU_UTIL_P95, "max_cpu_mem_mb", "max_network_mbps", "max_disk_io")
_OF_POD_OF_JOB = ("cpu_util", keys.CPU_UTIL_P95, "cpu_mem_mb", "network_mbps", "disk_io")
_PLAIN = frozenset({"gpu_util", "gpu_mem_mb", *_OF_POD_OF_JOB})
"""Of a pod in a job's annotation; the first two where its GPUs are not listed one by one."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([GM])B")
_MEGA = {"G": 1000.0, "M": 1.0}


@dataclass(frozen=True, slots=True)
class MaxUsage:
    """Holds the maxima so far. Percent of one GPU or core; MB are 10⁶ bytes; Mbit/s; ``disk`` MB/s.

    ``cpu_p95_pct``: for 95 % of the time it needed no more; of a job that of its pod with the most.
    """

    gpus: int = 0
    gpu_pct: MaybeNumber = None
    gpu_mem_bus_pct: MaybeNumber = None
    gpu_mem_mb: MaybeNumber = None
    cpu_pct: MaybeNumber = None
    cpu_p95_pct: MaybeNumber = None
    mem_mb: MaybeNumber = None
    net_mbps: MaybeNumber = None
    disk: MaybeNumber = None


@dataclass(frozen=True, slots=True)
class PodOfJobUsage:
    """Holds what a job says of one of its pods. ``gpus`` by (node, index): (utilization in %, memory in
    MB)."""

    pod: str
    usage: MaxUsage
    gpus: Mapping[tuple[str, int], tuple[MaybeNumber, MaybeNumber]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuNow:
    """Reads one GPU of a node; maxima are of the last hour."""

    index: int
    value: Json

    def number(self, name: str) -> MaybeNumber:
        """Return a field that is a number."""
        value = self.value.get(name)
        return value if type(value) in (int, float) else None

    def megabytes(self, name: str) -> MaybeNumber:
        """Return a field such as ``11GB``."""
        match = _SIZE.fullmatch(str(self.value.get(name)))
        return float(match[1]) * _MEGA[match[2]] if match else None

    @property
    def period(self) -> str | None:
        """Return ``13.2s``; ``no`` for no cycle; None while it is not known."""
        if self.value.get("cyclic") is True and self.number("period_s") is not None:
            return f"{self.number('period_s'):g}s"
        return "no" if self.value.get("cyclic") is False else None


def ours(annotations: Mapping[str, str] | None, prefix: str) -> Json:
    """Return our annotations by name without prefix, parsed; a value that is no JSON stays a text."""
    decoded: Json = {}
    for key, text in (annotations or {}).items():
        if key.startswith(f"{prefix}/"):
            try:
                decoded[key.removeprefix(f"{prefix}/")] = orjson.loads(text)
            except orjson.JSONDecodeError:  # a text, or somebody else's hand
                decoded[key.removeprefix(f"{prefix}/")] = text
    return decoded


def insights(annotations: Json) -> dict[str, str]:
    """Return what is known of ``INSIGHTS``, as text."""
    return {
        name: _text(annotations[name]) for name in INSIGHTS if isinstance(annotations.get(name), str | list)
    }


def anomaly(annotations: Json) -> str | None:
    """Return what is odd about it now, as text; None if nothing is."""
    return _text(annotations[keys.ANOMALY]) if isinstance(annotations.get(keys.ANOMALY), str) else None


def profiled(annotations: Json) -> dict[str, str]:
    """Return what a profile says from inside: ``bottleneck`` and ``advice``."""
    named = {"bottleneck": keys.PROFILE_BOTTLENECK, "advice": keys.PROFILE_ADVICE}
    return {
        name: _text(annotations[key]) for name, key in named.items() if isinstance(annotations.get(key), str)
    }


def priority(annotations: Json) -> str | None:
    """Tell why a pod has its place in the queue; None if the webhook gave it none."""
    value = annotations.get(keys.PRIORITY)
    return _text(value["why"]) if isinstance(value, dict) and isinstance(value.get("why"), str) else None


def of_pod(annotations: Json) -> MaxUsage:
    """Return a pod's maxima."""
    gpus, buses = by_process(annotations, keys.GPU_UTIL), by_process(annotations, keys.GPU_MEM_UTIL)
    return MaxUsage(
        gpus=len({index for index, _ in gpus} | attribution(annotations).keys()),
        gpu_pct=highest_of(gpus.values()),
        gpu_mem_bus_pct=highest_of(buses.values()),
        **_amounts(annotations, _OF_POD),
    )


def by_process(annotations: Json, name: str) -> dict[tuple[int, int | None], MaybeNumber]:
    """Return a pod's figure by (GPU index, process id); no id where the GPU alone is known."""
    matches = ((_GPU_OF_POD.fullmatch(key), value) for key, value in _table(annotations, name).items())
    return {(int(m[1]), int(m[2]) if m[2] else None): _number(value) for m, value in matches if m}


def is_untouched(annotations: Json) -> bool:
    """Tell whether a pod holds GPUs, and none of its processes was ever seen on one, nor any work there."""
    seen = any(pid is not None for _, pid in by_process(annotations, keys.GPU_UTIL))
    works = of_pod(annotations).gpu_pct or MEASURED in attribution(annotations).values()
    return bool(_number(annotations.get(keys.GPU_UNTOUCHED))) and not seen and not works


def attribution(annotations: Json) -> dict[int, str]:
    """Return where a pod's figures of each GPU come from: ``measured``, ``allocated`` or ``unknown``, by
    index."""
    matches = (
        (_GPU_OF_POD.fullmatch(key), word) for key, word in _table(annotations, keys.GPU_ATTRIBUTION).items()
    )
    words = {int(match[1]): word for match, word in matches if match and isinstance(word, str)}
    return dict(sorted(words.items()))


def of_node(annotations: Json) -> tuple[Json, list[GpuNow]]:
    """Return what a node's GPUs are, and each of them by index."""
    static = annotations.get(keys.GPU_STATIC)
    gpus = [
        GpuNow(int(name.removeprefix("gpu-")), value)
        for name, value in annotations.items()
        if re.fullmatch(r"gpu-\d+", name) and isinstance(value, dict)
    ]
    return static if isinstance(static, dict) else {}, sorted(gpus, key=lambda gpu: gpu.index)


def of_job(annotations: Json) -> list[PodOfJobUsage]:
    """Return what a job says of each of its pods, by pod name."""
    workers = []
    for name, value in annotations.items():
        # A pod's entry has at least one figure that only such entries have.
        if not isinstance(value, dict) or not any(
            key in _PLAIN or _GPU_OF_JOB.fullmatch(key) for key in value
        ):
            continue
        parts: dict[tuple[str, int], dict[str, MaybeNumber]] = {}
        for key, part in value.items():
            if match := _GPU_OF_JOB.fullmatch(key):
                parts.setdefault((match[1], int(match[2])), {})[match[3]] = _number(part)
        gpus = {where: (part.get("util"), part.get("mem_mb")) for where, part in sorted(parts.items())}
        usage = MaxUsage(
            gpus=len(gpus),
            gpu_pct=highest_of([_number(value.get("gpu_util")), *(util for util, _ in gpus.values())]),
            gpu_mem_mb=highest_of([_number(value.get("gpu_mem_mb")), *(mem for _, mem in gpus.values())]),
            **_amounts(value, _OF_POD_OF_JOB),
        )
        workers.append(PodOfJobUsage(str(value.get("pod", name)), usage, gpus))
    # ``worker-2`` comes before ``worker-10``.
    return sorted(
        workers,
        key=lambda worker: [
            (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", worker.pod)
        ],
    )


def of_whole_job(annotations: Json) -> MaxUsage:
    """Return the most of all pods of a job, those without a key of their own too."""
    usage = most_of_each(worker.usage for worker in of_job(annotations))
    summary = _table(annotations, keys.PODS_SUMMARY)
    if not summary:
        return usage
    # The summary has no percentiles: what is known is of some pods only.
    return most_of_each([replace(usage, cpu_p95_pct=None), _of_summary(summary)])


def _of_summary(summary: Json) -> MaxUsage:
    return MaxUsage(
        gpus=0,
        gpu_pct=_number(summary.get("max_gpu_util")),
        gpu_mem_mb=_number(summary.get("max_gpu_mem_mb")),
        **_amounts(summary, _OF_POD),
    )


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Says how many pods a job has, and how many GPUs these have used: ``now`` those that have not ended,
    ``ever`` all of its life. None where that is not known."""

    pods_now: int | None
    pods_ever: int | None
    gpus_now: int | None
    gpus_ever: int | None


def counts_of_job(annotations: Json) -> JobCounts:
    """Return what a job says of its pods and GPUs; what it does not, by its keys of pods, which are of all of
    its life then."""
    figures = {name: _number(annotations.get(name)) for name in JobCounts.__slots__}
    known = {name: None if value is None else int(value) for name, value in figures.items()}
    workers = of_job(annotations)
    if known["pods_ever"] is None:
        known["pods_ever"] = len(workers) + omitted(annotations)
    if known["gpus_ever"] is None:
        known["gpus_ever"] = len({gpu for worker in workers for gpu in worker.gpus}) or None
    return JobCounts(**known)


def earlier_revisions(annotations: Json) -> dict[str, MaxUsage]:
    """Return the maxima of the revisions or runs before the current one, by name."""
    return {
        name: _of_summary(value)
        for name, value in _table(annotations, keys.EARLIER_REVISIONS).items()
        if isinstance(value, dict)
    }


def omitted(annotations: Json) -> int:
    """Tell how many of a job's pods have no key of their own."""
    count = _number(annotations.get(keys.PODS_OMITTED))
    return int(count or 0)


def most_of_each(usages: Iterable[MaxUsage]) -> MaxUsage:
    """Return the most of each figure; ``gpus`` are added up."""
    every = list(usages)
    names = [name for name in MaxUsage.__slots__ if name != "gpus"]
    most = {name: highest_of(getattr(usage, name) for usage in every) for name in names}
    return MaxUsage(gpus=sum(usage.gpus for usage in every), **most)


def _table(annotations: Json, name: str) -> Json:
    value = annotations.get(name)
    return value if isinstance(value, dict) else {}


def highest_of(values: Iterable[Any]) -> MaybeNumber:
    return max((value for value in values if type(value) in (int, float)), default=None)


def _amounts(annotations: Json, names: Sequence[str]) -> dict[str, MaybeNumber]:
    """Return ``_FIELDS`` by the names that they have here; None where a value is missing or no number."""
    return {field: _number(annotations.get(name)) for field, name in zip(_FIELDS, names, strict=True)}


def _number(value: Any) -> MaybeNumber:
    return value if type(value) in (int, float) else None


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(_text(item) for item in value)
    return value if isinstance(value, str) else orjson.dumps(value).decode()
