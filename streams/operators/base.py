"""Defines what an operator is: pure state of one key that turns records into emissions.

``streams.runtime`` owns keys, Kafka, clocks and logs. It builds one operator per key, gives it the key's
records in the order of the log, sends what comes back, and keeps the snapshot. Nothing here does I/O, so
a replay in process and a run through Kafka are the same computation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from dutycycle.contract.log import ConsumerRecord, ProducerRecord


@dataclass(frozen=True, slots=True)
class CountedEvent:
    """Names an event (``dutycycle.telemetry.events``) to count: a late tick, a duplicate."""

    event: str
    count: int = 1


Emission = ProducerRecord | CountedEvent
Snapshot = dict[str, Any]
"""Plain data that MessagePack can carry: dicts, lists, str, bytes, int, float, bool, None. Holds ``"v"``."""


class Operator(Protocol):
    """Keeps the state of one key. One that sends all at once and has no state defines ``update`` alone."""

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take the next record of the key. Raises ``contract.codec.DecodeError`` for one it cannot use,
        and is then as if the record had never come."""
        ...

    def flush(self) -> list[Emission]:
        """Return what changed since the last call, coalesced: the newest state, once per output key."""
        return []

    def close(self) -> list[Emission]:
        """Close what is open at the end of the input, then flush."""
        return self.flush()

    def unwritten(self) -> list[Emission]:
        """Return what is sent rarely and has not been sent yet, which changes nothing. It goes out with each
        state that is stored: the record after which it would be sent may never come."""
        return []

    def snapshot(self) -> Snapshot:
        """Return everything that ``build`` needs to go on as if nothing had happened."""
        return {"v": 1}


class NodeModels:
    """Runs what a user brings beside the banks of a node: here nothing (``streams.operators.models``)."""

    def add(self, tick: Any) -> list[Emission]:
        """Take a tick that is newer than the last."""
        return []

    def evaluate(self, ts_ms: int) -> list[Emission]:
        """Return forecasts and scores, as of the last tick at ``ts_ms``."""
        return []

    def retain(self, members: set[str]) -> None:
        """Forget the subjects that are not among ``members``."""

    def snapshot(self) -> Snapshot:
        """Return plain data: that of no model, which any can go on from."""
        return {"interval_ms": 0, "running": []}

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; what it has of models is forgotten."""


def no_models(_node: str, _source: str) -> NodeModels:
    """Make what a node and source of samples have without models."""
    return NodeModels()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Describes one step of the pipeline: a source topic, and how the operator of one of its keys is built.

    ``build(key, snapshot)`` goes on from a snapshot, or starts afresh with None; it raises
    ``ValueError`` for a snapshot of a version that it cannot use.

    A key that was idle for ``evict_ms`` of its partition's time (``partition_clock``) is forgotten;
    None: never. ``stateless``: the operator is built for each record, and nothing is kept of any key.
    """

    name: str
    source: str
    build: Callable[[str, Snapshot | None], Operator]
    evict_ms: int | None = None
    strides: int = 24
    """An idle key leaves after so many strides: no record moves its partition's clock by more than one."""
    confirm: int = 50_000
    """So many records in a row that are all behind by over a stride set the clock's reference back."""
    piece_bytes: int = 400_000
    """A larger state is stored in pieces."""
    stateless: bool = False

    @property
    def stride_ms(self) -> int:
        """Return the most by which one record moves the clock of its partition. Once in a stride it is looked
        for idle keys."""
        return (self.evict_ms or 0) // self.strides

    def is_idle(self, seen_ms: int, now_ms: int) -> bool:
        """Tell whether a key that was last seen at ``seen_ms`` is to be forgotten at ``now_ms``."""
        return self.evict_ms is not None and now_ms - seen_ms > self.evict_ms
