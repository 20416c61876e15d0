"""Keeps event time of one node: the watermark, ticks seen twice, and a clock that jumps.

The watermark is the largest timestamp accepted so far, and moves by data alone. A tick is identified by
(collector, seq). A tick far from the watermark, ahead or behind, is held until ten moments in a row agree:
ahead, that time moved on; behind, that the clock was set back, and an *epoch* of the node begins. So one
record with a wrong clock costs itself, and not every record after it. Ticks of two collectors of one node are
all taken, and counted as ``duplicate_producer``.
"""

from dataclasses import dataclass
from typing import Any

from dutycycle.contract.metering import SET_BACK_MS
from dutycycle.telemetry.events import (
    CLOCK_JUMP,
    CLOCK_SET_BACK,
    DUPLICATE_PRODUCER,
    SAMPLE_DUPLICATE,
    SAMPLE_GAP,
)
from streams.operators.base import CountedEvent
from streams.operators.columns.tick import TickRow

_MAX_AHEAD_MS = _MAX_BEHIND_MS = SET_BACK_MS
CONFIRMING_TICKS = 10
"""Ticks of different moments: several may come in one, where stamps are of whole seconds."""
MOST_HELD = 20 * CONFIRMING_TICKS
"""Ticks that wait at most: of a clock that stands still no second moment ever comes."""
GAP_MS, GAP_TICKS = 60_000, 5
"""Time without a tick that is longer, and longer than so many: samples are missing, or the clock was set
forward."""
_BLOCK_TICKS = 1024
"""Seqs whose ticks are remembered together, one bit each."""
SEEN_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Held:
    """Holds a tick that waits for others to confirm its time, and the JSON that it came from."""

    tick: TickRow
    data: bytes


class Timeline:
    """Decides which ticks count, in the order of the log. ``watermark_ms`` is None before the first.

    ``epoch_ms``: the first tick since the clock was last set back; 0 if it never was. It names the epoch.
    """

    def __init__(self) -> None:
        self.watermark_ms: int | None = None
        self.epoch_ms = 0
        self.held: list[Held] = []
        self._seen: dict[tuple[str, int], int] = {}
        """Of each block, by collector and number, one bit for each tick; the newest block comes last."""
        self._newest = ("", -1)

    def admit(self, tick: TickRow, data: bytes) -> tuple[list[TickRow], list[CountedEvent]]:
        """Return the ticks that count now (none, this one, or this and held ones), and events to count.
        ``data``: the JSON of the tick. If the watermark is behind where it was, an epoch has begun with these
        ticks."""
        events = []
        before = self._newest[0]
        if before not in (tick.collector, "") and any(name == tick.collector for name, _ in self._seen):
            # A collector comes back after another one: two of them measure this node
            events.append(CountedEvent(DUPLICATE_PRODUCER.name))
        if self._repeated(tick.collector, tick.seq):
            return [], [CountedEvent(SAMPLE_DUPLICATE.name)]
        ahead_ms = 0 if self.watermark_ms is None else tick.ts_ms - self.watermark_ms
        if -_MAX_BEHIND_MS <= ahead_ms <= _MAX_AHEAD_MS:
            ticks, released = self._release() if self.held else ([], [])
            if ahead_ms > GAP_MS and ahead_ms > GAP_TICKS * tick.interval_ms:
                # Time passed before the tick that no tick is of
                released = [*released, CountedEvent(SAMPLE_GAP.name)]
            self.watermark_ms = max(tick.ts_ms, self.watermark_ms or 0)
            return [*ticks, tick], released + events
        ticks, released = [], []
        passed_ms = tick.ts_ms - self.held[-1].tick.ts_ms if self.held else 0
        if not 0 <= passed_ms <= _MAX_AHEAD_MS or len(self.held) >= MOST_HELD:
            # It does not go on from those that are held
            ticks, released = self._release()
        self.held.append(Held(tick, data))
        if len({waiting.tick.ts_ms for waiting in self.held}) == CONFIRMING_TICKS:
            ticks, self.held = [waiting.tick for waiting in self.held], []
            if self.watermark_ms is not None and tick.ts_ms < self.watermark_ms:
                self.epoch_ms = ticks[0].ts_ms
                released = [*released, CountedEvent(CLOCK_SET_BACK.name)]
            elif self.watermark_ms is not None:
                released = [*released, CountedEvent(SAMPLE_GAP.name)]
            self.watermark_ms = tick.ts_ms
        return ticks, released + events

    def has_before(self, tick: TickRow) -> bool:
        """Tell whether the tick came that its collector counted before this one: nothing is missing in
        between."""
        block, bit = divmod(tick.seq - 1, _BLOCK_TICKS)
        return bool(self._seen.get((tick.collector, block), 0) >> bit & 1)

    def _release(self) -> tuple[list[TickRow], list[CountedEvent]]:
        """Return what was held is not confirmed. What is behind counts as late; what is ahead is dropped."""
        held, self.held = self.held, []
        if held[0].tick.ts_ms < (self.watermark_ms or 0):
            return [waiting.tick for waiting in held], []
        return [], [CountedEvent(CLOCK_JUMP.name, len(held))]

    def _repeated(self, collector: str, seq: int) -> bool:
        """Tell whether the tick was seen before, as far as it is in one of the blocks that ticks came from
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
        """Return plain data. Held ticks are kept as the JSON that they came from."""
        return {
            "watermark_ms": self.watermark_ms,
            "epoch_ms": self.epoch_ms,
            "held": [waiting.data for waiting in self.held],
            "seen": [[collector, block, f"{bits:x}"] for (collector, block), bits in self._seen.items()],
        }

    def restore(self, plain: dict[str, Any], held: list[Held]) -> None:
        """Take over a snapshot, whose held records the caller has read again."""
        self.watermark_ms, self.epoch_ms = plain["watermark_ms"], plain["epoch_ms"]
        self.held = held
        self._seen = {(name, block): int(bits, 16) for name, block, bits in plain["seen"]}
        self._newest = next(reversed(self._seen), ("", -1))
