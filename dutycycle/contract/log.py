"""Holds a record of a Kafka log as it was read, and as it is to be sent: where it lies, not what it means.

Structs of msgspec, as there are several for each record that is read: a frozen dataclass takes ten times as
long to make.
"""

from typing import NamedTuple

import msgspec


class TopicPartition(NamedTuple):
    """Names a topic and the number of one of its partitions. Who gives it says whether the topic has its
    prefix."""

    topic: str
    partition: int


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """Holds one record as it lies in the log. ``topic`` is without prefix, where nothing else is said;
    ``value`` None is a tombstone.

    ``key`` is text, because every key of ours is; None if the record has none. Bytes that are no UTF-8 are
    kept as surrogates (``key_text``), so that a dead letter can be sent under the very same key.
    """

    topic: str
    partition: int
    offset: int
    key: str | None
    value: bytes | None
    ts_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition where it lies."""
        return TopicPartition(self.topic, self.partition)

    @property
    def has_text_key(self) -> bool:
        """Tell whether the key is there, is not empty, and is UTF-8."""
        key = self.key
        if not key:
            return False
        return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)


class ProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """Holds a record to send. ``topic`` is without prefix; ``ts_ms`` is its Kafka timestamp."""

    topic: str
    key: str
    value: bytes | None
    ts_ms: int


def key_text(raw: bytes | None) -> str | None:
    """Give a key as text; each byte that is no UTF-8 becomes a surrogate, which ``key_bytes`` turns back."""
    return None if raw is None else raw.decode("utf-8", "surrogateescape")


def key_bytes(text: str | None) -> bytes | None:
    """Return the bytes that ``key_text`` read."""
    return None if text is None else text.encode("utf-8", "surrogateescape")
