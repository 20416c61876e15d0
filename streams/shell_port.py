"""What the shell needs of the world, narrow enough that its order of doing things is tested without Kafka."""

from collections.abc import Awaitable
from typing import Protocol

from streams.operators.base import Out


class Port(Protocol):
    """Kafka, as the shell sees it. ``source`` and ``stage`` are names without prefix."""

    async def post(self, out: Out) -> Awaitable[object]:
        """Put an output in line, in the order of the calls; the answer is awaited for its arrival."""
        ...

    async def save(self, stage: str, partition: int, key: bytes, value: bytes) -> Awaitable[object]:
        """Put a record of a stage's changelog in line; the answer is awaited for its arrival."""
        ...

    def mirror(self, stage: str, partition: int, key: bytes, value: bytes) -> None:
        """Note what the changelog holds now, so that ``load`` finds it."""
        ...

    def load(self, stage: str, key: bytes) -> bytes | None:
        """What the changelog holds under ``key``."""
        ...

    def begins_at(self, source: str, partition: int) -> int | None:
        """The committed offset at which reading began; None if nothing was ever committed."""
        ...

    async def first_offset(self, source: str, partition: int, offset: int) -> int | None:
        """The first offset at or after ``offset`` that the broker has a record for; None if it has none."""
        ...

    def acknowledge(self, source: str, partition: int, offset: int) -> None:
        """Everything up to and including ``offset`` is done: it may be committed."""
        ...

    def may_write(self) -> bool:
        """Whether this worker still owns what it was assigned, as far as it can know."""
        ...

    def fail(self, reason: str) -> None:
        """End the process: what is not acknowledged is done again by the next one."""
        ...
