"""Keys that are silent while the log goes on: what they have open is sent once it is overdue.

A node's windows close by its own ticks, and a node that is gone has none. What is sent for it is a function
of its records, and its state stays as it is. So when it is sent does not matter to what is sent last: a node
that comes back closes the same windows again, with all that it has of them.
"""

from collections.abc import Collection, Iterator

from streams.operators.base import Stage
from streams.runtime.port import StreamsPort
from streams.state.partition_clock import PartitionClock
from streams.state.record import clock_key, header_of, name_of, partition_of

_Key = tuple[int, str]
"""A partition of the source, and a key."""


class Silence:
    """The keys of a stage that may have something open. Time is event time: the newest of the whole stage, so
    that the last key of a partition is heard of, too."""

    def __init__(self, stage: Stage, port: StreamsPort) -> None:
        self._stage = stage
        self._port = port
        self._last_ms: dict[_Key, int] = {}
        self._asked_ms: dict[_Key, int] = {}
        self._newest_ms = -1

    def heard(self, partition: int, name: str, ts_ms: int) -> None:
        """A record of a key was used."""
        if self._stage.open_ms:
            self._last_ms[partition, name] = ts_ms
            self._newest_ms = max(self._newest_ms, ts_ms)

    def begin(self) -> None:
        """The states are recovered. Of a key that was silent for longer than anything stays open, everything
        was sent before the clock was stored that says so."""
        if not self._stage.open_ms:
            return
        clocks: dict[int, PartitionClock | None] = {}
        for key, value in self._port.states(self._stage.name):
            name, header, partition = name_of(key), header_of(value), partition_of(key)
            if name is None or header is None:
                continue
            if partition not in clocks:
                stored = self._port.load(self._stage.name, clock_key(partition))
                clocks[partition] = PartitionClock.restored(
                    self._stage.stride_ms, stored, confirm=self._stage.confirm
                )
            clock = clocks[partition]
            last_ms = None if clock is None else clock.heard_at(header.seen_ms)
            if clock is None or last_ms is None:
                continue
            silent_ms = clock.now_ms - header.seen_ms
            self._newest_ms = max(self._newest_ms, last_ms + silent_ms)
            if silent_ms <= self._stage.open_ms:
                self._last_ms[partition, name] = last_ms

    @property
    def partitions(self) -> set[int]:
        """Those with a key that may have something open."""
        return {partition for partition, _ in self._last_ms}

    def due(self, changed: Collection[_Key], partitions: Collection[int]) -> Iterator[tuple[_Key, int, int]]:
        """Of some partitions the keys to be asked, and from which moment to which. A key that has ``changed``
        since the last checkpoint is not silent, whatever its clock says."""
        newest_ms = self._newest_ms
        for key in changed:
            self._asked_ms.pop(key, None)
        silent = self._last_ms.keys() - set(changed)
        for key in sorted(key for key in silent if key[0] in partitions):
            after_ms = self._asked_ms.get(key, -1)
            if newest_ms > max(after_ms, self._last_ms[key]):
                self._asked_ms[key] = newest_ms
                yield key, after_ms, newest_ms
            if newest_ms > self._last_ms[key] + self._stage.open_ms:
                self._asked_ms.pop(key, None)
                del self._last_ms[key]

    def forget(self) -> None:
        """The partitions were handed over, or assigned anew."""
        self._newest_ms = -1
        self._last_ms.clear()
        self._asked_ms.clear()
