"""A backlog through Kafka: beside the peers, and by how many nodes and workers there are."""

import signal
from dataclasses import replace
from itertools import chain

from bench.speed.bench import Bench
from bench.speed.cluster import GPU, PARTITIONS, Topics, ticks
from bench.speed.truth import Truth, WrongResultsError, truth
from bench.speed.worker import COMMIT_S, Contender, all_working, cpu_until_done, ours, peer

PEERS = {
    "bytewax": "Bytewax 0.21", "quixstreams": "Quix Streams 3.28", "faust": "plain Faust 0.15",
    "pathway": "Pathway 0.33",
}  # fmt: skip
"""Folder in ``bench/peers``, and how it is called."""


def compare(bench: Bench) -> None:
    """Ours, with all and with the work of a peer, and each peer in turns.

    A round that is interrupted does not count. A peer whose windows are wrong has no figure, and the page
    says why.
    """
    contenders = [
        ours(f"{COMMIT_S}s"),
        ours(f"{COMMIT_S}s", as_peer=True),
        *(peer(name, title) for name, title in PEERS.items()),
    ]
    nodes, first, seconds = bench.size.compared
    right = truth(sample[2] for tick in ticks(nodes, seconds, (GPU,)) for sample in tick)
    kilobytes = len(ticks(nodes, seconds, (GPU,))[0][0][2]) / 1000
    bench.note(
        "peers.how",
        f"{nodes} nodes send a sample of 8 GPUs ({kilobytes:.1f} kB of JSON) a second, {PARTITIONS} "
        f"partitions; {first} s are read before, {seconds - first} s are the backlog "
        f"({nodes * (seconds - first):,} samples); {bench.size.rounds} rounds",
    )
    left_out: dict[str, str] = {}
    for turn in range(bench.size.rounds):
        found: dict[str, float] = {}
        for who in contenders:
            if who.name in left_out:
                continue
            try:
                found[who.name] = backlog(bench, who, *bench.size.compared, right=right)
            except WrongResultsError as error:
                if who.name not in PEERS.values():
                    raise
                bench.say(f"!! {who.name} is left out:", error)
                left_out[who.name] = str(error)
                bench.figures.values.pop(f"peers.{who.name}", None)
                continue
            bench.say(
                f"round {turn + 1} of {bench.size.rounds}: {who.name}", f"{found[who.name]:.0f} µs a sample"
            )
        for name, cost in found.items():
            bench.figures.add(f"peers.{name}", cost)
    bench.note("left_out.how", "; ".join(left_out.values()) or "nobody")


def scale(bench: Bench) -> None:
    """Cost a sample by nodes, and by workers, until all results are there: a commit is for more samples."""
    who, nodes = replace(ours(), group=None), bench.size.compared[0]
    first, least, samples = bench.size.scaled
    bench.note(
        "scaling.how",
        f"at least {least} s and {samples:,} samples, after {first} s before; {bench.size.curves} times",
    )
    for _ in range(bench.size.curves):
        for workers in bench.size.workers:
            seconds = first + max(least, samples // nodes)
            cost = backlog(bench, who, nodes, first, seconds, workers=workers)
            bench.add(f"scaling.workers.{workers}", cost, "µs a sample")
        for count in bench.size.nodes:
            cost = backlog(bench, who, count, first, first + max(least, samples // count))
            bench.add(f"scaling.nodes.{count}", cost, "µs a sample")


def backlog(
    bench: Bench,
    who: Contender,
    nodes: int,
    first: int,
    seconds: int,
    *,
    workers: int = 1,
    right: Truth | None = None,
) -> float:
    """µs of CPU a sample, over a backlog of ``first`` to ``seconds`` that Kafka has before it is read.

    The worker has read the seconds before ``first`` already: its start, what it compiles and how it joins
    its group are not in the figure. It is stopped (SIGSTOP) while the backlog is written. Raises
    ``WrongResultsError`` where the windows are not those of ``right``.
    """
    topics = Topics(bench.broker, who.partitions)
    topics.create(nodes)
    load = ticks(nodes, seconds, (GPU,))
    cores = [{bench.cores[-1 - number % len(bench.cores)]} for number in range(workers)]
    with all_working(who, topics, bench.folder, cores) as running:
        topics.fill(chain.from_iterable(load[:first]))
        cpu_until_done(running, who, topics, nodes, first)
        for worker in running:
            worker.process.send_signal(signal.SIGSTOP)
        before_s = sum(worker.cpu_s() for worker in running)
        topics.fill(chain.from_iterable(load[first:]))
        for worker in running:
            worker.process.send_signal(signal.SIGCONT)
        spent_s = cpu_until_done(running, who, topics, nodes, seconds) - before_s
    if right is not None:
        right.verify(who.name, who.windows(topics.values("window-aggregates")), who.late_s)
    topics.delete()
    return spent_s / (nodes * (seconds - first)) * 1e6
