"""Holds what is known of nodes, and what a pod needs of one. What was not measured is None, in columns
NaN."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NodeGpu:
    """Holds what is known of one GPU. ``taken``: a pod has it, or shares it.

    ``mem_free_bytes``: measured, not what was requested. ``duty``: the share of time, 0 to 1, in which its
    pods compute; ``period_s``: of their cycle. ``headroom_c``: degrees below where it slows down.
    """

    taken: bool = False
    mem_free_bytes: float | None = None
    duty: float | None = None
    period_s: float | None = None
    headroom_c: float | None = None
    throttled: bool | None = None


FIELDS = tuple(field.name for field in fields(NodeGpu))
"""The first axis of ``gpu_columns``."""


@dataclass(frozen=True, slots=True)
class NodeResources:
    """Holds what is known of one node. ``cpu_free_cores``: all less the p95 of what is used; ``net_free``:
    likewise a share, 0 to 1.

    ``ranks``: pods of the same job that it has; ``near_ranks``: those of its rack or block, it included.
    ``sick``: how many of its GPUs should get no more work.
    """

    name: str
    gpus: tuple[NodeGpu, ...]
    cpu_free_cores: float | None = None
    net_free: float | None = None
    ranks: int = 0
    near_ranks: int = 0
    sick: int | None = None


@dataclass(frozen=True, slots=True)
class Nodes:
    """Holds many nodes in columns, a place a node. ``gpus``: ``FIELDS`` by GPU by node, NaN where there is
    none.

    The others are the fields of ``NodeResources``.
    """

    names: Sequence[str]
    gpus: Floats
    cpu_free_cores: Floats
    net_free: Floats
    ranks: Floats
    near_ranks: Floats
    sick: Floats

    @classmethod
    def of(cls, nodes: Sequence[NodeResources]) -> "Nodes":
        """Return the same in columns."""
        gpus = np.full((len(FIELDS), max((len(node.gpus) for node in nodes), default=0), len(nodes)), np.nan)
        for place, node in enumerate(nodes):
            gpus[:, : len(node.gpus), place] = gpu_columns(node.gpus)
        return cls(
            [node.name for node in nodes],
            gpus,
            *(
                np.array([getattr(node, name) for node in nodes], dtype=np.float64)
                for name in ("cpu_free_cores", "net_free", "ranks", "near_ranks", "sick")
            ),
        )

    def of_gpus(self, field: str) -> Floats:
        """Return a field of ``NodeGpu``: a row a node, a place a GPU."""
        column: Floats = self.gpus[FIELDS.index(field)].T
        return column


def gpu_columns(gpus: Sequence[NodeGpu]) -> Floats:
    """Return ``FIELDS`` by GPU, shape (fields, GPUs)."""
    columns = np.array([[getattr(gpu, name) for gpu in gpus] for name in FIELDS], dtype=np.float64)
    return columns.reshape(len(FIELDS), len(gpus))


@dataclass(frozen=True, slots=True)
class Need:
    """Says what a pod needs: requested, and predicted from similar pods (``Prediction``).

    ``gpus``: whole ones. ``shares``: it may run beside others on one GPU. ``ranks``: pods of the whole job.
    ``gpu_mem_bytes``: of one GPU. ``duty``, ``period_s``: of its own load. ``leaves_out_sick``: nodes with a
    broken GPU are left out, else scored last; None: their health does not matter.
    """

    gpus: int
    ranks: int = 1
    shares: bool = False
    kind: str | None = None
    gpu_mem_bytes: float | None = None
    cpu_cores: float | None = None
    duty: float | None = None
    period_s: float | None = None
    leaves_out_sick: bool | None = None
