"""Lists the pipeline's stages: which topic feeds which operator. A replay and the Faust app run this same
list."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.catalogue import COUNTERS, METRICS, WINDOW_METRICS
from dutycycle.contract.errors import SettingError, did_you_mean
from dutycycle.contract.settings.groups import Settings
from streams.names import STATELESS, check_settings, sources
from streams.operators.base import NodeModels, Operator, Snapshot, Stage, no_models
from streams.operators.columns.readers import READERS
from streams.operators.cycles.bank import CycleConfig
from streams.operators.forward import PARTS, PodForwarder, StepForwarder
from streams.operators.health import HealthOperator
from streams.operators.node.analysis import ANALYSIS, AnalysisConfig
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.peaks.job import JobOperator
from streams.operators.peaks.pod import PodOperator
from streams.operators.workload.jobs.operator import JobInsightOperator
from streams.operators.workload.pod import PodInsightOperator
from streams.operators.workload.recent_minutes import Prices

_MS = 1000
_SOURCES_OF_NODES = ("nvml", "cgroup", "cuda")


def stages(settings: Settings) -> list[Stage]:
    """Return every stage that the chosen analyses need, sources first: what a stage sends is read by a later
    one or by nobody."""
    check_settings(settings)
    evict_ms, evict_pods_ms, evict_jobs_ms = (
        int(seconds * _MS) for seconds in (settings.evict, settings.evict_pods, settings.evict_jobs)
    )
    prices = Prices(per_gpu_hour=settings.price_gpu_hour, per_kwh=settings.price_kwh)
    anomalies = "anomalies" in settings.analyses
    models = no_models
    if settings.models:
        from streams.models import bank_of, models_of  # here, not above: without models none waits for River

        models = partial(bank_of, models_of(settings))
    built: dict[str, tuple[Callable[[str, Snapshot | None], Operator], int | None]] = {
        **{source: (_node_builder(settings, source, models), evict_ms) for source in _SOURCES_OF_NODES},
        "pods": (lambda uid, _: PodForwarder(uid, written_topics(PARTS, settings.analyses)), None),
        "processes": (lambda node, _: StepForwarder(node), None),
        "health": (_resuming(HealthOperator), evict_ms),
        "pod-peaks": (_resuming(PodOperator), evict_pods_ms),
        "job-peaks": (_resuming(JobOperator), evict_jobs_ms),
        "insights": (
            _resuming(lambda uid: PodInsightOperator(uid, prices, anomalies=anomalies)),
            evict_pods_ms,
        ),
        "job-insights": (_resuming(JobInsightOperator), evict_jobs_ms),
    }
    return [
        Stage(
            name=name, source=source, build=built[name][0], evict_ms=built[name][1],
            stateless=name in STATELESS,
        )
        for name, source in sources(settings).items()
    ]  # fmt: skip


def _node_builder(
    settings: Settings, source: str, models: Callable[[str, str], NodeModels]
) -> Callable[[str, Snapshot | None], Operator]:
    """Return what builds the operator of a node for the samples of ``source``."""
    cycles = CycleConfig(
        samples=settings.cycles_window,
        least=settings.cycles_shortest,
        early=settings.cycles_early == "on",
        sure=settings.cycles_confidence,
        sure_of_part=settings.cycles_confidence_part,
        sure_of_begun=settings.cycles_confidence_begun,
        misses=settings.cycles_misses,
    )
    window_metrics = frozenset(_known_metrics("WINDOWS", settings.windows_metrics))
    for name in settings.windows_metrics:
        if name not in WINDOW_METRICS:
            raise SettingError(f"DUTYCYCLE_WINDOWS_METRICS: {name} has no windows: leave it out")
    if not COUNTERS.isdisjoint(window_metrics) and "power_w" not in window_metrics:
        counter = min(COUNTERS.intersection(window_metrics))
        raise SettingError(
            f"DUTYCYCLE_WINDOWS_METRICS: {counter} needs power_w, which tells whether the counter stands "
            f"still: add power_w, or leave out {counter}"
        )
    trend_metrics = _known_metrics("TRENDS", settings.trends_metrics) or ANALYSIS.trend_metrics
    cycle_metrics = _known_metrics("CYCLES", settings.cycles_metrics) or ANALYSIS.cycle_metrics
    config = NodeConfig(
        topic=f"{source}-samples",
        source=source,
        analyses=frozenset(settings.analyses),
        window_metrics=window_metrics or WINDOW_METRICS,
        sizes_ms=tuple(int(size * _MS) for size in settings.windows),
        lateness_ms=int(settings.lateness * _MS),
        retire_ms=int(settings.retire * _MS),
        evict_ms=int(settings.evict * _MS),
        evaluate_ms=int(settings.evaluate * _MS),
        analysis=AnalysisConfig(
            trend_metrics=trend_metrics if "trends" in settings.analyses else (),
            cycle_metrics=cycle_metrics if "cycles" in settings.analyses else (),
            horizons_s=settings.trends_horizons,
            cycles=cycles,
        ),
        models=models,
    )
    return _resuming(lambda node: NodeOperator(config, node, READERS[config.topic](node)))


def _known_metrics(of: str, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in METRICS:
            meant = did_you_mean(name, METRICS)
            raise SettingError(f"DUTYCYCLE_{of}_METRICS: there is no metric {name}{meant}")
    return names


class _Resumable(Operator, Protocol):
    """Is an operator that a snapshot can be given to."""

    def restore(self, plain: Snapshot) -> None: ...


def _resuming(make: Callable[[str], _Resumable]) -> Callable[[str, Snapshot | None], Operator]:
    """Builds the operator of a key, and gives it its snapshot if there is one."""

    def build(key: str, snapshot: Snapshot | None) -> Operator:
        operator = make(key)
        if snapshot is not None:
            operator.restore(snapshot)
        return operator

    return build
