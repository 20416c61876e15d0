"""Chooses which processes of a pod are kept: a pod may start thousands, one after the other.

Those with the highest maxima are kept: by memory on the GPU, then by utilization, then the latest. The others
are counted; what they used is in the metrics of the pod and of its GPUs all the same.
"""

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import TypeVar

from dutycycle.contract.records.parts import Tallies
from streams.operators.columns.series import TallySeries

MAX_POD_PROCESSES = 64
"""Processes of one pod, on all its GPUs together."""
_BY = ("mem_used_bytes", "gpu_util_pct")

T = TypeVar("T", bound=Tallies)
Rank = tuple[float, float, float, str]
"""Memory, utilization, time of the last maximum, scope."""


def process_rank(scope: str, maxima: Mapping[str, float], at_ms: float) -> Rank:
    """Return what orders the processes of a pod, from a process's maxima by metric and the time of the last
    of them."""
    memory, busy = (maxima.get(metric, -1.0) for metric in _BY)
    return memory, busy, at_ms, scope


def highest_ranked(ranks: Iterable[Rank], most: int) -> set[str]:
    """Return the scopes of the highest ranks, ``most`` at most."""
    return {rank[-1] for rank in nlargest(most, ranks)}


def pods_over_limit(ids: Iterable[TallySeries]) -> dict[str, dict[str, dict[str, int]]]:
    """Return of each pod with too many processes the place in ``ids`` by scope and metric."""
    columns: dict[str, dict[str, dict[str, int]]] = {}
    for at, tally_series in enumerate(ids):
        if tally_series.scope.count("/") == 2:
            columns.setdefault(tally_series.pod_uid, {}).setdefault(tally_series.scope, {})[
                tally_series.metric
            ] = at
    return {uid: scopes for uid, scopes in columns.items() if len(scopes) > MAX_POD_PROCESSES}


def limit_processes(processes: Mapping[str, T], most: int = MAX_POD_PROCESSES) -> tuple[dict[str, T], int]:
    """Return the processes to keep, by scope and in the given order, and how many are left out."""
    if len(processes) <= most:
        return dict(processes), 0
    ranks = [
        process_rank(
            scope,
            {metric: tally.max for metric, tally in tallies.items()},
            max((tally.at_ms for tally in tallies.values()), default=0),
        )
        for scope, tallies in processes.items()
    ]
    kept = highest_ranked(ranks, most)
    return {scope: of for scope, of in processes.items() if scope in kept}, len(processes) - len(kept)
