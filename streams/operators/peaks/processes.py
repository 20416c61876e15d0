"""Which processes of a pod are kept: a pod may start thousands, one after the other, for as long as it lives.

Those count that needed most: by their memory on the GPU, then their utilization, then the latest. What is
left out is counted, and is in the figures of the pod and of its GPUs all the same.
"""

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import TypeVar

from contract.records.parts import Tallies
from streams.operators.columns.series import TallySeries

MOST_PROCESSES = 64
"""Of one pod, on all its GPUs."""
_BY = ("mem_used_bytes", "gpu_util_pct")

T = TypeVar("T", bound=Tallies)
Rank = tuple[float, float, float, str]


def rank(scope: str, maxima: Mapping[str, float], at_ms: float) -> Rank:
    """What orders the processes of a pod: their maxima by metric, and when the last of these was."""
    memory, busy = (maxima.get(metric, -1.0) for metric in _BY)
    return memory, busy, at_ms, scope


def highest(ranks: Iterable[Rank], most: int = MOST_PROCESSES) -> set[str]:
    """The scopes of the highest ranks."""
    return {one[-1] for one in nlargest(most, ranks)}


def too_many(ids: Iterable[TallySeries]) -> dict[str, dict[str, dict[str, int]]]:
    """Of each pod with too many processes: by scope and metric, the place in ``ids``."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for at, one in enumerate(ids):
        if one.scope.count("/") == 2:
            found.setdefault(one.pod_uid, {}).setdefault(one.scope, {})[one.metric] = at
    return {uid: scopes for uid, scopes in found.items() if len(scopes) > MOST_PROCESSES}


def bounded(processes: Mapping[str, T], most: int = MOST_PROCESSES) -> tuple[dict[str, T], int]:
    """The processes to keep, by scope and in the order given, and how many are left out."""
    if len(processes) <= most:
        return dict(processes), 0
    kept = highest((_rank_of(scope, tallies) for scope, tallies in processes.items()), most)
    return {scope: of for scope, of in processes.items() if scope in kept}, len(processes) - len(kept)


def _rank_of(scope: str, tallies: Tallies) -> Rank:
    maxima = {metric: one.max for metric, one in tallies.items()}
    return rank(scope, maxima, max((one.at_ms for one in tallies.values()), default=0))
