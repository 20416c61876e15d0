"""The trace of a small cluster in which jobs end: pods finish, are deleted, and others take their place."""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from bench.cluster_trace import START_MS, Node, Shape
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.contract.trace import TraceRecord

DELETED_AFTER_S = 5
"""From a pod's end to its tombstone."""


@dataclass(frozen=True)
class World:
    """``nodes`` with ``gpus`` each, watched for ``seconds`` at one tick a second; a pod runs ``turn_s``."""

    nodes: int = 6
    gpus: int = 2
    seconds: int = 200
    turn_s: int = 90
    seed: int = 0


class Turn(Node):
    """A node while one pod has it; the next turn is another pod of another job."""

    def __init__(self, number: int, turn: int, world: World) -> None:
        shape = Shape(nodes=world.nodes, gpus=world.gpus, seconds=world.seconds, seed=world.seed + turn)
        super().__init__(number, shape)
        self.job += 100 * turn
        self.pod_uid = f"{turn:08d}-0000-4000-8000-{number:012d}"

    def finished(self, second: int) -> bytes:
        """The pod's identity once it has ended."""
        done = {"phase": "Succeeded", "finished_ms": START_MS + 1000 * second}
        return orjson.dumps(orjson.loads(self.pod()) | done)


def records(world: World) -> Iterator[TraceRecord]:
    """The trace, second by second. The jobs of a turn end one after the other."""
    turns = world.seconds // world.turn_s + 1
    nodes = [[Turn(number, turn, world) for turn in range(turns)] for number in range(world.nodes)]
    for second in range(world.seconds):
        for of_node in nodes:
            yield from _second(of_node, second, world.turn_s)


def _second(of_node: list[Turn], second: int, turn_s: int) -> Iterator[TraceRecord]:
    since = second + 7 * of_node[0].number  # not all at once
    now = of_node[min(since // turn_s, len(of_node) - 1)]
    turn = of_node.index(now)
    if second == 0 or (turn and since == turn * turn_s):
        if turn:
            yield record("pods", of_node[turn - 1].pod_uid, of_node[turn - 1].finished(second), second)
        yield record("pods", now.pod_uid, now.pod(), second)
    if turn and since == turn * turn_s + DELETED_AFTER_S:
        yield record("pods", of_node[turn - 1].pod_uid, None, second)
    yield record("nvml-samples", now.name, now.nvml(second), second)
    yield record("cgroup-samples", now.name, now.cgroup(second), second)


def record(topic: str, key: str, payload: bytes | None, second: float) -> TraceRecord:
    """A record of the trace; ``topic`` without prefix."""
    ts_ms = START_MS + round(1000 * second)
    return TraceRecord(topic=DEFAULT_PREFIX + topic, key=key, payload=payload, ts_ms=ts_ms)
