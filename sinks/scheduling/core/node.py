"""What is known of a node, and what a pod needs of it. What was not measured is None."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. ``taken``: a pod has it, or shares it.

    ``mem_free_bytes``: measured, not what was requested. ``duty``: the share of time, 0 to 1, in which its
    pods compute; ``period_s``: of their cycle. ``headroom_c``: degrees below where it slows down.
    """

    taken: bool = False
    mem_free_bytes: float | None = None
    duty: float | None = None
    period_s: float | None = None
    headroom_c: float | None = None
    throttled: bool | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node. ``cpu_free_cores``: all less the p95 of what is used; ``net_free``: likewise a share, 0 to 1.

    ``ranks``: pods of the same job that it has; ``near_ranks``: those of its rack or block, it included.
    """

    name: str
    gpus: tuple[Gpu, ...]
    cpu_free_cores: float | None = None
    net_free: float | None = None
    ranks: int = 0
    near_ranks: int = 0


@dataclass(frozen=True, slots=True)
class Need:
    """What a pod needs: requested, and predicted from its kin (``Prediction``).

    ``gpus``: whole ones. ``shares``: it may run beside others on one GPU. ``ranks``: pods of the whole job.
    ``gpu_mem_bytes``: of one GPU. ``duty``, ``period_s``: of its own load.
    """

    gpus: int
    ranks: int = 1
    shares: bool = False
    kind: str | None = None
    gpu_mem_bytes: float | None = None
    cpu_cores: float | None = None
    duty: float | None = None
    period_s: float | None = None
