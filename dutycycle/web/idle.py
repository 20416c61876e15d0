"""Finds GPUs that somebody holds and nobody uses: whose they are, since when, what that costs, how to end
it."""

from dataclasses import dataclass
from shlex import quote

from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.kube.stops import stop_command
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow
from dutycycle.words import evidence_figures

_EVIDENCE = 5


@dataclass(frozen=True, slots=True)
class IdleHolder:
    """Names a pod, or outside Kubernetes what stands for one, whose GPUs do nothing since ``since_ms``.

    ``gpus``: keys and names. ``gpu_hours``: until now; ``cost`` by the price of a GPU hour, None without one.
    ``evidence`` and ``advice`` are of ``judged_ms``, when they last changed.
    ``command``: what a person would type to end it; empty where nothing is known that can be ended.
    """

    key: str
    title: str
    node: str
    gpus: list[tuple[str, str]]
    since_ms: int
    gpu_hours: float
    cost: float | None
    evidence: str
    advice: str
    judged_ms: int
    command: str


def idle_holders(state: LiveState, price_gpu_hour: float | None) -> list[IdleHolder]:
    """List those whose verdict is idle, what was wasted most first."""
    by_pod: dict[str, list[GpuRow]] = {}
    for gpu in state.gpus():
        for uid in gpu.pods:
            by_pod.setdefault(uid, []).append(gpu)
    holders = []
    for pod in state.pods():
        gpus = by_pod.get(pod.uid)
        insight = None if gpus is None else pod.derived.read_insight()
        if gpus is None or insight is None or insight.kind != "idle":
            continue
        hours = len(gpus) * max(0, state.now_ms - insight.since_ms) / HOUR_MS
        evidence = [" ".join(figure) for figure in evidence_figures(insight.evidence)[:_EVIDENCE]]
        # The owner of a pod that Kubernetes knows is stopped, and else its processes.
        identity, command = pod.identity, ""
        if identity is None or not identity.namespace:
            processes = (process for gpu in gpus for process in gpu.processes)
            pids = sorted({process.pid for process in processes if process.pod_uid == pod.uid})
            command = " ".join(map(str, ("kill", *pids))) if pids else ""
        elif identity.job is not None:
            command = stop_command(identity.job, identity.namespace, state.now_ms)
        else:
            command = f"kubectl -n {quote(identity.namespace)} delete {quote(f'pod/{identity.name}')}"
        holders.append(
            IdleHolder(
                key=pod.key,
                title=pod.title,
                node=pod.node,
                gpus=[(gpu.key, gpu.name) for gpu in gpus],
                since_ms=insight.since_ms,
                gpu_hours=hours,
                cost=None if price_gpu_hour is None else hours * price_gpu_hour,
                evidence=", ".join(evidence),
                advice=insight.advice or "",
                judged_ms=insight.ts_ms,
                command=command,
            )
        )
    return sorted(holders, key=lambda holder: (-holder.gpu_hours, holder.title))
