"""Is the streams' port on Faust: state in tables whose changelogs the coordinator writes itself."""

from asyncio import Future
from collections.abc import Iterable, Mapping
from typing import Any

import faust

from dutycycle.contract.log import ProducerRecord, TopicPartition, key_bytes
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.faust.app import ExactApp, raw_topic
from dutycycle.kafka.faust.offsets import ends
from dutycycle.kafka.faust.port import FaustPort
from streams.names import changelog_name
from streams.state.fencing import ChangelogFence
from streams.state.record import Write, clock_key, offset_of, partition_of, tombstone_headers
from streams.state.recovery import ChangelogReducer


class StateTable(faust.Table[bytes, bytes]):
    """Is a table that Faust fills from its changelog, and that nobody writes by Faust's own way.

    Which of its records count says ``reducer``; whether others write into it, ``fence``.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.reducer = ChangelogReducer(self.stored)
        self.fence = ChangelogFence()

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Take over changelog records, in order."""
        for event in batch:
            message = event.message
            self.fence.read(message.partition, message.offset)
            for key, value in self.reducer.read(message.key or b"", message.value, message.headers or []):
                self.mirror(key, value)

    def stored(self, key: bytes) -> bytes | None:
        """Return the value of ``key`` that the changelog is known to hold."""
        store: Any = self.data
        value: bytes | None = store.data.get(key)
        return value

    def mirror(self, key: bytes, value: bytes | None) -> None:
        """Note what was written to the changelog; None is a tombstone."""
        store: Any = self.data
        if value is None:
            store.data.pop(key, None)
            store._key_partition.pop(key, None)
        else:
            store.data[key] = value
            store._key_partition[key] = partition_of(key)

    def seen_to(self, partition: int) -> int:
        """Return the offset after the last record of the source that a partition's states have seen; 0 for
        none."""
        read = offset_of(self.stored(clock_key(partition))) + 1
        if read == 0:  # no clock, or a damaged one
            states = (offset_of(value) for key, value in self.everything() if partition_of(key) == partition)
            read = max(states, default=-1) + 1
        return read

    def discard(self, partition: int) -> None:
        """Forget the states of a partition, which are of another log than the one that it has now."""
        for key in self.reducer.discard(partition):
            self.mirror(key, None)

    def everything(self) -> Iterable[tuple[bytes, bytes]]:
        """Return all keys and values that the changelog is known to hold."""
        store: Any = self.data
        items: Iterable[tuple[bytes, bytes]] = store.data.items()
        return items


def add_table(app: ExactApp, name: str, changelog: str, partitions: int) -> StateTable:
    """Give ``app`` the table ``name`` on the topic ``changelog``."""
    topic = raw_topic(app, changelog, acks=False, internal=True, compacting=True, partitions=partitions,
                      maxsize=131_072)  # fmt: skip
    table = StateTable(
        app, name=name, key_type=bytes, value_type=bytes, partitions=partitions, changelog_topic=topic
    )
    app.tables.add(table)
    return table


class FaustStreamsPort(FaustPort):
    """Implements ``StreamsPort``, which says what each method promises."""

    def __init__(
        self,
        app: ExactApp,
        settings: Settings,
        tables: Mapping[str, StateTable],
        topic_ids: Mapping[str, str],
    ) -> None:
        super().__init__(app, settings)
        self._tables = tables
        self._topic_ids = topic_ids
        """By the full name of a source: its identity when its partitions were assigned."""

    async def post(self, out: ProducerRecord) -> "Future[object]":
        key = key_bytes(out.key)
        sent = (
            self._app.exact_producer.append(self._full(out.topic), key, out.value, ts_ms=out.ts_ms)
            if key
            else None
        )
        return await super().post(out) if sent is None else sent

    async def write(self, stage: str, write: Write) -> "Future[object]":
        return await self._app.exact_producer.post(
            changelog_name(self._settings, stage), write.key, write.value, ts_ms=None,
            partition=partition_of(write.key), headers=tombstone_headers(write.offset), urgent=True,
        )  # fmt: skip

    def wrote(self, stage: str, key: bytes, answer: Any) -> bool:
        return self._tables[stage].fence.wrote(partition_of(key), answer.offset)

    async def is_sole_writer(self, stage: str) -> bool | None:
        if stage not in self._tables:
            return True  # it keeps no state
        name = changelog_name(self._settings, stage)
        ends_of_source = await ends(self._settings, [(name, number) for number in self._assigned(stage)])
        fence = self._tables[stage].fence
        if ends_of_source is None:
            return None
        return all(fence.ends(number, end) for (_, number), end in ends_of_source.items())

    def _assigned(self, stage: str) -> set[int]:
        name = changelog_name(self._settings, stage)
        return {tp.partition for tp in self._app.consumer.assignment() if tp.topic == name}

    def outdated(self, stage: str) -> list[Write]:
        if stage not in self._tables:
            return []  # it keeps no state
        return self._tables[stage].reducer.outdated(self._assigned(stage))

    def rewritten(self, stage: str) -> None:
        if stage in self._tables:
            self._tables[stage].reducer.rewritten()

    def mirror(self, stage: str, key: bytes, value: bytes | None) -> None:
        self._tables[stage].mirror(key, value)

    def load(self, stage: str, key: bytes) -> bytes | None:
        return self._tables[stage].stored(key)

    def states(self, stage: str) -> Iterable[tuple[bytes, bytes]]:
        return self._tables[stage].everything()

    def topic_id(self, source: str) -> str | None:
        return self._topic_ids.get(self._full(source))

    def committed(self, source: TopicPartition) -> int:
        return self.begins_at(source) or 0
