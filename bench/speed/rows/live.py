"""A worker that keeps up with a cluster in real time: CPU, results, changelog, latency."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import quantiles

import cramjam
import orjson
from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from bench.speed.bench import Bench
from bench.speed.cluster import GPU, HOST, Sent, Topics, series, stream_of, ticks
from bench.speed.truth import LATENESS_S, WrongResultsError
from bench.speed.worker import Contender, Worker, ours, total, working
from dutycycle.contract.topics import TOPICS

_FLEET_GPUS = 2
_NO_SNAPSHOTS = "300s"
_STARTS_S = 10
"""Nodes begin one after another in so many seconds: nobody starts all collectors of a cluster in the same
one. What is evaluated every ten seconds from a node's first tick on is spread as in a cluster then."""
_OF_SOURCE = {"nvml": GPU, "cgroup": HOST}


class Arrivals(threading.Thread):
    """Reads ``window-aggregates`` as it grows, and keeps when each record came."""

    def __init__(self, topics: Topics) -> None:
        super().__init__(daemon=True)
        self.records: list[tuple[float, bytes]] = []
        self._consumer = Consumer(
            {"bootstrap.servers": topics.broker.bootstrap, "group.id": "bench", "log_level": 0}
        )
        name = topics.name("window-aggregates")
        self._consumer.assign(
            [TopicPartition(name, number, OFFSET_END) for number in range(topics.partitions)]
        )
        self._done = threading.Event()

    def run(self) -> None:
        """Until the block ends."""
        while not self._done.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.records.append((time.monotonic(), message.value() or b""))

    def __enter__(self) -> "Arrivals":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()
        self._consumer.close()


def latencies_ms(arrivals: Sequence[tuple[float, bytes]], sent_s: Mapping[Sent, float]) -> Iterator[float]:
    """From the moment when the sample was sent that closed a window, to the window's arrival."""
    for arrived_s, value in arrivals:
        record = orjson.loads(value)
        closing_ms = record["end_ms"] + 1000 * LATENESS_S
        key = (_OF_SOURCE[record["source"]], record["subject"]["node"], closing_ms)
        if key in sent_s:
            yield 1000 * (arrived_s - sent_s[key])


def live(bench: Bench) -> None:
    """Everything on, snapshots at their default; a node sends two samples a second."""
    nodes, warm, seconds = bench.size.live
    bench.note(
        "live.how",
        f"{nodes} nodes with two samples a second each, which begin in {_STARTS_S} different seconds, for "
        f"{seconds} s after {warm} s before",
    )
    gained, found = _keep_up(bench, ours(), bench.size.live)
    centiles = quantiles(found, n=100)
    bench.add("live.behind", gained["behind"], "samples behind at the end")
    bench.add("live.cpu_us", gained["cpu_s"] / gained["taken"] * 1e6, "µs of CPU a sample")
    bench.add("live.windows", gained["records.window-aggregates"] / (nodes * seconds), "a node and second")
    bench.add(
        "live.changelog", gained["changelog"] / series(nodes) / (seconds / 60), "bytes a series and minute"
    )
    bench.add("live.p50_ms", centiles[49], f"ms, of {len(found)} windows")
    bench.add("live.p99_ms", centiles[98], "ms")
    for topic, _, payload, _ in next(stream_of(1, 1, (GPU, HOST))):
        bench.figures.add(f"live.sample_bytes.{topic}", len(payload))
        bench.figures.add(f"live.sent_bytes.{topic}", len(bytes(cramjam.zstd.compress(payload))))
    for name, value in gained.items():
        if name.startswith(("records.", "bytes.", "changelog")) and value:
            bench.figures.add(f"live.a_node.{name}", value / (nodes * seconds))


def exact(bench: Bench) -> None:
    """Measure real time without snapshots: the first would come after the end."""
    gained, _ = _keep_up(bench, ours(_NO_SNAPSHOTS), bench.size.exact)
    bench.add("exact.cpu_us", gained["cpu_s"] / gained["taken"] * 1e6, "µs of CPU a sample")


def fleet(bench: Bench) -> None:
    """Check docs/scale.md: what a large fleet takes, worked out from a small one, beside what is measured."""
    small, large, warm, seconds = bench.size.fleet
    bench.note(
        "fleet.how",
        f"One worker on one core, a tick a second in real time: {large:,} nodes, and what {small:,} nodes "
        f"take, times {large / small:g}; both for {seconds} s, {warm} s after the first tick. Nodes have "
        f"{_FLEET_GPUS} GPUs here: one core does not carry {large:,} nodes with 8. Memory is that of a "
        "worker which has read one node, and what the others add.",
    )
    few, many = (_rates(bench, (nodes, warm, seconds)) for nodes in (small, large))
    base = {"memory_mb": few.pop("alone_mb")}
    for name, value in few.items():
        start = base.get(name, 0)
        bench.add(f"fleet.predicted.{name}", start + (value - start) * large / small)
        bench.add(f"fleet.measured.{name}", many[name])


def _rates(bench: Bench, size: tuple[int, int, int]) -> dict[str, float]:
    """Measure what a fleet takes a second, and its memory."""
    nodes, _, seconds = size
    gained, _ = _keep_up(bench, ours(), size, _FLEET_GPUS)
    if gained["behind"] > 2 * nodes:
        raise WrongResultsError(f"{nodes} nodes are too many: {gained['behind']:.0f} samples behind")
    growing = [
        name for name, topic in TOPICS.items() if topic.cleanup == "delete" and name not in (GPU, HOST)
    ]
    return {
        "cpu_pct": 100 * gained["cpu_s"] / seconds,
        "records_per_s": sum(gained.get(f"records.{name}", 0) for name in set(TOPICS) - {GPU, HOST})
        / seconds,
        "sent_kb_s": sum(gained.get(f"bytes.{name}", 0) for name in growing) / seconds / 1000,
        "changelog_kb_s": gained["changelog"] / seconds / 1000,
        "memory_mb": gained["memory_mb"],
        "alone_mb": gained["alone_mb"],
    }


def _keep_up(
    bench: Bench, who: Contender, size: tuple[int, int, int], gpus: int = 8
) -> tuple[dict[str, float], list[float]]:
    """What the measured seconds brought, and the latencies of all windows in milliseconds."""
    nodes, warm, seconds = size
    topics = Topics(bench.broker)
    topics.create(nodes)
    load = [
        [sample for number, sample in enumerate(tick) if number // 2 % _STARTS_S <= second]
        for second, tick in enumerate(ticks(nodes, warm + seconds, (GPU, HOST), gpus))
    ]
    sent = sum(map(len, load))
    with working(who, topics, bench.folder, bench.last) as worker:
        topics.fill(load[0][:2])
        worker.wait(lambda: worker.taken() >= 2)
        alone_mb = worker.memory_mb()
        topics.fill([*load[0][2:], *chain.from_iterable(load[1 : warm // 2])])
        worker.wait(lambda: worker.taken() >= sum(map(len, load[: warm // 2])))
        bench.say(f"{nodes} nodes in real time, for {warm // 2 + seconds} s")
        topics.pace(load[warm // 2 : warm])
        with Arrivals(topics) as arrivals:
            before = _state(worker, topics)
            sent_s = topics.pace(load[warm:])
            after = _state(worker, topics)
            worker.wait(lambda: worker.taken() >= sent)
            time.sleep(1)
        memory_mb = worker.memory_mb()
    topics.delete()
    gained = {name: after[name] - before[name] for name in before}
    gained |= {"alone_mb": alone_mb, "memory_mb": memory_mb}
    gained["behind"] = sent - after["taken"]
    return gained, list(latencies_ms(arrivals.records, sent_s))


def _state(worker: Worker, topics: Topics) -> dict[str, float]:
    figures, there = worker.figures(), topics.existing()
    return {
        "cpu_s": worker.cpu_s(),
        "taken": worker.taken(),
        "changelog": total(figures, "snapshot_bytes_total"),
        **{f"records.{name}": topics.count(name) for name in there},
        **{f"bytes.{name}": topics.stored_bytes(name) for name in there},
    }
