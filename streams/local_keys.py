"""The living operators of one stage in a replay: the same as in a worker, with its changelog in memory."""

from collections import Counter

from contract.log import ConsumerRecord
from streams.operators.base import Emission, Stage
from streams.runtime.events import STATE_EVICTED, STATE_RESET
from streams.runtime.keyed_operator import Live, OperatorFailedError
from streams.state import partition_clock
from streams.state.codec import pieces_of
from streams.state.partition_clock import PartitionClock
from streams.state.record import state_key

STORED_EVERY = 100
"""After so many records of a key its state is stored, from where it goes on if its operator fails."""
_PARTITION = 0


class LocalKeys:
    """The keys of one stage. All records count as one partition, numbered as they come: a trace may join the
    logs of several clusters. ``happened`` counts named events."""

    def __init__(self, stage: Stage, happened: Counter[str]) -> None:
        self._stage = stage
        self._happened = happened
        self._lives: dict[str, Live] = {}
        self._changelog: dict[bytes, bytes] = {}
        self._stride_ms = (stage.evict_ms or 0) // partition_clock.STRIDES
        self._clock = PartitionClock(self._stride_ms)
        self._next_ms = self._stride_ms

    def hear(self, ts_ms: int) -> None:
        """A record of this time comes, of whatever use."""
        self._clock.hear(self._clock.offset + 1, ts_ms)

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Apply a record. Raises ``DecodeError`` or ``OperatorFailedError``: then it counts as never come."""
        key = record.key or ""
        numbered = ConsumerRecord(
            record.topic, _PARTITION, self._clock.offset, key, record.value, record.ts_ms
        )
        if self._stage.stateless:
            return self._stateless(numbered)
        live = self._lives.get(key) or self._begun(key)
        emissions = live.update(numbered, self._clock.now_ms)
        self._lives[key] = live
        if live.recent() >= STORED_EVERY:
            self._store(key, live)
        return emissions

    def _stateless(self, record: ConsumerRecord) -> list[Emission]:
        return self._begun(record.key or "").update(record)

    def _begun(self, key: str) -> Live:
        try:
            return Live(self._stage, _PARTITION, key, self._changelog.get, lambda _: self._reset())
        except Exception as error:
            raise OperatorFailedError(f"{type(error).__name__}: {error}") from error

    def _reset(self) -> None:
        self._happened[STATE_RESET.name] += 1

    def _store(self, key: str, live: Live) -> None:
        try:
            packed = live.packed()
        except Exception:  # noqa: BLE001 - this key's operator is broken: the other keys go on
            self._reset()
            live.begin_anew()
            return
        self._changelog.update([*packed.pieces, packed.head])
        live.stored(live.recent())

    def leave(self) -> list[Emission]:
        """Forget the keys that are idle, looked for once in a stride; what they had open is closed."""
        if self._stage.evict_ms is None or self._clock.now_ms < self._next_ms:
            return []
        self._next_ms = self._clock.now_ms + self._stride_ms
        emissions: list[Emission] = []
        for key in self.sorted():
            if self._stage.is_idle(self._lives[key].seen_ms or 0, self._clock.now_ms):
                emissions += self._lives.pop(key).close()
                self._remove(state_key(_PARTITION, key))
                self._happened[STATE_EVICTED.name] += 1
        return emissions

    def _remove(self, head: bytes) -> None:
        for key in [head, *pieces_of(head, self._changelog.get)]:
            self._changelog.pop(key, None)

    def sorted(self) -> list[str]:
        """The keys that are there, in order."""
        return sorted(self._lives)

    def settle(self, key: str) -> list[Emission]:
        """What a key's operator sends coalesced."""
        live = self._lives[key]
        try:
            return live.settle()
        except Exception:  # noqa: BLE001 - this key's operator is broken: the other keys go on
            self._reset()
            live.begin_anew()
            return live.settle()

    def close(self, key: str) -> list[Emission]:
        """The input has ended."""
        return self._lives[key].close()
