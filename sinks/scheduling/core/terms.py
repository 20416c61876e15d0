"""Computes what counts for a score. Each ``score_…`` gives a column over all nodes, or None where it does not
concern the pod."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from dutycycle.contract.units import GIB
from sinks.scheduling.core.node import Flags, Floats, Need, Nodes

_HUNGRY = {"training": 1.0, "loading": 2.0}
"""Weights of CPU time by kind of workload; others care little."""
_SAME_PERIOD = 0.05
"""Two cycles whose periods differ by no more than this part are in step."""
_ENOUGH_C = 20.0
"""Degrees below its limit: more makes no difference to a GPU."""
_ABOVE_ALL = 1000.0
"""So much more than all other terms that its 0 is the node's."""


@dataclass(frozen=True, slots=True)
class Term:
    """Holds a term of a score. ``value``: 0 (bad) to 1 (good). ``weight``: relative to others. ``blocks``: it
    cannot run well here."""

    name: str
    value: float
    weight: float
    reason: str
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class TermColumn:
    """Holds a term of many nodes: ``values`` are NaN where nothing is known.

    ``reason`` says it of one place: of a thousand nodes few are ever asked for.
    """

    name: str
    values: Floats
    weight: float
    reason: Callable[[int], str]
    blocks: Flags | None = None

    def blocked_places(self) -> list[int]:
        """Tell where it blocks."""
        return [] if self.blocks is None else np.flatnonzero(self.blocks).tolist()

    def at(self, place: int) -> Term | None:
        """Return the term of one node; None where nothing is known of it."""
        value = float(self.values[place])
        if np.isnan(value):
            return None
        blocks = self.blocks is not None and bool(self.blocks[place])
        return Term(self.name, value, self.weight, self.reason(place), blocks)


def clipped(values: Floats) -> Floats:
    """Return ``values``, at least 0 and at most 1; NaN stays."""
    return np.minimum(np.maximum(values, 0.0), 1.0)


def score_memory(nodes: Nodes, need: Need) -> TermColumn | None:
    """Score GPU memory that is really free: a neighbour may use more than it asked for. 1 from twice the need
    on; blocks if there is less than the need."""
    wanted, free = need.gpu_mem_bytes, nodes.of_gpus("mem_free_bytes")
    if not need.gpus or wanted is None or free.shape[1] < need.gpus:
        return None
    if not need.shares:
        free = np.where(nodes.of_gpus("taken") == 0, free, np.nan)
    # of the GPUs that it would get, if it gets the freest; NaN comes last
    least = -np.partition(-free, need.gpus - 1, axis=1)[:, need.gpus - 1]
    tenths, wants = np.rint(least / GIB * 10).tolist(), f"needs {wanted / GIB:.1f} GiB of GPU memory"

    @cache
    def text(tenths: float) -> str:  # of thousands of nodes that block: a node has one of some hundred values
        return f"{wants}, {tenths / 10:.1f} GiB is free"

    def reason(place: int) -> str:
        return text(tenths[place])

    return TermColumn("memory", clipped(least / max(wanted, 1.0) - 1.0), 1.0, reason, least < wanted)


def score_packing(nodes: Nodes, need: Need) -> TermColumn:
    """Keep whole nodes free for jobs that need them: the fullest node that fits is the best. 1 if no GPU is
    left free, if the pod may share one that is taken, or if it needs none and none is known of the node."""
    taken = nodes.of_gpus("taken")
    free, count = (taken == 0).sum(axis=1), (~np.isnan(taken)).sum(axis=1)
    left = np.maximum(free - need.gpus, 0)
    values = clipped(1.0 - np.where(count > 0, left, np.nan) / np.maximum(count, 1))
    shared = (free < count) & need.shares
    values[shared] = 1.0
    if not need.gpus:  # else a node whose GPUs are all in use would be better for it than one without any
        values[count == 0] = 1.0

    def reason(place: int) -> str:
        if shared[place]:
            return "shares a GPU that is in use"
        if not count[place]:
            return "no GPU of it is known, and so none to keep free"
        return f"leaves {left[place]} of {count[place]} GPUs free"

    return TermColumn("packing", values, 3.0, reason)


def score_ranks(nodes: Nodes, need: Need) -> TermColumn | None:
    """Bring the pods of one job together: what they say to one another stays on NVLink, or within the rack.
    1 if all other ranks are there, half of that if they are near. None for a job of one pod."""
    if need.ranks < 2:
        return None
    others = need.ranks - 1
    near = np.maximum(nodes.near_ranks - nodes.ranks, 0)

    def reason(place: int) -> str:
        return f"{nodes.ranks[place]:.0f} of {others} other ranks here, {near[place]:.0f} near"

    return TermColumn("ranks", clipped((nodes.ranks + 0.5 * near) / others), 2.0, reason)


def score_cpu(nodes: Nodes, need: Need) -> TermColumn | None:
    """Score CPU time that is really free, for what waits for its data. 1 from twice the need on, 0 if there
    is none."""
    cores = need.cpu_cores
    if cores is None or cores <= 0:
        return None
    free = np.maximum(nodes.cpu_free_cores, 0.0)
    enough = max(2 * cores, 1e-3)

    def reason(place: int) -> str:
        return f"needs {cores:.1f} CPUs, {free[place]:.1f} are idle"

    return TermColumn("cpu", clipped(free / enough), _HUNGRY.get(need.kind or "", 0.5), reason)


def score_network(nodes: Nodes, need: Need) -> TermColumn | None:
    """Give the share of the network that is idle. None for a job of one pod."""
    if need.ranks < 2:
        return None
    idle = clipped(nodes.net_free)
    return TermColumn("network", idle, 1.0, lambda place: f"{idle[place]:.0%} of the network is idle")


def score_cycles(nodes: Nodes, need: Need) -> TermColumn | None:
    """Find pods for one GPU of which one computes while the other does not. 1 less the overlap, on the best
    GPU for it. None if the pod gets GPUs of its own.

    Of two loads that compute for shares ``a`` and ``b`` of the time, and whose cycles are not in step,
    ``a * b`` of the time is wanted by both. With one period, one of them is held back until it runs in the
    other's pauses: then it is ``a + b - 1``, at least 0.
    """
    duty, there = need.duty, nodes.of_gpus("duty")
    if not need.shares or duty is None or not there.shape[1]:
        return None
    periods, period_s = nodes.of_gpus("period_s"), np.nan if need.period_s is None else need.period_s
    in_step = np.abs(periods - period_s) <= _SAME_PERIOD * np.maximum(periods, period_s)
    overlap = clipped(np.where(in_step, there + duty - 1.0, there * duty))
    overlap = np.where((nodes.of_gpus("taken") == 1) & ~np.isnan(there), overlap, np.inf)
    best = overlap.argmin(axis=1)
    least = np.take_along_axis(overlap, best[:, None], axis=1)[:, 0]

    def reason(place: int) -> str:
        at = place, best[place]
        cycle = f" in cycles of {need.period_s:.1f} s both" if in_step[at] else ""
        return f"computes {duty:.0%} beside one of {there[at]:.0%}{cycle}: {overlap[at]:.0%} is wanted twice"

    return TermColumn("cycles", 1.0 - np.where(np.isinf(least), np.nan, least), 2.0, reason)


def score_heat(nodes: Nodes, need: Need) -> TermColumn | None:
    """Avoid GPUs near their limit, which lower their clocks. 0 if one of the node's is throttled, else 1 from
    20 degrees of headroom on."""
    if not need.gpus:
        return None
    throttled = (nodes.of_gpus("throttled") == 1).sum(axis=1)
    headroom = np.fmin.reduce(nodes.of_gpus("headroom_c"), axis=1, initial=np.nan)

    def reason(place: int) -> str:
        if throttled[place]:
            return f"{throttled[place]} of its GPUs are throttled"
        return f"{headroom[place]:.0f} degrees below where it slows down"

    return TermColumn("heat", np.where(throttled > 0, 0.0, clipped(headroom / _ENOUGH_C)), 1.0, reason)


def score_health(nodes: Nodes, need: Need) -> TermColumn | None:
    """Choose a node with a broken GPU last, or leave it out: 0 if one should get no more work. Of the others
    it says nothing."""
    if not need.gpus or need.leaves_out_sick is None:
        return None
    sick = nodes.sick > 0

    def reason(place: int) -> str:
        return f"{nodes.sick[place]:.0f} of its GPUs should get no more work: see kubectl dutycycle health"

    blocks = sick if need.leaves_out_sick else None
    return TermColumn("health", np.where(sick, 0.0, np.nan), _ABOVE_ALL, reason, blocks)


TERMS: tuple[Callable[[Nodes, Need], TermColumn | None], ...] = (
    score_memory, score_packing, score_ranks, score_cpu, score_network, score_cycles, score_heat,
    score_health,
)  # fmt: skip
