"""When each object is written: not more often than the interval, finals first, the newest value only. Pure.

An object that was touched is *due* once its interval is over. Whoever takes it from ``next_due`` says later
how it went. The plan also knows, for each partition, the lowest record that is not yet seen to: only below
it may offsets be acknowledged.
"""

import heapq
from dataclasses import dataclass, field

from sinks.annotation_targets import Target
from sinks.progress import Held, Place

EVALUATE_S = 1.0
"""How soon an object is looked at again when what changed was not worth a write."""
REFRESH = 10
"""After so many intervals even a small change is written."""
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Shed:
    """An object that was given up for room; ``lost``: with changes that were never written."""

    target: Target
    lost: bool


@dataclass(slots=True)
class _Entry:
    held: Held = field(default_factory=Held)
    flying: Held | None = None
    not_before: float = _NEVER
    written_at: float = _NEVER
    final: bool = False
    ticket: int = 0


class Plan:
    """The objects that await a write. Times are seconds of any one clock."""

    def __init__(self, interval_s: float, most: int = 20_000) -> None:
        self._interval_s = interval_s
        self._most = most
        self._entries: dict[Target, _Entry] = {}
        self._queues: tuple[list[tuple[float, int, Target]], ...] = ([], [])  # finals, others
        self._tickets = 0
        self._held_until = _NEVER

    def touch(self, target: Target, place: Place, offset: int, *, final: bool, now: float) -> Shed | None:
        """A record changed what the object should carry. Says which object was given up for room.

        A final record is due at once: it is the last, and the object may go soon.
        """
        entry = self._entries.pop(target, None) or _Entry()
        self._entries[target] = entry  # now the newest
        entry.held.add(place, offset)
        if final and not entry.final:
            entry.not_before = min(entry.not_before, now)
            entry.ticket = 0
        entry.final = final
        if entry.ticket == 0 and entry.flying is None:
            self._queue(target, entry)
        return self._shed() if len(self._entries) > self._most else None

    def next_due(self, now: float) -> Target | None:
        """The next object to write, which is then in flight; None when none is due."""
        if now < self._held_until:
            return None
        for queue in self._queues:
            self._clean(queue)
            if queue and queue[0][0] <= now:
                target = heapq.heappop(queue)[2]
                entry = self._entries[target]
                entry.flying, entry.held, entry.ticket = entry.held, Held(), 0
                return target
        return None

    def wait_s(self, now: float) -> float | None:
        """Seconds until something is due; None while nothing waits."""
        for queue in self._queues:
            self._clean(queue)
        times = [queue[0][0] for queue in self._queues if queue]
        return max(0.0, min(times) - now, self._held_until - now) if times else None

    def wants_exact(self, target: Target, now: float) -> bool:
        """Whether the object is written however little changed: at its end, and every tenth interval."""
        entry = self._entries.get(target)
        if entry is None:
            return False
        return entry.final or now - entry.written_at >= REFRESH * self._interval_s

    def written(self, target: Target, now: float) -> None:
        """It carries what it should."""
        if entry := self._entries.get(target):
            entry.written_at = now
            self._land(target, entry, now if entry.final and not entry.held.empty else now + self._interval_s)

    def skipped(self, target: Target, now: float) -> None:
        """What changed was not worth a write: it counts as seen to."""
        if entry := self._entries.get(target):
            self._land(target, entry, now + EVALUATE_S)

    def refused(self, target: Target, now: float) -> None:
        """It can not be written; a later change may, after a longer pause."""
        if entry := self._entries.get(target):
            self._land(target, entry, now + REFRESH * self._interval_s)

    def failed(self, target: Target, not_before: float) -> None:
        """It could not be written now, and is tried again, with whatever is newest then."""
        if entry := self._entries.get(target):
            if entry.flying is not None:
                entry.held.merge(entry.flying)
            self._land(target, entry, not_before)

    def hold(self, until: float) -> None:
        """Nothing at all is due before ``until``: the API server asked for it, or cannot be reached."""
        self._held_until = max(self._held_until, until)

    def drop(self, target: Target) -> None:
        """Know nothing of the object any more."""
        self._entries.pop(target, None)

    @property
    def pending(self) -> int:
        """How many objects await a write. For any thread."""
        return sum(not self.is_clean(target) for target in list(self._entries))

    def clear(self) -> None:
        """Know nothing of any object."""
        self._entries.clear()
        for queue in self._queues:
            queue.clear()

    def is_over(self, target: Target) -> bool:
        """Whether its last record is written."""
        entry = self._entries.get(target)
        return entry is not None and entry.final and self.is_clean(target)

    def is_clean(self, target: Target) -> bool:
        """Whether nothing of it awaits a write."""
        entry = self._entries.get(target)
        return entry is None or (entry.held.empty and entry.flying is None)

    def held(self) -> Held:
        """All the records that are not seen to."""
        every = Held()
        for entry in self._entries.values():
            for one in (entry.held, entry.flying):
                if one:
                    every.merge(one)
        return every

    def _land(self, target: Target, entry: _Entry, not_before: float) -> None:
        entry.flying = None
        entry.not_before = not_before
        if not entry.held.empty:
            self._queue(target, entry)

    def _queue(self, target: Target, entry: _Entry) -> None:
        self._tickets += 1
        entry.ticket = self._tickets
        heapq.heappush(self._queues[0 if entry.final else 1], (entry.not_before, entry.ticket, target))

    def _clean(self, queue: list[tuple[float, int, Target]]) -> None:
        """Drop from the front what was queued anew or dropped since."""
        while queue and ((entry := self._entries.get(queue[0][2])) is None or entry.ticket != queue[0][1]):
            heapq.heappop(queue)

    def _shed(self) -> Shed:
        """Give up the object that was touched longest ago, one that waits for nothing if there is one."""
        clean = (target for target in self._entries if self.is_clean(target))
        target = next(clean, None) or next(iter(self._entries))
        shed = Shed(target, lost=not self.is_clean(target))
        self.drop(target)
        return shed
