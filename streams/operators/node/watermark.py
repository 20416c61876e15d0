"""Event time of one node: the watermark, ticks seen twice, and a clock that jumps ahead.

The watermark is the largest timestamp accepted so far, and moves by data alone. A tick is identified by
(collector, seq). A tick far ahead of the watermark is held until ten in a row agree that time moved on. So
one record with a wrong clock costs itself, and not every record after it. Ticks of two collectors of one node
are all taken, and counted as ``duplicate_producer``.
"""

from dataclasses import dataclass
from typing import Any

from dutycycle.telemetry.events import CLOCK_JUMP, DUPLICATE_PRODUCER, SAMPLE_DUPLICATE
from streams.operators.base import CountedEvent
from streams.operators.columns.tick import Tick

MAX_AHEAD_MS = 300_000
CONFIRMING_TICKS = 10
_BLOCK_TICKS = 1024
"""Seqs whose ticks are remembered together, one bit each."""
SEEN_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Held:
    """A tick that waits for others to confirm its time, and the JSON that it came from."""

    tick: Tick
    data: bytes


class Timeline:
    """Decides which ticks count, in the order of the log. ``watermark_ms`` is None before the first."""

    def __init__(self) -> None:
        self.watermark_ms: int | None = None
        self.held: list[Held] = []
        self._seen: dict[tuple[str, int], int] = {}
        """Of each block, by collector and number, one bit for each tick; the newest block comes last."""
        self._newest = ("", -1)

    def admit(self, tick: Tick, data: bytes) -> tuple[list[Tick], list[CountedEvent]]:
        """The ticks that count now (none, this one, or this and the held ones), and events to count.
        ``data``: the JSON of the tick."""
        duplicates = self._duplicate_producer(tick.collector)
        if self._repeated(tick.collector, tick.seq):
            return [], [CountedEvent(SAMPLE_DUPLICATE.name)]
        watermark_ms = self.watermark_ms
        if watermark_ms is None or tick.ts_ms <= watermark_ms + MAX_AHEAD_MS:
            events = self._dropped() + duplicates if self.held else duplicates
            self.watermark_ms = max(tick.ts_ms, watermark_ms or 0)
            return [tick], events
        ticks, events = self._ahead(tick, data)
        return ticks, events + duplicates

    def _ahead(self, tick: Tick, data: bytes) -> tuple[list[Tick], list[CountedEvent]]:
        events: list[CountedEvent] = []
        if self.held and not 0 < tick.ts_ms - self.held[-1].tick.ts_ms <= MAX_AHEAD_MS:
            events = self._dropped()
        self.held.append(Held(tick, data))
        if len(self.held) < CONFIRMING_TICKS:
            return [], events
        ticks = [one.tick for one in self.held]
        self.held = []
        self.watermark_ms = ticks[-1].ts_ms
        return ticks, events

    def _dropped(self) -> list[CountedEvent]:
        count, self.held = len(self.held), []
        return [CountedEvent(CLOCK_JUMP.name, count)] if count else []

    def _duplicate_producer(self, collector: str) -> list[CountedEvent]:
        """An event if a collector comes back after another one: two of them measure this node."""
        if self._newest[0] in (collector, ""):
            return []
        back = any(name == collector for name, _ in self._seen)
        return [CountedEvent(DUPLICATE_PRODUCER.name)] if back else []

    def _repeated(self, collector: str, seq: int) -> bool:
        """Whether the tick was seen before, as far as it is in one of the blocks that ticks came from
        lately."""
        block, bit = (collector, seq // _BLOCK_TICKS), 1 << seq % _BLOCK_TICKS
        if block != self._newest:
            self._seen[block] = self._seen.pop(block, 0)  # the newest comes last
            self._newest = block
            if len(self._seen) > SEEN_BLOCKS:
                del self._seen[next(iter(self._seen))]
        bits = self._seen[block]
        self._seen[block] = bits | bit
        return bool(bits & bit)

    def snapshot(self) -> dict[str, Any]:
        """Plain data. Held ticks are kept as the JSON that they came from."""
        return {
            "watermark_ms": self.watermark_ms,
            "held": [one.data for one in self.held],
            "seen": [[collector, block, f"{bits:x}"] for (collector, block), bits in self._seen.items()],
        }

    def restore(self, plain: dict[str, Any], held: list[Held]) -> None:
        """Take over a snapshot, whose held records the caller has read again."""
        self.watermark_ms = plain["watermark_ms"]
        self.held = held
        self._seen = {(name, block): int(bits, 16) for name, block, bits in plain["seen"]}
        self._newest = next(reversed(self._seen), ("", -1))
