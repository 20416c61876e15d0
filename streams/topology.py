"""The pipeline's stages: which topic feeds which operator. A replay and the Faust app run this same list."""

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

from contract.errors import SettingError
from contract.settings.groups import Settings
from streams.operators.base import Operator, Snapshot, Stage
from streams.operators.columns.cgroup import CgroupReader
from streams.operators.columns.nvml import NvmlReader
from streams.operators.forward import PodForwarder
from streams.operators.node.operator import NodeConfig, NodeOperator
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
    nvml, cgroup = _node_config(settings, "nvml"), _node_config(settings, "cgroup")
    return [
        Stage(
            name="nvml", source="nvml-samples", evict_ms=evict_ms,
            build=_resuming(lambda node: NodeOperator(nvml, node, NvmlReader(node))),
        ),
        Stage(
            name="cgroup", source="cgroup-samples", evict_ms=evict_ms,
            build=_resuming(lambda node: NodeOperator(cgroup, node, CgroupReader())),
        ),
        Stage(name="pods", source="pods", build=lambda uid, _: PodForwarder(uid), stateless=True),
        Stage(name="pod-peaks", source="pod-parts", build=_resuming(PodOperator), evict_ms=evict_pods_ms),
        Stage(name="job-peaks", source="job-parts", build=_resuming(JobOperator), evict_ms=evict_jobs_ms),
        Stage(
            name="insights", source="insight-parts", evict_ms=evict_pods_ms,
            build=_resuming(lambda uid: PodInsightOperator(uid, prices)),
        ),
        Stage(
            name="job-insights", source="job-insight-parts", evict_ms=evict_jobs_ms,
            build=_resuming(JobInsightOperator),
        ),
    ]  # fmt: skip


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


def _node_config(settings: Settings, source: str) -> NodeConfig:
    """Raises ``SettingError`` where a source is retired while its longest window may still be open."""
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
    return config


class _Resumable(Operator, Protocol):
    """An operator that a snapshot can be given to."""

    def restore(self, plain: Snapshot) -> None: ...


def _resuming(make: Callable[[str], _Resumable]) -> Callable[[str, Snapshot | None], Operator]:
    """Builds the operator of a key, and gives it its snapshot if there is one."""

    def build(key: str, snapshot: Snapshot | None) -> Operator:
        operator = make(key)
        if snapshot is not None:
            operator.restore(snapshot)
        return operator

    return build
