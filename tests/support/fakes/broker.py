"""The broker in memory of every test that wants none of its own process: what outlives a worker.

Logs with offsets, changelogs that can be compacted, committed offsets, outputs in the order of their arrival.
"""

from binascii import crc32
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from dutycycle.contract.log import ConsumerRecord, ProducerRecord, TopicPartition
from streams.operators.base import Stage
from streams.state.fencing import ChangelogFence
from streams.state.record import Headers, partition_of
from streams.state.recovery import ChangelogReducer


class Watcher(Protocol):
    """Sees everything that changes on the broker, and objects by ``AssertionError``."""

    def appended(self, record: ConsumerRecord) -> None:
        """A record lies in a source."""

    def landed(self, out: ProducerRecord) -> None:
        """An output lies in its topic."""

    def committing(self, place: TopicPartition, before: int, offset: int) -> None:
        """A group's offset is about to move."""


@dataclass(slots=True)
class Log:
    """One partition of a source. Offsets rise, with holes."""

    offsets: list[int] = field(default_factory=list)
    records: list[ConsumerRecord] = field(default_factory=list)
    end: int = 0

    def next_from(self, offset: int) -> ConsumerRecord | None:
        """The first record at or after ``offset``."""
        at = bisect_left(self.offsets, offset)
        return self.records[at] if at < len(self.offsets) else None


class Stored(NamedTuple):
    """A record of a changelog; a tombstone has no value, and says in its headers what it removes."""

    key: bytes
    value: bytes | None
    headers: Headers
    offset: int = 0
    at_s: float = 0.0


class Changelog:
    """One partition of a stage's changelog, as a list of records in the order of their arrival."""

    def __init__(self) -> None:
        self.records: list[Stored] = []
        self.end = 0
        self._new = Table()

    @property
    def found(self) -> dict[bytes, bytes]:
        """What a new worker would find."""
        return self._new.data

    def append(self, record: Stored, now_s: float = 0.0) -> int:
        """A record has arrived; its offset."""
        placed = record._replace(offset=self.end, at_s=now_s)
        self.records.append(placed)
        self._new.read(0, placed)
        self.end += 1
        return placed.offset

    def compact(self, upto: int, *, purge_until_s: float) -> int:
        """Keep of the oldest ``upto`` records the last of each key, as Kafka does; how many are gone.

        Tombstones among them that came up to ``purge_until_s`` go as well.
        """
        last = {record.key: at for at, record in enumerate(self.records[:upto])}
        kept = [
            record for at, record in enumerate(self.records)
            if at >= upto
            or (last[record.key] == at and not (record.value is None and record.at_s <= purge_until_s))
        ]  # fmt: skip
        gone = len(self.records) - len(kept)
        self.records = kept
        self._new = Table()
        self.recover(0, self._new)
        return gone

    def replace(self, key: bytes, value: bytes) -> None:
        """Whatever lay under ``key`` is compacted away; ``value`` alone is left."""
        self.records = [record for record in self.records if record.key != key]
        self._new = Table()
        self.recover(0, self._new)
        self.append(Stored(key, value, []))

    def closed(self, until_s: float) -> int:
        """How many of the oldest records may be compacted: those up to a moment, and never the last."""
        return min(sum(record.at_s <= until_s for record in self.records), len(self.records) - 1)

    def recover(self, partition: int, table: "Table") -> None:
        """Bring what a worker knows up to date."""
        for record in self.records:
            table.read(partition, record)


class Table:
    """As much of a ``StateTable`` as its rules need: the rules themselves are the real ones."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.reducer = ChangelogReducer(self.data.get)
        self.fence = ChangelogFence()

    def read(self, partition: int, record: Stored) -> None:
        """Take over a record of the changelog."""
        self.fence.read(partition, record.offset)
        for key, value in self.reducer.read(record.key, record.value, record.headers):
            self.mirror(key, value)

    def mirror(self, key: bytes, value: bytes | None) -> None:
        """Note a value; None: it is gone."""
        if value is None:
            self.data.pop(key, None)
        else:
            self.data[key] = value


class Broker:
    """``stages`` read their sources back from it. ``partitions`` are those of every topic."""

    def __init__(self, stages: Iterable[Stage] = (), partitions: int = 1) -> None:
        self.partitions = partitions
        self.sources = {stage.source: stage for stage in stages}
        places = [TopicPartition(source, number) for source in self.sources for number in range(partitions)]
        self.logs: defaultdict[TopicPartition, Log] = defaultdict(Log, {place: Log() for place in places})
        """By source."""
        self.changelogs: dict[TopicPartition, Changelog] = defaultdict(Changelog)
        """By name of the stage."""
        self.committed: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, str] = {}
        """By source."""
        self.outputs: list[ProducerRecord] = []
        self.watchers: list[Watcher] = []
        self.listeners: list[Callable[[str], None]] = []
        """Called with the source that has news."""

    @property
    def changelog(self) -> Mapping[bytes, bytes]:
        """What new workers would find, of all stages and partitions."""
        found = (one.found for one in self.changelogs.values())
        return MappingProxyType({key: value for one in found for key, value in one.items()})

    def replace(self, stage: str, key: bytes, value: bytes) -> None:
        """Of a key of a changelog only ``value`` is left."""
        self.changelogs[TopicPartition(stage, partition_of(key))].replace(key, value)

    def partition_of(self, key: str | None) -> int:
        """Where the records of a key go."""
        return crc32((key or "").encode()) % self.partitions

    def append(self, topic: str, key: str | None, value: bytes | None, ts_ms: int) -> None:
        """A record for a source, at its end."""
        number = self.partition_of(key)
        log = self.logs[TopicPartition(topic, number)]
        record = ConsumerRecord(topic, number, log.end, key, value, ts_ms)
        log.offsets.append(log.end)
        log.records.append(record)
        log.end += 1
        for watcher in self.watchers:
            watcher.appended(record)
        for listener in self.listeners:
            listener(topic)

    def leave_hole(self, topic: str, key: str | None, many: int) -> None:
        """The next ``many`` offsets of the key's partition have no record: a transaction's marks."""
        self.logs[TopicPartition(topic, self.partition_of(key))].end += many

    def land(self, out: ProducerRecord) -> None:
        """An output has arrived."""
        self.outputs.append(out)
        for watcher in self.watchers:
            watcher.landed(out)
        if out.topic in self.sources:
            self.append(out.topic, out.key, out.value, out.ts_ms)

    def commit(self, place: TopicPartition, offset: int) -> None:
        """The group's offset, as its present owner says."""
        for watcher in self.watchers:
            watcher.committing(place, self.committed.get(place, 0), offset)
        self.committed[place] = offset

    def drained(self) -> bool:
        """Whether everything in every source is committed."""
        return all(self.committed.get(p, 0) > log.offsets[-1] for p, log in self.logs.items() if log.offsets)
