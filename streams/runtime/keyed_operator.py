"""Holds the operator of one key: how it begins anew after it was idle, and is rebuilt after a failure."""

from collections.abc import Callable
from typing import TypeVar

from dutycycle.contract.codec import DecodeError
from dutycycle.contract.log import ConsumerRecord
from streams.operators.base import Emission, Operator, Stage
from streams.runtime.record_packer import RecordPacker, bytes_of_first
from streams.state.codec import Lookup, Packed, pack, unpack
from streams.state.record import state_key

T = TypeVar("T")


class OperatorFailedError(Exception):
    """Says that an operator failed on a record, not with ``DecodeError``. It is as before it."""


class KeyedOperator:
    """Holds an operator with the offset that it is at, and the records since its last stored state.

    Made from the stored state, or from nothing; ``reset`` is called when a stored state cannot be used, and
    ``packer`` is that of the stage.
    ``seen_ms`` is what the partition's clock said at the last record that was used; None before the first.
    """

    def __init__(
        self,
        stage: Stage,
        partition: int,
        key: str,
        lookup: Lookup,
        reset: Callable[[str], None],
        packer: RecordPacker,
    ) -> None:
        self._stage = stage
        self._key = key
        self._state_key = state_key(partition, key)
        self._lookup = lookup
        self._reset = reset
        self._packer = packer
        self._recent = bytearray()
        """Holds the records since the last stored state, packed. As objects of their own, which come and go
        among those of the states, they left holes that Python's allocator does not give back."""
        self._recent_count = 0
        self._partition = partition
        self.offset = -1
        self.seen_ms: int | None = None
        self._operator = self._resume()

    def update(self, record: ConsumerRecord, now_ms: int = 0) -> list[Emission]:
        """Apply ``record``, whose offset is past ``offset``, at ``now_ms`` of the partition's clock.

        Raises ``DecodeError`` for one that the operator refuses, ``OperatorFailedError`` for one that it
        fails on; the state is then as before the record, and only the offset has moved.
        """
        try:
            emissions = self._applied(record, now_ms)
        except DecodeError:
            self.offset = record.offset
            raise
        except Exception as error:
            self._rebuild()
            self.offset = record.offset
            raise OperatorFailedError(f"{type(error).__name__}: {error}") from error
        self.offset = record.offset
        self._recent += self._packer.pack(record, now_ms)
        self._recent_count += 1
        return emissions

    def _applied(self, record: ConsumerRecord, now_ms: int) -> list[Emission]:
        if self.seen_ms is None or not self._stage.is_idle(self.seen_ms, now_ms):
            emissions = self._operator.update(record)
        else:
            # Idle for so long that it may have left already. Whether it had must not be seen in the outputs.
            anew = self._stage.build(self._key, None)
            emissions = anew.update(record)
            emissions = self.close() + emissions
            self._operator = anew
        self.seen_ms = now_ms
        return emissions

    def flush(self) -> list[Emission]:
        """Return the operator's coalesced outputs."""
        return self._or_anew(lambda operator: operator.flush())

    def unwritten(self) -> list[Emission]:
        """Return what the operator has not sent yet: see ``Operator``."""
        return self._or_anew(lambda operator: operator.unwritten())

    def close(self) -> list[Emission]:
        """Close what is open: nothing comes any more."""
        try:
            return self._operator.close()
        except Exception as error:  # noqa: BLE001 - what it had open is lost, and counted; nothing else is
            self._reset(f"{self._key}: cannot be closed: {type(error).__name__}: {error}")
            return []

    def packed(self) -> Packed:
        """Return the state now, ready to be stored."""
        return self._or_anew(
            lambda operator: pack(
                self._state_key, self.offset, operator.snapshot(), self._lookup(self._state_key),
                self.seen_ms or 0, piece_bytes=self._stage.piece_bytes,
            )
        )  # fmt: skip

    def _or_anew(self, ask: Callable[[Operator], T]) -> T:
        """Return what ``ask`` makes of the operator. If it fails, the operator forgets all but its place, and
        is asked again: the other keys go on."""
        try:
            return ask(self._operator)
        except Exception as error:  # noqa: BLE001 - this key's operator is broken, whatever it was
            self._reset(f"{type(error).__name__}: {error}")
            self._recent.clear()
            self._recent_count = 0
            self._operator = self._stage.build(self._key, None)
            return ask(self._operator)

    def recent(self) -> int:
        """Tell how many records a rebuild would apply again."""
        return self._recent_count

    def stored(self, count: int) -> None:
        """Note that the oldest ``count`` of the recent records are covered by the stored state now. They are
        fewer where the operator began anew since that state was made."""
        count = min(count, self._recent_count)
        del self._recent[: bytes_of_first(self._recent, count)]
        self._recent_count -= count

    def _rebuild(self) -> None:
        """Rebuild the operator from the stored state and the records since. What they had put out has been
        sent already."""
        self.seen_ms = None
        self._operator = self._resume()
        recent = self._packer.unpack(self._recent, self._stage.source, self._partition, self._key)
        for record, now_ms in recent:
            try:
                self._applied(record, now_ms)
            except Exception as error:  # noqa: BLE001 - applied before; without it the rest still makes the better state
                self._reset(f"{self._key}: left out of a rebuild, offset {record.offset}: {error!r}")

    def _resume(self) -> Operator:
        """Build the operator of the stored state, from its place on; a new one, where there is none that can
        be used."""
        try:
            resumed = unpack(self._state_key, self._lookup)
        except ValueError as error:
            resumed = None
            self._reset(f"{self._key}: {error}")
        if resumed is not None:
            self.offset = max(self.offset, resumed.offset)
            self.seen_ms = resumed.seen_ms
            try:
                return self._stage.build(self._key, resumed.snapshot)
            except ValueError as error:
                self._reset(f"{self._key}: {error}")
            except Exception as error:  # noqa: BLE001 - whatever a snapshot holds that no operator can go on from
                self._reset(f"{self._key}: {type(error).__name__}: {error}")
        return self._stage.build(self._key, None)
