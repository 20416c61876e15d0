"""Decides which keys of a stage are idle, and what has to leave the changelog with them. Waits for nothing.

A key leaves in two phases. First its operator is closed and what it had open is sent. Then, once that has
arrived, its records are removed, and only if all records that made its state are committed: none of them can
ever be read again, into an operator that begins with nothing.
"""

from collections.abc import Collection, Mapping

from dutycycle.contract.log import ConsumerRecord, TopicPartition
from streams.operators.base import Stage
from streams.runtime.port import StreamsPort
from streams.state.codec import is_needed, pieces_of
from streams.state.partition_clock import PartitionClock
from streams.state.record import Write, clock_key, header_of, name_of, offset_of, partition_of, piece_of

AT_ONCE = 1_000
"""At most so many keys leave in one checkpoint, which would take long else; the others leave in the next."""


class Eviction:
    """Keeps the clocks of a stage's partitions, and which keys are idle: looked for once in a stride."""

    def __init__(self, stage: Stage, port: StreamsPort) -> None:
        self._stage = stage
        self._port = port
        self._clocks: dict[int, PartitionClock] = {}
        self._next_ms: dict[int, int] = {}

    def advance_clock(self, record: ConsumerRecord) -> int:
        """Move the clock of the record's partition; the time that it shows then."""
        stage, partition = self._stage, record.partition
        if stage.evict_ms is None:
            return 0
        clock = self._clocks.get(partition)
        if clock is None:
            value = self._port.load(stage.name, clock_key(partition))
            clock = PartitionClock.restored(stage.stride_ms, value, confirm=stage.confirm)
        if clock is None:  # the first time, or damaged: where the states are, so that none leaves too early
            now_ms = 0
            # Unless all is read again from the beginning: then the same time would count twice.
            if self._port.committed(TopicPartition(stage.source, partition)) > 0:
                states = self._port.states(stage.name)
                headers = (header_of(value) for key, value in states if partition_of(key) == partition)
                now_ms = max((header.seen_ms for header in headers if header is not None), default=0)
            clock = PartitionClock(stage.stride_ms, confirm=stage.confirm, now_ms=now_ms)
        self._clocks[partition] = clock
        clock.observe(record.offset, record.ts_ms)
        return clock.now_ms

    def clocks(self, partitions: Collection[int]) -> list[Write]:
        """Return the clocks of some partitions, to be stored once the states that they belong to are."""
        topic_id = self._port.topic_id(self._stage.source)
        return [
            Write(*self._clocks[partition].stored(partition, topic_id))
            for partition in partitions
            if partition in self._clocks
        ]

    @property
    def partitions(self) -> Collection[int]:
        """Return the partitions that have a clock."""
        return self._clocks.keys()

    def due(
        self, heads: Mapping[bytes, bytes], partitions: Collection[int]
    ) -> tuple[dict[tuple[int, str], list[Write]], list[Write]]:
        """Return of some partitions the keys that are idle, by partition and name, each with its tombstones;
        and those of pieces that no state needs once ``heads`` are stored, by key. ``heads`` are of all keys
        of these partitions that changed."""
        clocks = {partition: clock for partition, clock in self._clocks.items() if partition in partitions}
        if all(clock.now_ms < self._next_ms.get(partition, 0) for partition, clock in clocks.items()):
            return {}, []
        # Whichever is due, all are looked at: the states of all partitions lie in one place.
        self._next_ms |= {
            partition: clock.now_ms + self._stage.stride_ms for partition, clock in clocks.items()
        }
        evicted: dict[tuple[int, str], list[Write]] = {}
        pieces: list[Write] = []
        for key, value in list(self._port.states(self._stage.name)):
            if (clock := clocks.get(partition_of(key))) is None or len(evicted) + len(pieces) >= AT_ONCE:
                continue
            name = name_of(key)
            if name is not None and key not in heads:
                if removal := self._if_idle(key, value, clock):
                    evicted[partition_of(key), name] = removal
            elif (piece := piece_of(key)) is not None:
                head = heads.get(piece.head) or self._port.load(self._stage.name, piece.head)
                if not is_needed(piece, head):
                    pieces.append(Write(key, None, offset_of(value)))
        if len(evicted) + len(pieces) >= AT_ONCE:
            for partition in clocks:
                self._next_ms.pop(partition, None)
        return evicted, pieces

    def _if_idle(self, key: bytes, value: bytes, clock: PartitionClock) -> list[Write]:
        """Return what removes an idle state whose records are all committed; else nothing. The head goes
        first: what is left of the pieces by a crash is found, and removed, the next time."""
        header, partition = header_of(value), partition_of(key)
        seen_ms, offset = (0, -1) if header is None else (header.seen_ms, header.offset)
        if not self._stage.is_idle(seen_ms, clock.now_ms):
            return []
        if offset >= self._port.committed(TopicPartition(self._stage.source, partition)):
            self._next_ms.pop(partition, None)  # not yet: look again at the next commit
            return []
        pieces = pieces_of(key, lambda piece_key: self._port.load(self._stage.name, piece_key))
        return [Write(gone, None, offset) for gone in (key, *pieces)]

    def forget(self) -> None:
        """Forget all clocks: the partitions were handed over, or assigned anew."""
        self._clocks.clear()
        self._next_ms.clear()
