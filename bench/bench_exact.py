"""What exactness costs with the real stages: CPU, changelog, recovery and memory of one stream worker.

    python -m bench.bench_exact [--nodes 100] [--seconds 600] [--live 40] [--broker kafka://host:9092]

Without ``--broker`` it starts a Kafka of the tests. One worker reads ``--seconds`` of a training cluster of
``--nodes`` with 8 GPUs and a pod each; it is killed (SIGKILL), and the next one recovers. Then the cluster
goes on in real time, a tick a second of each node, twice with snapshots at the default interval and twice
with none, in turns. CPU is that of the process, all threads, by /proc; times by the clock are those of this
machine, busy as it is.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from bench.cluster_trace import START_MS, Node, Shape
from bus.kafka.producer import Producer
from bus.kafka.topics import ensure_topics
from contract.log import ConsumerRecord
from contract.settings.groups import Settings
from contract.topics import full_name
from streams.topology import stages
from tests.support.processes.commands import environ
from tests.support.processes.figures import Figures, Process
from tests.support.servers.kafka.broker import OwnBroker

SOURCES = {"nvml-samples": Node.nvml, "cgroup-samples": Node.cgroup}
NO_SNAPSHOTS_S, WAIT_S = 300.0, 3600.0
PARTITIONS, SESSION_S = 8, 6
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cluster:
    """Nodes that go on second by second, and where their samples go."""

    nodes: list[Node]
    broker: str
    prefix: str

    async def send(self, producer: Producer, second: int) -> None:
        """One tick of every node."""
        ts_ms = START_MS + 1000 * second
        for node in self.nodes:
            for topic, make in SOURCES.items():
                name = full_name(self.prefix, topic)
                await producer.send(name, node.name, make(node, second), ts_ms)

    async def create(self) -> None:
        """Make the topics that samples go to."""
        settings = Settings(broker=self.broker, topic_prefix=self.prefix, partitions=PARTITIONS)
        await ensure_topics(settings, list(SOURCES))

    async def fill(self, seconds: range, *, paced: bool = False) -> None:
        """Send so many seconds, as fast as it goes or as time goes by."""
        producer = Producer(Settings(broker=self.broker, topic_prefix=self.prefix), "bench")
        await producer.start()
        began_s = time.monotonic()
        for second in seconds:
            await self.send(producer, second)
            if paced:
                await asyncio.sleep(max(0.0, began_s + second - seconds.start + 1 - time.monotonic()))
        await producer.stop(600)

    def series(self) -> int:
        """How many series these nodes have, by the operators' own count."""
        built = {one.source: one.build for one in stages(Settings())}
        count = 0
        for topic, make in SOURCES.items():
            node = Node(0, Shape(nodes=1))
            operator = built[topic](node.name, None)
            operator.update(ConsumerRecord(topic, 0, 0, node.name, make(node, 0), START_MS))
            count += len(operator.snapshot()["series"])
        return count * len(self.nodes)


class Worker:
    """A ``dutycycle stream``, with what it cost so far."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, began_s: float) -> None:
        self.process = process
        self.log = log
        self.began_s = began_s
        self.said = Process(log)

    def cpu_s(self) -> float:
        """CPU time of all threads since the start."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

    def figures(self) -> Figures:
        """What it says of itself now."""
        return self.said.figures()

    def wait(self, until: Callable[[Figures], bool]) -> Figures:
        """Look ten times a second until its figures are so."""
        end_s = time.monotonic() + WAIT_S
        while not until(found := self.figures()):
            if self.process.poll() is not None or time.monotonic() > end_s:
                sys.exit(f"the worker ended, or took too long:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)
        return found


@contextmanager
def working(cluster: Cluster, folder: Path, interval_s: float, end: signal.Signals) -> Iterator[Worker]:
    """A worker, ended by ``end``."""
    env = environ(broker=cluster.broker, topic_prefix=cluster.prefix, partitions=str(PARTITIONS),
                  snapshot_interval=f"{interval_s:g}s", session_timeout=f"{SESSION_S}s")  # fmt: skip
    log = folder / f"{uuid.uuid4().hex}.log"
    began_s = time.monotonic()
    with log.open("wb") as out:
        command = [sys.executable, "-m", "dutycycle", "stream"]
        process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield Worker(process, log, began_s)
    finally:
        process.send_signal(end)
        process.wait(60)


def total(figures: Figures, name: str) -> float:
    """A figure over all its labels."""
    return sum(value for one, value in figures.items() if one.split("{")[0] == name)


def taken(figures: Figures) -> float:
    """Samples read, of all nodes."""
    return sum(figures[f'records_taken_total{{topic="{topic}"}}'] for topic in SOURCES)


def catch_up(cluster: Cluster, folder: Path, seconds: int) -> None:
    """Read a backlog, and be killed."""
    asyncio.run(cluster.create())
    asyncio.run(cluster.fill(range(seconds)))
    samples = seconds * len(cluster.nodes) * len(SOURCES)
    with working(cluster, folder, Settings().snapshot_interval, signal.SIGKILL) as worker:
        figures = worker.wait(lambda now: taken(now) >= samples)
        cpu_s, wall_s = worker.cpu_s(), time.monotonic() - worker.began_s
        worker.wait(lambda now: total(now, "commits_total") >= total(figures, "commits_total") + 2)
        figures = worker.figures()
        print(f"backlog      {samples} samples: {cpu_s / samples * 1e6:.0f} µs of CPU each, start and peaks "
              f"included; {wall_s:.0f} s by the clock, {worker.memory_mb():.0f} MB")  # fmt: skip
        states, size = total(figures, "snapshots_total"), total(figures, "snapshot_bytes_total")
        print(f"             {total(figures, 'commits_total'):.0f} commits, {states:.0f} states stored, "
              f"{size / 1e6:.0f} MB of changelog")  # fmt: skip


def recover(cluster: Cluster, folder: Path, second: int) -> None:
    """Start where the killed one was, with one more tick of each node to be read."""
    asyncio.run(cluster.fill(range(second, second + 1)))
    time.sleep(SESSION_S + 1)  # until the group has given up the killed one: the next does not wait for that
    with working(cluster, folder, Settings().snapshot_interval, signal.SIGTERM) as worker:
        figures = worker.wait(lambda now: taken(now) > 0)
        wall_s, cpu_s = time.monotonic() - worker.began_s, worker.cpu_s()
        print(f"recovery     {wall_s:.1f} s from the start of the process to its first sample ({cpu_s:.1f} s "
              f"of CPU), of that {total(figures, 'recovery_seconds'):.1f} s from the changelogs")  # fmt: skip
        worker.wait(lambda now: taken(now) >= len(cluster.nodes) * len(SOURCES))
        print(f"             {worker.memory_mb():.0f} MB with all {cluster.series()} series in memory")


@dataclass(frozen=True)
class Spent:
    """Of some seconds in real time."""

    cpu_us: float
    """Per sample."""
    bytes_: float
    """Of changelog, per second."""
    states: float
    bytes_a_state: float


def live(cluster: Cluster, folder: Path, seconds: range, interval_s: float) -> Spent:
    """Keep up with the cluster for a while."""
    with working(cluster, folder, interval_s, signal.SIGTERM) as worker:
        asyncio.run(cluster.fill(seconds[:5]))  # so that every operator is back in memory
        each = len(cluster.nodes) * len(SOURCES)
        worker.wait(lambda now: taken(now) >= 5 * each)
        time.sleep(2 * min(interval_s, Settings().snapshot_interval))
        before, cpu_s = worker.figures(), worker.cpu_s()
        asyncio.run(cluster.fill(seconds[5:], paced=True))
        after = worker.wait(lambda now: taken(now) >= len(seconds) * each)
        samples = taken(after) - taken(before)
        grown = {name: total(after, name) - total(before, name) for name in
                 ("snapshots_total", "snapshot_bytes_total")}  # fmt: skip
        states, size = grown["snapshots_total"], grown["snapshot_bytes_total"]
        cpu_us = (worker.cpu_s() - cpu_s) / samples * 1e6
        return Spent(cpu_us, size / (len(seconds) - 5), states, size / max(states, 1))


def in_turns(cluster: Cluster, folder: Path, first: int, seconds: int) -> None:
    """With snapshots and without, twice each."""
    spent: dict[float, list[Spent]] = {Settings().snapshot_interval: [], NO_SNAPSHOTS_S: []}
    for interval_s in [*spent, *spent]:
        period, first = range(first, first + seconds), first + seconds
        spent[interval_s].append(live(cluster, folder, period, interval_s))
    with_, without = spent.values()
    ratio = mean(one.cpu_us for one in with_) / mean(one.cpu_us for one in without)
    for name, found in (("with", with_), ("without", without)):
        each = " and ".join(f"{one.cpu_us:.0f}" for one in found)
        print(f"live         {name:8s} snapshots: {each} µs of CPU a sample")
    a_minute = mean(one.bytes_ for one in with_) * 60
    print(f"             {ratio:.2f} times; {a_minute / 1e6:.1f} MB of changelog a minute, "
          f"{a_minute / cluster.series() / 1e3:.2f} kB a series and minute, "
          f"{mean(one.bytes_a_state for one in with_) / 1e3:.1f} kB a state")  # fmt: skip


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--live", type=int, default=40)
    parser.add_argument("--broker")
    options = parser.parse_args()
    own = None if options.broker else OwnBroker()
    try:
        if own is not None:
            own.start()
        shape = Shape(nodes=options.nodes)
        nodes = [Node(number, shape) for number in range(options.nodes)]
        broker = options.broker or own.url if own else options.broker
        cluster = Cluster(nodes, broker, f"bench-{uuid.uuid4().hex[:8]}.")
        print(f"{len(nodes)} nodes with 8 GPUs and a pod each, {cluster.series()} series")
        with tempfile.TemporaryDirectory() as folder:
            catch_up(cluster, Path(folder), options.seconds)
            recover(cluster, Path(folder), options.seconds)
            in_turns(cluster, Path(folder), options.seconds + 1, options.live)
    finally:
        if own is not None:
            own.discard()


if __name__ == "__main__":
    main()
