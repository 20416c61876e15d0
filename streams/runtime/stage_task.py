"""Keeps the exact state of one stage: an operator per key, and checkpoints of what has to be stored.

Nothing here waits. ``process`` applies a record. ``flush`` returns coalesced outputs. ``checkpoint`` begins
what has to be on the broker before the records processed so far may be acknowledged; ``add_state`` and
``close_idle`` complete it, and records may be processed in between. ``states_stored`` is called when the
states so far are on the broker, ``checkpoint_done`` when all is. ``CheckpointCoordinator`` sends, waits and
acknowledges.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from dutycycle.contract.codec import DecodeError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord, TopicPartition
from dutycycle.contract.records.deadletter import Reason
from dutycycle.telemetry.events import DEAD_LETTER, SAMPLE_DUPLICATE, Telemetry
from streams.operators.base import CountedEvent, Emission, Stage
from streams.runtime.dead_letters import check_key_and_size, dead_letter
from streams.runtime.events import STATE_EVICTED, STATE_LARGE, STATE_RESET, STATE_REWRITTEN, count_events
from streams.runtime.eviction import Eviction
from streams.runtime.keyed_operator import KeyedOperator, OperatorFailedError
from streams.runtime.port import StreamsPort
from streams.runtime.record_packer import RecordPacker
from streams.state.codec import Packed
from streams.state.record import Write, clock_key, offset_of, partition_of

MAX_RESIDENT = 20_000
"""How many operators without recent records stay in memory; the others are read back when one comes."""

_Key = tuple[int, str]
"""A partition of the source, and a key."""


class StateWrite(NamedTuple):
    """Holds a state to be stored. It includes the first ``covers`` of its operator's recent records."""

    operator: KeyedOperator
    covers: int
    packed: Packed


@dataclass(slots=True)
class Checkpoint:
    """Holds what a stage has to put on the broker of some partitions.

    ``done`` is the last offset processed of each when it began. It is acknowledged once all outputs,
    ``rewrites``, states and ``clocks`` are on the broker, in this order, and what is ``gone`` is removed
    from it. ``evicted`` counts the keys among that.

    ``keys`` had changed when it began. Their states are made one after another, each of its own moment. So it
    is with those that a worker leaves which is killed while it stores them: a state says which records it has
    seen, and skips these when they are read again.
    """

    partitions: Collection[int]
    keys: list[_Key]
    rewrites: list[Write]
    """Records that count, and over which a worker that was replaced has written older ones."""
    clocks: list[Write]
    """As they were when it began. After the states: a clock on the broker says that all states before it are
    there."""
    writes: list[StateWrite] = field(default_factory=list)
    """Holds states that were made and are not on the broker yet, of ``waiting_bytes``."""
    waiting_bytes: int = 0
    heads: dict[bytes, bytes] = field(default_factory=dict)
    """Holds those of all its states, by key, on the broker or not."""
    gone: list[Write] = field(default_factory=list)
    evicted: int = 0
    done: dict[int, int] = field(default_factory=dict)


class StageTask:
    """Keeps all keys of one stage that this worker was assigned. The public counts may be read by any
    thread."""

    def __init__(
        self,
        stage: Stage,
        port: StreamsPort,
        telemetry: Telemetry,
        prefix: str,
        *,
        max_resident: int = MAX_RESIDENT,
    ) -> None:
        self.stage = stage
        self._port = port
        self._telemetry = telemetry
        self._prefix = prefix
        self._max_resident = max_resident
        self._operators: dict[_Key, KeyedOperator] = {}
        self._changed: dict[_Key, KeyedOperator] = {}
        self._unflushed: dict[_Key, KeyedOperator] = {}
        self._done: dict[int, int] = {}
        self._eviction = Eviction(stage, port)
        self._packer = RecordPacker()
        self._rewrites: list[Write] = []
        self.processed = 0
        """Counts the records, whatever became of them."""
        self.used = 0
        """Counts the records that count in the results."""
        self.newest_ms: int | None = None
        """The newest timestamp since the assignment."""

    @property
    def resident(self) -> int:
        """Return how many keys have their operator in memory."""
        return len(self._operators)

    @property
    def packed_bytes(self) -> int:
        """Return how many bytes all records took so far that were kept for a rebuild."""
        return self._packer.packed_bytes

    def _source(self, partition: int) -> TopicPartition:
        return TopicPartition(self.stage.source, partition)

    def process(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Apply a record; what has to be sent for it, in order. Never raises for a bad record."""
        # Of a record that cannot be used, too: its dead letter is among what is sent for it.
        self._done[record.partition] = record.offset
        self.processed += 1
        if self.newest_ms is None or record.ts_ms > self.newest_ms:
            self.newest_ms = record.ts_ms
        now_ms = self._eviction.advance_clock(record)
        key = record.partition, record.key or ""
        try:
            check_key_and_size(record)
            if self.stage.stateless:
                emissions = self.stage.build(key[1], None).update(record)
            else:
                operator = self._operators.get(key)
                if operator is None:
                    operator = self._operators[key] = self._operator(key)
                if record.offset <= operator.offset:
                    return []  # read again after a restart: its state has it, and its outputs were sent
                emissions = operator.update(record, now_ms)
                self._changed[key] = self._unflushed[key] = operator
            self.used += not any(
                isinstance(emission, CountedEvent) and emission.event == SAMPLE_DUPLICATE.name
                for emission in emissions
            )
            return self._count_events(emissions)
        except DecodeError as error:
            reason, detail = error.reason, error.brief
        except OperatorFailedError as error:
            reason, detail = Reason.OPERATOR, str(error)
        except Exception as error:  # noqa: BLE001 - an operator that cannot even begin: the next record tries again
            self._operators.pop(key, None)
            reason, detail = Reason.OPERATOR, f"{type(error).__name__}: {error}"
        self._telemetry.emit(DEAD_LETTER, detail, topic=record.topic, reason=reason.value)
        return [dead_letter(record, reason, detail, prefix=self._prefix)]

    def is_behind_commit(self, partition: int) -> bool:
        """Tell whether more is committed of a partition than its stored states have seen, if a clock says
        that."""
        begins = self._port.begins_at(self._source(partition))
        if begins is None or self.stage.evict_ms is None:
            return False
        return 0 <= offset_of(self._port.load(self.stage.name, clock_key(partition))) < begins - 1

    def _operator(self, key: _Key) -> KeyedOperator:
        return KeyedOperator(
            self.stage, *key, lambda state_key: self._port.load(self.stage.name, state_key), self._reset,
            self._packer,
        )  # fmt: skip

    def _reset(self, detail: str) -> None:
        self._telemetry.emit(STATE_RESET, detail, stage=self.stage.name)

    def flush(self, most: int) -> list[ProducerRecord]:
        """Return coalesced outputs of keys that changed and were not flushed since, of ``most`` at most."""
        keys = list(islice(self._unflushed, most))
        return [out for key in keys for out in self._count_events(self._unflushed.pop(key).flush())]

    @property
    def unflushed(self) -> int:
        """Return how many keys have changed since they were flushed."""
        return len(self._unflushed)

    def _count_events(self, emissions: list[Emission]) -> list[ProducerRecord]:
        return count_events(emissions, self.stage.source, self._telemetry)

    def pending(self) -> dict[int, int]:
        """Return partitions that a checkpoint may find something in, and how many of their keys changed."""
        rewritten = (partition_of(rewrite.key) for rewrite in self._rewrites)
        counts = dict.fromkeys((*self._eviction.partitions, *self._done, *rewritten), 0)
        for partition, _ in self._changed:
            counts[partition] = counts.get(partition, 0) + 1
        return counts

    def checkpoint(self, partitions: Collection[int]) -> Checkpoint:
        """Begin a checkpoint of everything processed of some partitions since their last one, which the next
        one does not hold again; with the first one after a recovery all that is to be written anew."""
        done = {partition: self._done.pop(partition) for partition in partitions if partition in self._done}
        rewrites, self._rewrites = self._rewrites, []
        keys = [key for key in self._changed if key[0] in partitions]
        return Checkpoint(partitions, keys, rewrites, self._eviction.clocks(done), done=done)

    def add_state(self, checkpoint: Checkpoint, key: tuple[int, str]) -> list[ProducerRecord]:
        """Add the state of one of its keys, as it is now; outputs that have to be sent before it."""
        operator = self._changed.pop(key)
        flushed = operator.flush() if self._unflushed.pop(key, None) else []
        outs = self._count_events(flushed + operator.unwritten())
        packed = operator.packed()  # before ``recent``, which is none where the operator began anew
        checkpoint.writes.append(StateWrite(operator, operator.recent(), packed))
        checkpoint.heads.update([packed.head])
        checkpoint.waiting_bytes += sum(len(value) for _, value in (*packed.pieces, packed.head))
        if self._operators.pop(key, None) is not None:
            self._operators[key] = operator  # the least recently used ones come first
        return outs

    def close_idle(self, checkpoint: Checkpoint) -> list[ProducerRecord]:
        """Let what is idle leave with a checkpoint that has all states; the last outputs of these keys."""
        evicted, checkpoint.gone = self._eviction.due(checkpoint.heads, checkpoint.partitions)
        outs: list[ProducerRecord] = []
        for key, removal in evicted.items():
            if key in self._changed:
                continue  # it came back since the checkpoint began
            checkpoint.gone += removal
            checkpoint.evicted += 1
            try:
                # A record that comes before the key has left begins it anew.
                operator = self._operators.pop(key, None) or self._operator(key)
            except Exception as error:  # noqa: BLE001 - one key's operator is broken: the other keys go on
                self._reset(f"{key[1]}: cannot be closed: {type(error).__name__}: {error}")
                continue
            outs += self._count_events(operator.close())
        return outs

    def states_stored(self, checkpoint: Checkpoint) -> None:
        """Mirror the states that a checkpoint has had so far, and which are on the broker now."""
        for operator, covers, packed in checkpoint.writes:
            for key, value in (*packed.pieces, packed.head):
                self._port.mirror(self.stage.name, key, value)
            if packed.pieces:
                self._telemetry.emit(STATE_LARGE, f"{len(packed.pieces)} pieces", stage=self.stage.name)
            operator.stored(covers)
        checkpoint.writes.clear()
        checkpoint.waiting_bytes = 0
        if checkpoint.rewrites:
            self._port.rewritten(self.stage.name)
            self._telemetry.emit(STATE_REWRITTEN, count=len(checkpoint.rewrites), stage=self.stage.name)
            checkpoint.rewrites.clear()

    def checkpoint_done(self, checkpoint: Checkpoint) -> None:
        """Mirror what else of a checkpoint is on the broker, and acknowledge the offsets."""
        for write in (*checkpoint.clocks, *checkpoint.gone):
            self._port.mirror(self.stage.name, write.key, write.value)
        if checkpoint.evicted:
            self._telemetry.emit(STATE_EVICTED, count=checkpoint.evicted, stage=self.stage.name)
        for partition, offset in checkpoint.done.items():
            self._port.acknowledge(self._source(partition), offset)
        too_many = len(self._operators) - self._max_resident
        if too_many > 0:
            unchanged = [resident for resident in self._operators if resident not in self._changed]
            for resident in unchanged[:too_many]:
                del self._operators[resident]

    def forget(self) -> None:
        """Forget all but what is stored: the partitions were handed over, or assigned anew."""
        self._operators.clear()
        self._changed.clear()
        self._unflushed.clear()
        self._done.clear()
        self._eviction.forget()
        self._rewrites = []
        self.newest_ms = None

    def begin(self) -> None:
        """Begin with the recovered states: only they count, and what is outdated in their changelog is put
        right."""
        self.forget()
        self._rewrites = self._port.outdated(self.stage.name)
        if not self._rewrites:
            self._port.rewritten(self.stage.name)
