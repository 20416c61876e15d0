"""Reads what kube-state-metrics tells of pods: owners, phase, times, and what they request. Pure.

Init containers have metrics of their own, which are not read: what they request counts rarely.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from collectors.prometheus.identity.labels import POD_INFO, Workload, workload_of
from collectors.prometheus.owners import OWNED, OwnerIndex
from collectors.prometheus.series import ScrapedSeries
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.units import sum_of_known

_TIMES = {
    "kube_pod_created": "created_ms",
    "kube_pod_start_time": "started_ms",
    "kube_pod_completion_time": "finished_ms",
}
_PHASE = "kube_pod_status_phase"
_CONTAINER = "kube_pod_container_info"
_REQUESTS, _LIMITS = "kube_pod_container_resource_requests", "kube_pod_container_resource_limits"
_GPU = re.compile(
    r"nvidia_com_(?:[pv]?gpu|gpu_shared|mig_.+|[A-Z]\w*_.+)|amd_com_(?:gpu|[sdtqc]px_nps\d)|gpu_intel_com_(?:i915|xe)"
)
"""A resource as kube-state-metrics writes it: with ``_`` for what a label name may not hold."""
_LIKE_GPU = re.compile(r".*(?:gpu|cuda)", re.IGNORECASE).match
"""What asks for GPUs, or for a part of one without their number."""
_NAMES = "|".join([POD_INFO, *OWNED, *_TIMES, _CONTAINER, _REQUESTS, _LIMITS])
KUBE_SELECTOR = f'{{__name__=~"{_NAMES}|{_PHASE}"}}'
KUBE_NOW = f'{{__name__=~"{_NAMES}"}} or {_PHASE} == 1'
"""The same as it is now, without the phases that a pod is not in."""
_Name = tuple[str, str]
_Amounts = dict[tuple[str, str], float]
"""By container and resource."""


class KubeState:
    """Holds what was there when it was last asked for, and how often that was (``answers``).

    A fact that is gone since changes nothing of a pod.
    """

    def __init__(self) -> None:
        self._owners = OwnerIndex()
        self._facts: Mapping[_Name, Mapping[str, Any]] = {}
        self.answers = 0

    def learn(self, series: Iterable[ScrapedSeries]) -> None:
        """Take the answer to ``KUBE_SELECTOR`` or ``KUBE_NOW``."""
        every = list(series)
        self.answers += 1
        self._owners.learn(every)
        pods: dict[_Name, _Facts] = defaultdict(_Facts)
        for scraped in every:
            if scraped.points and (who := workload_of(scraped.labels)) is not None:
                pods[who.namespace, who.pod].add(scraped, who.container)
        self._facts = {name: facts.fields() for name, facts in pods.items()}

    def known_of(self, pod: Pod) -> Pod:
        """Return the pod with all that is known of it."""
        who = Workload(pod.namespace or "", pod.name)
        job = self._owners.job_of(who)
        fields = self._facts.get((who.namespace, who.pod), {})
        return replace(pod, **fields, **({} if job is None else {"job": job}))


class _Facts:
    """Collects the facts of one pod."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._containers: set[str] = set()
        self._requests: _Amounts = {}
        self._limits: _Amounts = {}

    def add(self, series: ScrapedSeries, container: str) -> None:
        metric, value = series.labels.get("__name__", ""), series.points[-1][1]
        if value < 0:
            return
        if metric in _TIMES:
            self._fields[_TIMES[metric]] = round(value * 1000)
        elif metric == _PHASE and value == 1:
            self._fields["phase"] = series.labels.get("phase") or "Unknown"
        elif metric == _CONTAINER:
            self._containers.add(container)
        elif metric in (_REQUESTS, _LIMITS):
            amounts = self._requests if metric == _REQUESTS else self._limits
            amounts[container, series.labels.get("resource", "")] = value

    def fields(self) -> Mapping[str, Any]:
        """Return the fields of a ``Pod`` that are known."""
        all_limited = all((container, "cpu") in self._limits for container in self._containers)
        fields = self._fields | {
            "cpu_request": _sum(self._requests, "cpu"),
            "mem_request_bytes": _sum(self._requests, "memory"),
            "cpu_limit": _sum(self._limits, "cpu") if all_limited else None,
        }
        if self._containers:
            asked = {name for (_, name), value in self._requests.items() if value}
            gpus = sum(value for (_, name), value in self._requests.items() if _GPU.fullmatch(name))
            fields["gpu_request"] = None if not gpus and any(map(_LIKE_GPU, asked)) else gpus
        return {name: value for name, value in fields.items() if value is not None}


def _sum(amounts: _Amounts, resource: str) -> float | None:
    return sum_of_known(value for (_, name), value in amounts.items() if name == resource)
