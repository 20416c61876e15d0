"""A worker with the state of many nodes: its memory, and how long the next one takes to recover."""

import signal
import time
from itertools import chain, islice

from bench.speed.bench import Bench
from bench.speed.cluster import GPU, HOST, Topics, series, stream_of
from bench.speed.worker import ours, total, working
from tests.support.processes.figures import Figures

SESSION_S = 6


def state(bench: Bench) -> None:
    """All nodes are read, the worker is killed; the next one goes on at the first sample after that."""
    nodes, seconds = bench.size.state
    bench.note("state.how", f"{nodes} nodes ({series(nodes):,} series), after {seconds} s of each")
    topics = Topics(bench.broker)
    topics.create(nodes)
    who = ours(session_timeout=SESSION_S)
    ticks = stream_of(nodes, seconds + bench.size.repeats, (GPU, HOST))
    with working(who, topics, bench.folder, bench.last, signal.SIGKILL) as worker:
        bench.say(f"state: {nodes} nodes, {series(nodes):,} series, {seconds} s of each")
        topics.fill(chain.from_iterable(islice(ticks, seconds)))
        worker.wait(lambda: worker.taken() >= 2 * nodes * seconds)
        commits = total(worker.figures(), "commits_total")
        worker.wait(lambda: total(worker.figures(), "commits_total") >= commits + 2, 1)
        bench.add("state.memory_mb", worker.memory_mb(), "MB resident")
        bench.add("state.memory_most_mb", worker.memory_mb("VmHWM"), "MB at most")
        bench.add("state.cpu_us", worker.cpu_s() / worker.taken() * 1e6, "µs of CPU a sample, start included")
    for _ in range(bench.size.repeats):
        topics.fill(next(ticks))
        time.sleep(
            SESSION_S + 1
        )  # until the group has given up the killed one: the next does not wait for it
        with working(who, topics, bench.folder, bench.last, signal.SIGKILL) as worker:
            bench.add(
                "state.recovery_s", worker.wait(lambda: worker.taken() > 0, 0.05), "s to the first sample"
            )
            bench.add("state.recovery_cpu_s", worker.cpu_s(), "s of CPU until then")
            worker.wait(lambda: _nodes_in_memory(worker.figures()) >= 2 * nodes)
            bench.add("state.recovered_mb", worker.memory_mb(), "MB resident with all of them back")
    topics.delete()


def _nodes_in_memory(figures: Figures) -> float:
    """Return how many operators of nodes a worker has. The samples that it has taken do not say so: it reads
    again what a killed one had not committed."""
    return sum(figures.get(f'live_keys{{stage="{stage}"}}', 0.0) for stage in ("nvml", "cgroup"))
