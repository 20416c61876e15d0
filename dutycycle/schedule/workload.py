"""Describes what is simulated: jobs that arrive, and the nodes that they run on."""

from collections.abc import Sequence
from dataclasses import dataclass

from sinks.scheduling.core.similar import Template

WHOLE = 1000
"""A whole GPU, in thousandths."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Says what a job needs: ``pods``, all at once, each on one node.

    ``gpu_milli``: of each pod, in thousandths of a GPU; above 1000 a multiple of it. ``models``: any of
    these, or none named.
    """

    pods: int
    gpu_milli: int
    cpu_cores: float
    mem_gib: float
    models: frozenset[str] = frozenset()

    @property
    def gpus(self) -> float:
        """Return the GPUs of all its pods, in parts of one."""
        return self.pods * self.gpu_milli / WHOLE


@dataclass(frozen=True, slots=True)
class TraceJob:
    """Describes one job. Times are seconds since the beginning of the trace. ``user_class``: high, low or
    nothing."""

    name: str
    arrival_s: float
    duration_s: float
    demand: Demand
    template: Template
    team: str = ""
    user_class: str = ""


@dataclass(frozen=True, slots=True)
class TraceNode:
    """Describes one node."""

    name: str
    gpus: int
    cpu_cores: float
    mem_gib: float
    model: str = ""


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Holds ``jobs`` in order of arrival. ``left_out``: jobs that do not fit even if all is empty."""

    jobs: Sequence[TraceJob]
    machines: Sequence[TraceNode]
    left_out: int = 0
