"""The living operator of one key, and how it comes back after a failure of our own code."""

from collections.abc import Callable

from streams.operators.base import Emission, Input, Operator, Stage
from streams.state import Packed, Resumed, StateError, pack, state_key, unpack
from wire.codec import DecodeError

Lookup = Callable[[bytes], bytes | None]
"""What a stage's changelog holds under a key."""


class OperatorFailedError(Exception):
    """An operator failed on a record, with something else than ``DecodeError``. It is as before it."""


class Live:
    """An operator with the offset that it is at, and the records since its last stored state.

    Made from the stored state, or from nothing; ``reset`` is told when a stored state cannot be used.
    """

    def __init__(
        self, stage: Stage, partition: int, key: str, lookup: Lookup, reset: Callable[[str], None]
    ) -> None:
        self._stage = stage
        self._key = key
        self._state_key = state_key(partition, key)
        self._lookup = lookup
        self._reset = reset
        self._recent: list[Input] = []
        self.partition = partition
        self.offset = -1
        self._operator = self._resume()

    def update(self, record: Input) -> list[Emission]:
        """Apply ``record``, whose offset is past ``offset``.

        Raises ``DecodeError`` for one that the operator refuses, ``OperatorFailedError`` for one that it
        fails on; the state is then as before the record, and only the offset has moved.
        """
        try:
            emissions = self._operator.update(record)
        except DecodeError:
            self.offset = record.offset
            raise
        except Exception as error:
            self._rebuild()
            self.offset = record.offset
            raise OperatorFailedError(f"{type(error).__name__}: {error}") from error
        self.offset = record.offset
        self._recent.append(record)
        return emissions

    def settle(self) -> list[Emission]:
        """The operator's coalesced outputs."""
        return self._operator.settle()

    def packed(self) -> Packed:
        """The state now, ready to be stored."""
        return pack(self._state_key, self.offset, self._operator.snapshot(), self._lookup(self._state_key))

    def begin_anew(self) -> None:
        """Forget everything but the place: the operator's state cannot be used."""
        self._recent.clear()
        self._operator = self._stage.build(self._key, None)

    def recent(self) -> int:
        """How many records a rebuild would apply again."""
        return len(self._recent)

    def stored(self, count: int) -> None:
        """The oldest ``count`` of the recent records are covered by the stored state now."""
        del self._recent[:count]

    def _rebuild(self) -> None:
        """From the stored state and the records since. What they had put out has been sent already."""
        self._operator = self._resume()
        for record in self._recent:
            try:
                self._operator.update(record)
            except Exception as error:  # noqa: BLE001 - applied before; without it the rest still makes the better state
                self._reset(f"{self._key}: left out of a rebuild, offset {record.offset}: {error!r}")

    def _resume(self) -> Operator:
        try:
            found = unpack(self._state_key, self._lookup)
            if found is not None:
                return self._continued(found)
        except (StateError, ValueError) as error:
            self._reset(f"{self._key}: {error}")
        return self._stage.build(self._key, None)

    def _continued(self, found: Resumed) -> Operator:
        self.offset = max(self.offset, found.offset)
        try:
            return self._stage.build(self._key, found.snapshot)
        except ValueError:
            raise
        except Exception as error:
            raise StateError(f"{type(error).__name__}: {error}") from error
