"""The measurements. Each begins with topics of its own and returns figures by name."""

import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from bench.cluster_trace import Shape, records
from bench.speed.cluster import GPU, HOST, Topics, series, ticks
from bench.speed.worker import Contender, Worker, all_working, cpu_until_idle, ours, total, working
from contract.trace import TraceWriter
from tests.support.servers.kafka.broker import OwnBroker

WINDOW_S = 10
SESSION_S = 6


@dataclass(frozen=True)
class Bench:
    """Where measuring is done: one core is the worker's, the others have Kafka and what feeds it."""

    broker: OwnBroker
    folder: Path
    cores: list[int]

    @property
    def last(self) -> set[int]:
        """The core of a worker that is alone."""
        return {self.cores[-1]}


def backlog(bench: Bench, who: Contender, nodes: int, first: int, seconds: int, workers: int = 1) -> float:
    """µs of CPU a sample, over a backlog of ``first`` to ``seconds`` that Kafka has before it is read.

    The worker has read the seconds before ``first`` already: its start, what it compiles and how it joins
    its group are not in the figure. It is stopped (SIGSTOP) while the backlog is written.
    """
    topics = Topics(bench.broker)
    topics.create(nodes)
    load = ticks(nodes, seconds, (GPU,))
    cores = [bench.last] if workers == 1 else [{core} for core in bench.cores[-workers:]]

    def idle(until: int) -> float:  # the last two windows stay open, for late samples
        least = nodes * who.each * (until // WINDOW_S - 2)
        return cpu_until_idle(running, lambda: topics.count("window-aggregates"), least)

    with all_working(who, topics, bench.folder, cores) as running:
        topics.fill(chain.from_iterable(load[:first]))
        idle(first)
        for worker in running:
            worker.process.send_signal(signal.SIGSTOP)
        before_s = sum(worker.cpu_s() for worker in running)
        topics.fill(chain.from_iterable(load[first:]))
        for worker in running:
            worker.process.send_signal(signal.SIGCONT)
        spent_s = idle(seconds) - before_s
    topics.delete()
    return spent_s / (nodes * (seconds - first)) * 1e6


def start(bench: Bench) -> float:
    """Seconds from the start of ``dutycycle stream`` to its first sample, without any state to read."""
    topics = Topics(bench.broker)
    topics.create(1)
    topics.fill(chain.from_iterable(ticks(1, 5, (GPU, HOST))))
    with working(ours(), topics, bench.folder, bench.last) as worker:
        found = worker.wait(lambda: worker.taken() > 0, 0.05)
    topics.delete()
    return found


def live(bench: Bench, nodes: int, warm: int, seconds: int) -> dict[str, float]:
    """Keep up with a cluster for a while; then be killed, and start again."""
    topics = Topics(bench.broker)
    topics.create(nodes)
    load = ticks(nodes, warm + seconds + 1, (GPU, HOST))
    who = ours(session_timeout=SESSION_S)
    with working(who, topics, bench.folder, bench.last, signal.SIGKILL) as worker:
        topics.fill(chain.from_iterable(load[: warm // 2]))
        worker.wait(lambda: worker.taken() >= nodes * warm)
        topics.pace(load[warm // 2 : warm])
        before = _state(worker, topics)
        topics.pace(load[warm : warm + seconds])
        after = _state(worker, topics)
        worker.wait(lambda: worker.taken() >= 2 * nodes * (warm + seconds))
        peak_mb = worker.memory_mb("VmHWM")
    gained = {name: after[name] - before[name] for name in before}
    recovered_s = _recovery(bench, who, topics, load[-1])
    topics.delete()
    return {
        "cpu_us": gained["cpu_s"] / gained["taken"] * 1e6,
        "behind": 2 * nodes * (warm + seconds) - after["taken"],
        "windows": gained["windows"] / (nodes * seconds),
        "changelog": gained["changelog"] / series(nodes) / (seconds / 60),
        "memory_mb": peak_mb,
        "recovery_s": recovered_s,
    }


def _state(worker: Worker, topics: Topics) -> dict[str, float]:
    figures = worker.figures()
    return {
        "cpu_s": worker.cpu_s(),
        "taken": worker.taken(),
        "changelog": total(figures, "snapshot_bytes_total"),
        "windows": topics.count("window-aggregates"),
    }


def _recovery(bench: Bench, who: Contender, topics: Topics, tick: list[tuple[str, str, bytes, int]]) -> float:
    topics.fill(tick)
    time.sleep(SESSION_S + 1)  # until the group has given up the killed one: the next does not wait for that
    with working(who, topics, bench.folder, bench.last) as worker:
        return worker.wait(lambda: worker.taken() > 0, 0.05)


def trace(folder: Path, nodes: int, seconds: int) -> Path:
    """A trace file of both sources."""
    path = folder / f"{nodes}-{seconds}.jsonl"
    if not path.exists():
        with TraceWriter(str(path)) as out:
            for record in records(Shape(nodes=nodes, seconds=seconds)):
                out.write(record)
    return path


def replay(bench: Bench, path: Path) -> tuple[float, dict[str, float]]:
    """µs of CPU a record without Kafka, and by part, as ``bench.parts`` prints them."""
    pinned = ["taskset", "--cpu-list", str(bench.cores[-1])]
    command = [*pinned, sys.executable, "-m", "bench.parts", str(path)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    parts = {name: float(us) for us, name in re.findall(r"^ *([\d.]+) +\d+%  (.+)$", text, re.MULTILINE)}
    whole = re.findall(r"^ *([\d.]+) +µs a record", text, re.MULTILINE)
    return float(whole[0]), parts
