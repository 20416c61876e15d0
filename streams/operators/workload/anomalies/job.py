"""Finds the anomalies of a job: those of its pods, and what shows only between its pods."""

from collections.abc import Iterator
from statistics import median

from msgspec.structs import replace

from dutycycle.contract.records.insights import Anomaly
from dutycycle.contract.records.parts import JobInsightPart
from streams.operators.workload.anomalies.kinds import HANG, HOT_GPU, SLOW_GPU, STALL
from streams.operators.workload.channels import IDLE_PCT
from streams.operators.workload.ranks import PAST_METRICS, aligned

MOST = 8
"""Anomalies of a job; of more, those that began first are said."""
FEWEST = 3
"""Ranks, so that it is clear which one is another than the others."""
WARMER_C, LOWER_PCT = 8.0, 5.0
"""How much warmer than its past a rank became beyond the others; clock and power, both lower."""


def job_anomalies(parts: list[JobInsightPart]) -> tuple[Anomaly, ...]:
    """Return the anomalies of the pods that count, in any order; a function of the parts alone."""
    anomalies = [
        replace(anomaly, pod=part.pod_name)
        for part in parts
        for anomaly in part.anomalies
        if anomaly.kind not in (HANG, STALL)
    ]
    anomalies += [*_hang(parts), *_apart(parts)]
    stalled = [
        (part.pod_name, anomaly) for part in parts for anomaly in part.anomalies if anomaly.kind == STALL
    ]
    if stalled:  # one for all pods that step no more; it names the pod, if that alone reports steps
        name, first = min(stalled, key=lambda pair: (pair[1].since_ms, pair[0]))
        evidence = dict(first.evidence) | {"stalled_pods": len(stalled)}
        anomalies.append(replace(first, evidence=evidence, pod=name if len(stalled) == 1 else None))
    anomalies.sort(key=lambda anomaly: (anomaly.since_ms, anomaly.kind, anomaly.pod or "", anomaly.gpu or ""))
    return tuple(anomalies[:MOST])


def _hang(parts: list[JobInsightPart]) -> Iterator[Anomaly]:
    """Yield one for all pods that wait; it names the pod that does nothing, if there is one."""
    waits = [
        replace(anomaly, pod=part.pod_name)
        for part in parts
        for anomaly in part.anomalies
        if anomaly.kind == HANG
    ]
    if not waits:
        return
    first = min(waits, key=lambda anomaly: (anomaly.since_ms, anomaly.advice or "", anomaly.pod or ""))
    idle = [name for name, figures in aligned(parts) if figures.get("gpu_util_pct", 100.0) < IDLE_PCT]
    evidence = dict(first.evidence) | {"waiting_pods": len(waits)}
    if len(idle) != 1:
        yield replace(first, evidence=evidence, pod=first.pod if len(waits) == 1 else None)
        return
    wait = f"{len(waits)} of {len(parts)} pods wait at full utilization"
    text = f"{wait} for {idle[0]}, which does nothing: look at its stack"
    yield Anomaly(kind=HANG, since_ms=first.since_ms, pod=idle[0], evidence=evidence, advice=text)


def _apart(parts: list[JobInsightPart]) -> Iterator[Anomaly]:
    """Yield ranks that went another way than the others since each was usual."""
    parts = [part for part in parts if part.kind == "training"]
    times = {part.pod_name: part.rank_changed_ms for part in parts}
    ranks = {name: figures for name, figures in aligned(parts) if "warmer_c" in figures}
    known = {(part.pod_name, anomaly.kind) for part in parts for anomaly in part.anomalies}
    if len(ranks) < FEWEST:
        return
    for name, figures in ranks.items():
        others = [of for other, of in ranks.items() if other != name]
        warmer, clock, power = (
            float(figures[of]) - median(float(other[of]) for other in others) for of in PAST_METRICS
        )
        since_ms, evidence = times[name], {of: figures[of] for of in PAST_METRICS}
        if warmer >= WARMER_C and (name, HOT_GPU) not in known:
            became = f"{name} became {warmer:.0f} \N{DEGREE SIGN}C warmer than the other ranks did"
            text = f"{became}: look at its node's cooling"
            yield Anomaly(kind=HOT_GPU, since_ms=since_ms, pod=name, evidence=evidence, advice=text)
        if min(clock, power) >= LOWER_PCT and (name, SLOW_GPU) not in known:
            text = f"the clock of {name} fell by {clock:.0f} % against the other ranks, which wait for it"
            yield Anomaly(kind=SLOW_GPU, since_ms=since_ms, pod=name, evidence=evidence, advice=text)
