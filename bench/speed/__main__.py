"""Measures what a sample costs, and writes docs/performance.md: ``make bench``, less by ``ARGS=--quick``.

Full takes about an hour, ``--quick`` about ten minutes. Java and Maven are needed, as for the tests.
Ctrl-C ends it early; what was measured until then is written.
"""

import argparse
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.speed import measure, report
from bench.speed.cluster import GPU, PARTITIONS, ticks
from bench.speed.worker import ours, peer
from tests.support.servers.kafka import jars
from tests.support.servers.kafka.broker import OwnBroker

DOCS = Path(__file__).parents[2] / "docs"
PEERS = {"bytewax": "Bytewax 0.21", "quixstreams": "Quix Streams 3.28", "faust": "plain Faust 0.15"}


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int
    """Of the comparison with peers."""
    repeats: int
    """Of all else."""
    compared: tuple[int, int, int]
    """Nodes, seconds that are read before, seconds in all."""
    nodes: tuple[int, ...]
    scaled: tuple[int, int]
    """Seconds before, and in all, of the curves."""
    workers: tuple[int, ...]
    """Beside one, which the curve of nodes has."""
    replays: tuple[tuple[int, int], ...]
    live: tuple[int, int, int]
    """Nodes, seconds before, seconds that are measured."""


FULL = Size(
    5, 3, (50, 60, 660), (10, 50, 200, 1000), (60, 180), (2,), ((50, 240), (10, 900)), (500, 120, 180)
)
QUICK = Size(2, 1, (50, 30, 120), (10, 50, 200), (30, 60), (2,), ((50, 120), (10, 300)), (100, 30, 60))


class Progress:
    """A line for each step: what took longer than two seconds should not be silent."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, what: str, found: object = "") -> None:
        print(f"{time.monotonic() - self._began_s:6.0f} s  {what} {found}", flush=True)


def run(bench: measure.Bench, size: Size, say: Progress, results: report.Results) -> None:
    """Everything, in turns where it is compared."""
    _compare(bench, size, say, results)
    _alone(bench, size, say, results)
    _scale(bench, size, say, results)


def _compare(bench: measure.Bench, size: Size, say: Progress, results: report.Results) -> None:
    contenders = [ours(), *(peer(name, title) for name, title in PEERS.items())]
    for turn in range(size.rounds):
        found: dict[str, float] = {}
        for who in contenders:
            found[who.name] = measure.backlog(bench, who, *size.compared)
            say(f"round {turn + 1} of {size.rounds}: {who.name}", f"{found[who.name]:.0f} µs a sample")
        for name, cost in found.items():  # a round that is interrupted does not count
            results.contenders.setdefault(name, []).append(cost)


def _alone(bench: measure.Bench, size: Size, say: Progress, results: report.Results) -> None:
    def add(name: str, goal: str, value: float, unit: str) -> None:
        results.own.setdefault(name, (goal, [], unit))[1].append(value)
        say(name, f"{report.brief(value)} {unit}")

    for _ in range(size.repeats):
        for nodes, seconds in size.replays:
            path = measure.trace(bench.folder, nodes, seconds)
            cost, results.parts = measure.replay(bench, path)
            add(f"replay in process, {nodes} nodes × {seconds} s", "≤ 80", cost, "µs a record")
        add("`dutycycle stream`, start to first sample", "≤ 3", measure.start(bench), "s")
    nodes = size.live[0]
    say(f"{nodes} nodes in real time, for {sum(size.live[1:])} s")
    found = measure.live(bench, *size.live)
    say("behind at the end of it", f"{found['behind']:.0f} samples")
    add(f"real time at {2 * nodes} samples/s, CPU", "≤ 130", found["cpu_us"], "µs a sample")
    add("window records a node and second", "≤ 1.3", found["windows"], "")
    add("changelog, a series and minute", "≤ 1,000", found["changelog"], "bytes")
    add(f"memory of a worker with {nodes} nodes", "≤ 1,200 with 1,000", found["memory_mb"], "MB")
    add(f"recovery with {nodes} nodes, start to first sample", "≤ 15 with 1,000", found["recovery_s"], "s")


def _scale(bench: measure.Bench, size: Size, say: Progress, results: report.Results) -> None:
    def one(curve: dict[int, list[float]], at: int, nodes: int, workers: int) -> None:
        found = measure.backlog(bench, ours(), nodes, *size.scaled, workers)
        curve.setdefault(at, []).append(found)
        say(f"{nodes} nodes, workers: {workers}", f"{found:.0f} µs a sample")

    for _ in range(size.repeats):
        for workers in size.workers:
            one(results.workers, workers, size.compared[0], workers)
        for nodes in size.nodes:
            one(results.nodes, nodes, nodes, 1)
    results.workers = {1: results.nodes[size.compared[0]], **results.workers}


def notes(size: Size, rounds: int, *, quick: bool, cores: int, load: list[str]) -> dict[str, str]:
    """How it was run, in words."""
    measured = ["contract", "telemetry", "bus", "streams", "dutycycle"]
    git = ["git", "log", "-1", "--format=%h", "--", *measured]
    commit = subprocess.run(git, check=True, capture_output=True, text=True, cwd=DOCS.parent).stdout.strip()
    nodes, warm, seconds = size.live
    return {
        "how": f"`make bench{' ARGS=--quick' if quick else ''}`, {rounds} rounds beside the peers and "
        f"{size.repeats} of all else,",
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": f"the worker of commit {commit}",
        "kafka": kafka_version(),
        "load_before": load[0],
        "load_after": load[1],
        "bytes_a_sample": f"{len(ticks(1, 1, (GPU,))[0][0][2]) / 1000:.1f}",
        "nodes_compared": str(size.compared[0]),
        "nodes_workers": str(size.compared[0]),
        "partitions": str(PARTITIONS),
        "first": str(size.compared[1]),
        "backlog": str(size.compared[2] - size.compared[1]),
        "live_how": f"Real time is {nodes} nodes with two samples a second each, for {seconds} s after "
        f"{warm} s before, with snapshots at their default (30 s).",
        "cores": str(cores),
        "parts_of": "{} nodes × {} s".format(*size.replays[-1]),
    }


def kafka_version() -> str:
    """Apache Kafka's, by the jars of the tests."""
    jar = next(Path(jars.class_path().rpartition("/")[0]).glob("kafka-clients-*.jar"))
    return f"Apache Kafka {jar.stem.removeprefix('kafka-clients-')}"


def load_average() -> str:
    """Of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def write(results: report.Results) -> None:
    """Write the page and its pictures."""
    template = Path(__file__).with_name("performance.template.md").read_text()
    report.bars(DOCS / "pictures" / "speed_peers.png", results.contenders, "µs of CPU a sample")
    report.curves(DOCS / "pictures" / "speed_scaling.png", results)
    (DOCS / "performance.md").write_text(report.page(results, template))


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    quick = parser.parse_args().quick
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, and takes Kafka with it
    size, say = QUICK if quick else FULL, Progress()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[:-1] or cores))  # Kafka inherits this
    before = load_average()
    say("starting Kafka")
    results = report.Results()
    broker = OwnBroker()
    try:
        broker.start()
        with tempfile.TemporaryDirectory(prefix="dutycycle-bench-") as folder:
            run(measure.Bench(broker, Path(folder), cores), size, say, results)
    except KeyboardInterrupt:
        say("interrupted")
    finally:
        broker.discard()
    rounds = min(map(len, results.contenders.values()), default=0)
    results.notes = notes(size, rounds, quick=quick, cores=len(cores), load=[before, load_average()])
    write(results)
    say("written:", DOCS / "performance.md")


if __name__ == "__main__":
    main()
