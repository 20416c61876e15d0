"""The goals, and whether what was measured meets them."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.speed.figures import Figures
from bench.speed.worker import SAME_WORK

Values = list[float]


@dataclass(frozen=True)
class Goal:
    """A goal. ``beyond`` is what a figure is pushed to that meets it easily."""

    title: str
    unit: str
    values: Callable[[Figures], Values]
    goal: float
    beyond: float | None = None
    at_least: bool = False

    def meets(self, value: float, bound: float) -> bool:
        """Whether a value is on the right side of a bound."""
        return value >= bound if self.at_least else value <= bound

    def verdict(self, values: Values) -> str:
        """In words: met, or by how much not."""
        if not values:
            return "not measured"
        value = median(values)
        if self.beyond is not None and self.meets(value, self.beyond):
            return "beyond"
        if self.meets(value, self.goal):
            return "met"
        return f"**missed**: {value / self.goal:.2f} times the goal"


def ratio(ours: Values, theirs: Values) -> Values:
    """Within a round: what else runs on the machine then weighs on both."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def _of(name: str) -> Callable[[Figures], Values]:
    return lambda figures: figures.get(name)


def _to_bytewax(figures: Figures) -> Values:
    theirs = next((found for name, found in figures.of("peers").items() if name.startswith("Bytewax")), [])
    return ratio(figures.get("peers.Dutycycle"), theirs)


def _to_best_peer(figures: Figures) -> Values:
    """Ours with the work of a peer, against the best of them in each round."""
    contenders = figures.of("peers")
    ours = contenders.get(SAME_WORK, [])
    peers = [
        rounds
        for name, rounds in contenders.items()
        if not name.startswith("Dutycycle") and len(rounds) == len(ours)
    ]
    return ratio(ours, [min(of_round) for of_round in zip(*peers, strict=True)]) if peers else []


def _replay(nodes: int) -> Callable[[Figures], Values]:
    return lambda figures: next(
        (found for name, found in figures.of("replay").items() if name.startswith(f"{nodes} nodes")), []
    )


def _of_workers(figures: Figures) -> Values:
    curves = figures.of("scaling")
    most = max(
        (int(name.removeprefix("workers.")) for name in curves if name.startswith("workers.")), default=0
    )
    return ratio(curves[f"workers.{most}"], curves["nodes.50"]) if most else []


_CPU = "µs of CPU a sample"
ROWS = (
    Goal("stream worker, backlog", _CPU, _of("peers.Dutycycle"), 100, 50),
    Goal("stream worker, real time at 1,000 samples/s", _CPU, _of("live.cpu_us"), 130, 70),
    Goal("backlog with everything on, against Bytewax doing only windows", "times", _to_bytewax, 1.2, 0.8),
    Goal("backlog, windows alone, against the best peer", "times", _to_best_peer, 0.6, 0.4),
    Goal("replay in process, 50 nodes", "µs a record", _replay(50), 80, 40),
    Goal("replay in process, 10 nodes for longer", "µs a record", _replay(10), 80, 40),
    Goal("window records a node and second", "", _of("live.windows"), 1.3),
    Goal("memory of a worker with 1,000 nodes, at most", "MB", _of("state.memory_most_mb"), 800, 600),
    Goal("changelog, a series and minute", "bytes", _of("live.changelog"), 1000, 300),
    Goal("recovery with 1,000 nodes, start to first sample", "s", _of("state.recovery_s"), 15, 5),
    Goal("sample to result, p99 at 1,000 samples/s", "ms", _of("live.p99_ms"), 150, 100),
    Goal("`dutycycle stream`, start to first sample", "s", _of("start.stream_s"), 1.5),
    Goal("`dutycycle up`, start to first screen", "s", _of("start.screen_s"), 2),
    Goal("collector, 8 GPUs and 100 pods at 1 Hz, CPU", "% of a core", _of("collector.cpu_pct"), 1, 0.5),
    Goal("the same, memory", "MB", _of("collector.memory_mb"), 60, 40),
    Goal("the same, p99 of a tick", "ms", _of("collector.tick_p99_ms"), 15),
    Goal("peaks into PostgreSQL", "records/s", _of("postgres.records_per_s"), 5000, at_least=True),
    Goal("annotations of 10,000 pods kept fresh", "PATCH/s", _of("annotations.patches_per_s"), 50),
    Goal("page for browsers, 10,000 GPUs and 50,000 ended jobs: the first", "s", _of("web.first_s"), 1),
    Goal("the same, an open page", "% of a core", _of("web.open_pct"), 2),
    Goal("the same, memory after ten minutes", "MB", _of("web.memory_mb"), 200),
    Goal("CPU a sample with more workers, against one", "times", _of_workers, 1.1),
)
"""As in the table of the goals, in its order."""
