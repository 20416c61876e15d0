"""Defines what a sink is to the dispatcher that gives it records, and how it says which are not written
yet."""

from typing import Any, Protocol

from dutycycle.contract.log import ConsumerRecord, TopicPartition


class PendingOffsets:
    """Holds of some records the lowest offset of each partition."""

    __slots__ = ("_lowest",)

    def __init__(self) -> None:
        self._lowest: dict[TopicPartition, int] = {}

    def add(self, place: TopicPartition, offset: int) -> None:
        """Add one more record."""
        if offset < self._lowest.get(place, offset + 1):
            self._lowest[place] = offset

    def merge(self, other: "PendingOffsets") -> None:
        """Add those of another as well."""
        for place, offset in other._lowest.items():
            self.add(place, offset)

    def lowest(self, place: TopicPartition) -> int | None:
        """Return the lowest offset; None without a record of that partition."""
        return self._lowest.get(place)

    @property
    def empty(self) -> bool:
        """Tell whether there are none."""
        return not self._lowest


class Sink(Protocol):
    """Takes records. It holds them until they are written, however long that takes."""

    name: str
    topics: tuple[str, ...]
    """What it is made of, without prefix."""

    def wants(self, origin: ConsumerRecord) -> bool:
        """Tell whether the record concerns it, as far as can be told without decoding."""
        ...

    def take(self, origin: ConsumerRecord, record: Any) -> None:
        """Take a decoded record of its topics. Raises ``ValueError`` for one that it never can write."""
        ...

    async def room(self) -> None:
        """Return when it can hold more."""
        ...

    def pending_offsets(self) -> PendingOffsets:
        """Return the records that are not written yet."""
        ...

    @property
    def pending(self) -> int:
        """Return how much waits to be written. For any thread."""
        ...

    def forget(self) -> None:
        """Forget all records. Partitions are somebody else's now: what is not written is theirs to write."""
        ...

    async def run(self) -> None:
        """Write, until cancelled. Never raises by itself."""
        ...

    async def drain(self) -> None:
        """Write what can be written at once."""
        ...

    async def close(self) -> None:
        """Give back what it uses."""
        ...
