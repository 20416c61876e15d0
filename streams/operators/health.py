"""Tells whether a node's GPUs are in order: every event of them, folded into a verdict a GPU."""

from dutycycle.contract.codec import encode, from_plain, to_plain
from dutycycle.contract.health.verdict import fold
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.health import GpuEvent, GpuHealth, NodeHealth
from streams.operators.base import Emission, Operator, Snapshot
from streams.operators.columns.arrays import check_version
from streams.operators.keyed import decode_under_key

SNAPSHOT_VERSION = 1
_TOPIC = "gpu-events"
FORGET_MS = 7 * 24 * 3_600_000
"""A GPU of which nothing was said for so long is not in the node any more."""
# A collector that starts again has another name and counts from 0: the names of those before are let go.
_MOST_COLLECTORS = 4


class HealthOperator(Operator):
    """Keeps the state of one node's GPUs, by UUID."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._gpus: dict[str, GpuHealth] = {}
        self._taken: dict[str, int] = {}
        """Up to which ``seq`` events were taken, of the collectors that told some last."""
        self._changed = False

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take an event; nothing is sent before ``flush``, and a repeated one changes nothing. Raises
        ``DecodeError``."""
        event = decode_under_key(GpuEvent, record.value, _TOPIC, key=self._node, field="node")
        if event.seq <= self._taken.get(event.collector, -1):
            return []
        self._taken.pop(event.collector, None)
        self._taken[event.collector] = event.seq
        while len(self._taken) > _MOST_COLLECTORS:
            del self._taken[next(iter(self._taken))]
        self._gpus[event.gpu] = fold(self._gpus.get(event.gpu), event)
        newest_ms = max(gpu.seen_ms for gpu in self._gpus.values())
        self._gpus = {uuid: gpu for uuid, gpu in self._gpus.items() if newest_ms - gpu.seen_ms <= FORGET_MS}
        self._changed = True
        return []

    def flush(self) -> list[Emission]:
        """Return the health of all of them, if it may be another one than before."""
        if not self._changed:
            return []
        self._changed = False
        gpus = tuple(sorted(self._gpus.values(), key=lambda gpu: (gpu.index, gpu.gpu)))
        ts_ms = max(gpu.seen_ms for gpu in gpus)
        health = NodeHealth(node=self._node, ts_ms=ts_ms, gpus=gpus)
        return [ProducerRecord("gpu-health", self._node, encode(health), ts_ms)]

    def snapshot(self) -> Snapshot:
        """Return plain data."""
        return {
            "v": SNAPSHOT_VERSION,
            "gpus": [to_plain(gpu) for gpu in self._gpus.values()],
            "taken": dict(self._taken),
            "changed": self._changed,
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for one of another version."""
        check_version(plain, SNAPSHOT_VERSION, "a node's health")
        gpus = [from_plain(GpuHealth, gpu, "gpu-health") for gpu in plain["gpus"]]
        self._gpus = {gpu.gpu: gpu for gpu in gpus}
        self._taken = dict(plain["taken"])
        self._changed = plain["changed"]
