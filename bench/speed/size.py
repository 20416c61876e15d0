"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BenchSize:
    """All that is smaller with ``--quick``."""

    rounds: int
    """Of the comparison with peers."""
    repeats: int
    """Of what is measured more than once, else."""
    curves: int
    """How often a curve is measured."""
    compared: tuple[int, int, int]
    """Nodes, seconds that are read before, seconds in all."""
    nodes: tuple[int, ...]
    """Of the curve."""
    scaled: tuple[int, int, int]
    """Of the curves: seconds before; seconds that are measured, and samples, at least."""
    workers: tuple[int, ...]
    """Beside one, which the curve of nodes has."""
    replays: tuple[tuple[int, int], ...] = ((50, 240), (10, 900))
    live: tuple[int, int, int] = (500, 60, 120)
    """Nodes, seconds before, seconds that are measured. A node sends two samples a second."""
    exact: tuple[int, int, int] = (500, 20, 40)
    """Gives the same for the row without snapshots."""
    fleet: tuple[int, int, int, int] = (250, 2000, 60, 300)
    """Nodes of a fleet that is extrapolated, and of the one that is measured beside it; the seconds of
    ``live``, the same of both, as states grow with time."""
    state: tuple[int, int] = (1000, 240)
    """Nodes, and the seconds that they were seen before the worker is killed."""
    collector_s: tuple[int, int] = (10, 60)
    """Before, and measured."""
    peak_records: int = 40_000
    """Of as many pods, after as many before."""
    pods: tuple[int, int] = (2_000, 1_800)
    """Pods, and seconds of simulated time after a warm-up of as long: what pods need grows in the first
    half hour."""
    objects: int = 2_000
    """Pods on a real API server."""
    web: tuple[int, int, int] = (50_000, 600, 120)
    """Ended jobs; seconds after which memory is looked at; seconds without, and with, an open page."""
    compiles: bool = True
    """Whether the loops are compiled once more."""


FULL = BenchSize(
    rounds=3, repeats=3, curves=1, compared=(50, 60, 360), nodes=(10, 50, 200, 1000), scaled=(30, 60, 8_000),
    workers=(2, 4),
)  # fmt: skip
QUICK = BenchSize(
    rounds=1, repeats=1, curves=1, compared=(50, 30, 120),
    nodes=(50, 200), scaled=(30, 30, 4_000), workers=(2,),
    replays=((50, 60), (10, 300)), live=(500, 20, 60), exact=(500, 10, 15), state=(1000, 60),
    fleet=(100, 800, 20, 30), collector_s=(3, 15), peak_records=10_000, pods=(500, 1_800), objects=500,
    web=(50_000, 120, 30),
    compiles=False,
)  # fmt: skip
