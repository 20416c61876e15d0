"""The shell's port on Faust: state in tables whose changelogs the shell writes itself."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import faust

from bus.faustapp import ExactApp, raw_topic
from bus.faustapp_holes import first_offset
from streams.operators.base import Out
from streams.state_record import is_ours, offset_of, piece_of, tombstone_headers, tombstone_offset
from wire.settings import Settings
from wire.topics import full_name


class StateTable(faust.Table[bytes, bytes]):
    """A table that Faust fills from its changelog, and that nobody writes by Faust's own way.

    Of two states of a key the one with the higher offset counts, whichever was written last: a worker that
    stood still and does not know yet that it was replaced may write an old one after the new.
    """

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Take over changelog records, in order."""
        newest: dict[bytes, int] = {}
        super().apply_changelog_batch([event for event in batch if self._is_newer(event, newest)])

    def _is_newer(self, event: Any, newest: dict[bytes, int]) -> bool:
        message = event.message
        if not is_ours(message.key or b""):
            return False
        key, offset = message.key, offset_of(message.value)
        if message.value is None:
            removes = tombstone_offset(message.headers or ())
            if removes is None:
                return True  # of somebody's hand
            offset = removes
        compared, piece = key, piece_of(key)
        if piece is not None and message.value is not None:
            # With its head, not with what lies there: that may be left by a worker that was ahead when it was
            # killed before it sent the head, and must not keep out the piece of the one that came after it.
            compared = piece.head
        have = newest.get(compared)
        if have is None:
            have = offset_of(self.stored(compared))
        if offset >= have:
            newest[key] = offset
        return offset >= have

    def stored(self, key: bytes) -> bytes | None:
        """The value of ``key`` that the changelog is known to hold."""
        store: Any = self.data
        found: bytes | None = store.data.get(key)
        return found

    def mirror(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Note what was written to the changelog; None is a tombstone."""
        store: Any = self.data
        if value is None:
            store.data.pop(key, None)
            store._key_partition.pop(key, None)
        else:
            store.data[key] = value
            store._key_partition[key] = partition

    def everything(self) -> Iterable[tuple[bytes, bytes]]:
        """All keys and values that the changelog is known to hold."""
        store: Any = self.data
        found: Iterable[tuple[bytes, bytes]] = store.data.items()
        return found


def add_table(app: ExactApp, name: str, changelog: str, partitions: int) -> StateTable:
    """Give ``app`` the table ``name`` on the topic ``changelog``."""
    topic = raw_topic(app, changelog, acks=False, internal=True, compacting=True, partitions=partitions,
                      maxsize=131_072)  # fmt: skip
    table = StateTable(
        app, name=name, key_type=bytes, value_type=bytes, partitions=partitions, changelog_topic=topic
    )
    app.tables.add(table)
    return table


class FaustPort:
    """Implements ``shell_port.Port``."""

    def __init__(
        self,
        app: ExactApp,
        settings: Settings,
        tables: dict[str, StateTable],
        changelog: Callable[[str], str],
    ) -> None:
        self._app = app
        self._settings = settings
        self._tables = tables
        self._changelog = changelog

    def _full(self, name: str) -> str:
        return full_name(self._settings.topic_prefix, name)

    async def post(self, out: Out) -> Awaitable[object]:
        """See ``Port``."""
        return await self._app.exact_producer.post(
            self._full(out.topic), out.key.encode(), out.value, ts_ms=out.ts_ms
        )

    async def save(self, stage: str, partition: int, key: bytes, value: bytes) -> Awaitable[object]:
        """See ``Port``."""
        return await self._app.exact_producer.post(
            self._changelog(stage), key, value, ts_ms=None, partition=partition
        )

    async def drop(self, stage: str, partition: int, key: bytes, offset: int) -> Awaitable[object]:
        """See ``Port``."""
        return await self._app.exact_producer.post(
            self._changelog(stage), key, None, ts_ms=None, partition=partition,
            headers=tombstone_headers(offset),
        )  # fmt: skip

    def mirror(self, stage: str, partition: int, key: bytes, value: bytes | None) -> None:
        """See ``Port``."""
        self._tables[stage].mirror(partition, key, value)

    def load(self, stage: str, key: bytes) -> bytes | None:
        """See ``Port``."""
        return self._tables[stage].stored(key)

    def states(self, stage: str) -> Iterable[tuple[bytes, bytes]]:
        """See ``Port``."""
        return self._tables[stage].everything()

    def committed(self, source: str, partition: int) -> int:
        """See ``Port``."""
        return self._app.exact_consumer.begins_at(self._full(source), partition) or 0

    def begins_at(self, source: str, partition: int) -> int | None:
        """See ``Port``."""
        return self._app.exact_consumer.begins_at(self._full(source), partition)

    async def first_offset(self, source: str, partition: int, offset: int) -> int | None:
        """See ``Port``."""
        return await first_offset(self._settings, self._full(source), partition, offset)

    def acknowledge(self, source: str, partition: int, offset: int) -> None:
        """See ``Port``."""
        self._app.exact_consumer.acknowledge(self._full(source), partition, offset)

    def may_write(self) -> bool:
        """See ``Port``."""
        return not self._app.pulse.stalled() and self._app.exact_consumer.is_member()

    def fail(self, reason: str) -> None:
        """See ``Port``."""
        self._app.fail(reason)
