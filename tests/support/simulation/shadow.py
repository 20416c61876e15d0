"""What should come out: every record applied once, in the order of its log, by plain operators."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dutycycle.contract.codec import DecodeError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord, TopicPartition
from dutycycle.contract.records.deadletter import Reason
from streams.operators.base import CountedEvent, Emission, Operator, Stage
from streams.runtime.dead_letters import check_key_and_size, dead_letter
from streams.state.codec import to_bytes
from streams.state.partition_clock import PartitionClock
from tests.support.streams.toy import Counter as Toy

Digest = Callable[[Operator], Any]
"""A few numbers that tell one state of an operator from another; cheap."""


@dataclass(slots=True)
class Applied:
    """What one record should do: ``outs`` in order, and to its key's state; ``good`` if it changed that.
    ``unwritten``: what goes out with the state, if it is stored after this record."""

    key: str
    outs: list[ProducerRecord]
    good: bool
    digest: Any = None
    unwritten: list[ProducerRecord] = field(default_factory=list)


@dataclass(slots=True)
class Key:
    """A key of a partition. ``left`` is its last snapshot once it is idle, ``leaving`` what closes it, of
    which the first ``flushed`` would have been sent with a commit."""

    stage: Stage
    operator: Operator
    offset: int = -1
    seen_ms: int = 0
    left: bytes | None = None
    leaving: list[ProducerRecord] = field(default_factory=list)
    flushed: int = 0

    def closing(self) -> list[ProducerRecord]:
        """What has to be sent if it comes back before a commit: what closes it supersedes what was not
        sent."""
        closed = self.leaving[self.flushed :]
        newer = {(out.topic, out.key) for out in closed}
        return [out for out in self.leaving[: self.flushed] if (out.topic, out.key) not in newer] + closed

    def snapshot(self) -> bytes:
        """What should be stored of it, if anything still is."""
        return to_bytes(self.operator.snapshot()) if self.left is None else self.left


class Shadow:
    """The stages without a task. ``digests`` are by stage."""

    def __init__(self, stages: dict[str, Stage], digests: dict[str, Digest]) -> None:
        self._stages = stages
        self._digests = digests
        self._clocks: dict[TopicPartition, PartitionClock] = {}
        self.applied: dict[TopicPartition, dict[int, Applied]] = {}
        """By source and partition, then offset."""
        self.keys: dict[tuple[str, int, str], Key] = {}
        """By stage, partition and key."""
        self.gone: list[Key] = []
        """Those that were idle, and came back as new ones."""
        self.happened: Counter[tuple[str, str]] = Counter()
        """By stage and event."""

    def take(self, record: ConsumerRecord) -> tuple[Applied, list[ProducerRecord]]:
        """Apply the next record of a source; also what may now be sent for keys that have become idle."""
        stage = self._stages[record.topic]
        now_ms = self._heard(stage, record)
        leaving = list(self._leave(stage, record.partition, now_ms))
        applied = self._applied(stage, record, now_ms)
        self.applied.setdefault(record.topic_partition, {})[record.offset] = applied
        return applied, leaving

    def _heard(self, stage: Stage, record: ConsumerRecord) -> int:
        if stage.evict_ms is None:
            return 0
        fresh = PartitionClock(stage.stride_ms, confirm=stage.confirm)
        clock = self._clocks.setdefault(TopicPartition(stage.name, record.partition), fresh)
        clock.observe(record.offset, record.ts_ms)
        return clock.now_ms

    def _leave(self, stage: Stage, partition: int, now_ms: int) -> Iterator[ProducerRecord]:
        if stage.evict_ms is None:
            return
        for place, key in self.keys.items():
            mine = place[:2] == (stage.name, partition)
            if mine and key.left is None and stage.is_idle(key.seen_ms, now_ms):
                # As with each commit, before what is stored
                flushed = self._sorted(stage, key.operator.flush())
                key.left, key.flushed = key.snapshot(), len(flushed)
                key.leaving = flushed + self._sorted(stage, key.operator.close())
                yield from key.leaving

    def _applied(self, stage: Stage, record: ConsumerRecord, now_ms: int) -> Applied:
        try:
            check_key_and_size(record)
        except DecodeError as error:
            return self._refused(stage, record, error.reason, error.brief)
        place = stage.name, record.partition, record.key or ""
        known = self.keys.get(place)
        begins = known is None or known.left is not None
        key = Key(stage, stage.build(place[2], None)) if known is None or begins else known
        before = _copy(key.operator) if isinstance(key.operator, Toy) else None
        try:
            outs = self._sorted(stage, key.operator.update(record))
        except DecodeError as error:
            return self._refused(stage, record, error.reason, error.brief)
        except Exception as error:
            if before is None:
                raise
            key.operator = before
            return self._refused(stage, record, Reason.OPERATOR, f"{type(error).__name__}: {error}")
        if known is not None and begins:
            outs = known.closing() + outs
            self.gone.append(known)
        key.offset, key.seen_ms = record.offset, now_ms
        if not stage.stateless:
            self.keys[place] = key
        return Applied(
            place[2], outs, good=not stage.stateless, digest=self._digests[stage.name](key.operator),
            unwritten=self._sorted(stage, key.operator.unwritten()),
        )  # fmt: skip

    def _refused(self, stage: Stage, record: ConsumerRecord, reason: Reason, error: str) -> Applied:
        self.happened[stage.name, "dead_letter"] += 1
        return Applied(record.key or "", [dead_letter(record, reason, error)], good=False)

    def _sorted(self, stage: Stage, emissions: list[Emission]) -> list[ProducerRecord]:
        for one in emissions:
            if isinstance(one, CountedEvent):
                self.happened[stage.name, one.event] += one.count
        return [one for one in emissions if isinstance(one, ProducerRecord)]

    def flushed(self) -> Iterator[ProducerRecord]:
        """The newest of all that is sent coalesced, of every key that ever was. Call once, at the end."""
        for key in (*self.gone, *self.keys.values()):
            yield from key.leaving
            if key.left is None:
                yield from (one for one in key.operator.flush() if isinstance(one, ProducerRecord))


def _copy(toy: Toy) -> Toy:
    """A toy as it is now: it fails on purpose, and then has to be as before."""
    twin = type(toy)(toy._key, toy.snapshot())
    twin._changed = toy._changed
    return twin
