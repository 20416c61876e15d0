"""What a sink is to the dispatcher that gives it records."""

from typing import Any, Protocol

from contract.log import ConsumerRecord
from sinks.offsets import PendingOffsets


class Sink(Protocol):
    """What records are given to. It holds them until they are written, however long that takes."""

    name: str
    topics: tuple[str, ...]
    """What it is made of, without prefix."""

    def wants(self, origin: ConsumerRecord) -> bool:
        """Whether the record concerns it, as far as can be told without decoding."""
        ...

    def take(self, origin: ConsumerRecord, record: Any) -> None:
        """Take a decoded record of its topics. Raises ``ValueError`` for one that it never can write."""
        ...

    async def room(self) -> None:
        """Return when it can hold more."""
        ...

    def pending_offsets(self) -> PendingOffsets:
        """The records that are not written yet."""
        ...

    def forget(self) -> None:
        """The partitions are somebody else's now: what is not written is theirs to write."""
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
