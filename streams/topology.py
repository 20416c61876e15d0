"""The pipeline's stages: which topic feeds which operator. A replay and the Faust app run this same list."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Protocol

from contract.errors import SettingError
from contract.settings.groups import Settings
from streams.operators.base import Operator, Snapshot, Stage
from streams.operators.columns.cgroup import CgroupReader
from streams.operators.columns.nvml import NvmlReader
from streams.operators.forward import PodForwarder
from streams.operators.node.operator import NodeConfig, NodeOperator, Reader
from streams.operators.peaks.job import JobOperator
from streams.operators.peaks.pod import PodOperator
from streams.operators.workload.job import JobInsightOperator
from streams.operators.workload.pod import PodInsightOperator
from streams.operators.workload.track import Prices

_MS = 1000


def stages(settings: Settings) -> list[Stage]:
    """Every stage, sources first: what a stage sends is read by a later one or by nobody."""
    _check_order(settings)
    evict_ms, evict_pods_ms, evict_jobs_ms = (
        int(seconds * _MS) for seconds in (settings.evict, settings.evict_pods, settings.evict_jobs)
    )
    prices = Prices(per_gpu_hour=settings.price_gpu_hour, per_kwh=settings.price_kwh)
    nvml, cgroup = (
        _node_builder(settings, "nvml", NvmlReader),
        _node_builder(settings, "cgroup", _cgroup_reader),
    )
    return [
        Stage(name="nvml", source="nvml-samples", build=nvml, evict_ms=evict_ms),
        Stage(name="cgroup", source="cgroup-samples", build=cgroup, evict_ms=evict_ms),
        Stage(name="pods", source="pods", build=lambda uid, _: PodForwarder(uid), stateless=True),
        Stage(name="pod-peaks", source="pod-parts", build=_pod, evict_ms=evict_pods_ms),
        Stage(name="job-peaks", source="job-parts", build=_job, evict_ms=evict_jobs_ms),
        Stage(
            name="insights", source="insight-parts", build=partial(_insight, prices), evict_ms=evict_pods_ms
        ),
        Stage(name="job-insights", source="job-insight-parts", build=_job_insight, evict_ms=evict_jobs_ms),
    ]


def _check_order(settings: Settings) -> None:
    """What a later stage knows must not leave before what it is made of. Raises ``SettingError``."""
    names = ("retire", "evict", "evict_pods", "evict_jobs")
    for shorter, longer in pairwise(names):
        least, value = getattr(settings, shorter), getattr(settings, longer)
        if value < least:
            raise SettingError(
                f"DUTYCYCLE_{longer.upper()}={value:.10g}s: expected at least DUTYCYCLE_{shorter.upper()}, "
                f"{least:.10g}s"
            )


def _cgroup_reader(_node: str) -> Reader:
    return CgroupReader()


def _node_builder(
    settings: Settings, source: str, reader: Callable[[str], Reader]
) -> Callable[[str, Snapshot | None], Operator]:
    config = NodeConfig(
        topic=f"{source}-samples",
        source=source,
        sizes_ms=tuple(int(size * _MS) for size in settings.windows),
        lateness_ms=int(settings.lateness * _MS),
        retire_ms=int(settings.retire * _MS),
        evict_ms=int(settings.evict * _MS),
    )
    open_for = config.sizes_ms[-1] + config.lateness_ms
    if config.retire_ms < open_for:
        raise SettingError(
            f"DUTYCYCLE_RETIRE={settings.retire:g}s: expected at least the longest window and the allowed "
            f"lateness, {open_for / _MS:g}s"
        )
    return partial(_node, config, reader)


def _node(
    config: NodeConfig, reader: Callable[[str], Reader], node: str, snapshot: Snapshot | None
) -> Operator:
    return _resumed(NodeOperator(config, node, reader(node)), snapshot)


def _pod(uid: str, snapshot: Snapshot | None) -> Operator:
    return _resumed(PodOperator(uid), snapshot)


def _job(uid: str, snapshot: Snapshot | None) -> Operator:
    return _resumed(JobOperator(uid), snapshot)


def _insight(prices: Prices, uid: str, snapshot: Snapshot | None) -> Operator:
    return _resumed(PodInsightOperator(uid, prices), snapshot)


def _job_insight(uid: str, snapshot: Snapshot | None) -> Operator:
    return _resumed(JobInsightOperator(uid), snapshot)


class _Resumable(Operator, Protocol):
    """An operator that a snapshot can be given to."""

    def restore(self, plain: Snapshot) -> None: ...


def _resumed(operator: _Resumable, snapshot: Snapshot | None) -> Operator:
    if snapshot is not None:
        operator.restore(snapshot)
    return operator
