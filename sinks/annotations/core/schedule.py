"""Plans when each object is written: not more often than the interval, finals first, the newest value only.
Pure.

An object that was touched is *due* once its interval is over. Whoever takes it from ``next_due`` says later
how it went. The plan also knows, for each partition, the lowest record that is not yet seen to: only below
it may offsets be acknowledged.
"""

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.groups import Settings
from sinks.annotations.core.targets import Target
from sinks.base import PendingOffsets

MOST_DAMPED = 120
"""The longest wait, in intervals: an hour, by default."""
CALM = 2 * MOST_DAMPED
"""A figure that did not change for so many intervals begins anew."""


@dataclass(slots=True)
class Damping:
    """Remembers the figures of one object that changed a while ago, by name: how long each waits, since when.

    A figure that keeps changing, by noise or with a cycle, is written less and less often. Its first change
    is at once; each further one waits twice as long, an hour at most, counted from the last write of the
    object, which wrote this figure, too. So a value is never older than the time for which it has changed.
    """

    _waits: dict[str, tuple[int, float]] = field(default_factory=dict)

    def note_written(self, changed: Iterable[str], now: float, interval_s: float) -> None:
        """Note that a write at ``now`` had these figures, changed by enough to matter."""
        calm_at = now - CALM * interval_s
        self._waits = {name: wait for name, wait in self._waits.items() if wait[1] > calm_at}
        for name in changed:
            before, _ = self._waits.get(name, (0, now))
            self._waits[name] = min(2 * before, MOST_DAMPED) or 1, now

    def waiting(self, since_s: float, interval_s: float) -> Collection[str]:
        """Return the figures whose change is no reason to write, ``since_s`` after the last write of the
        object."""
        return {name for name, (wait, _) in self._waits.items() if since_s < wait * interval_s}


EVALUATE_SHARE = 10
"""What changed was not enough for a write: after a tenth of the interval it is compared again."""
REFUSED = 10
"""So many intervals lie between two tries to write what the API server refuses."""
REFRESH = 120
"""After so many intervals even the smallest change is written, the time stamp too: an hour, by default."""
URGENT_S = 3.0
"""Two writes of what should not wait for the interval lie so far apart, at least."""
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """Says how writes are planned. ``interval_s`` lies between two writes to one object, at least; ``most``
    objects are known at once. ``heartbeat_s`` lies between two renewals of a node's Lease; 0: there is none.
    ``events``: whether Events are written. ``labels``: whether nodes get labels."""

    prefix: str = "dutycycle.io"
    interval_s: float = 30.0
    most: int = 20_000
    heartbeat_s: float = 0.0
    events: bool = False
    labels: bool = False

    @classmethod
    def of(cls, settings: Settings) -> "WritePolicy":
        """Return the policy that the settings say."""
        return cls(
            settings.annotation_prefix,
            settings.annotation_interval,
            heartbeat_s=settings.annotation_heartbeat,
            events=settings.kubernetes_events == "on",
            labels=settings.node_labels == "on",
        )


class ChangeThreshold(IntEnum):
    """Says what has to have changed for a write."""

    TIME_STAMP = 0
    ANY_FIGURE = 1
    MUCH = 2
    """By enough to matter."""


@dataclass(frozen=True, slots=True)
class DueWrite:
    """Names an object to write now, if as much as ``threshold`` says has changed. ``damped``: the figures
    whose change is no reason to write now, because they change all the time."""

    target: Target
    threshold: ChangeThreshold
    damped: Collection[str]


class _LruList(IntEnum):
    """Says what is given up first when there are too many objects."""

    CLEAN = 0
    WAITING = 1
    FINAL = 2


@dataclass(frozen=True, slots=True)
class Shed:
    """Names an object that was given up for room; ``lost``: with changes that were never written."""

    target: Target
    lost: bool
    final: bool = False


@dataclass(slots=True)
class _PlannedWrite:
    waiting: PendingOffsets = field(default_factory=PendingOffsets)
    in_flight: PendingOffsets | None = None
    not_before: float = _NEVER
    written_at: float = _NEVER
    damping: Damping = field(default_factory=Damping)
    final: bool = False
    late: bool = False
    """The last try failed."""
    urgent: bool = False
    urgent_in_flight: bool = False
    ticket: int = 0
    lru: _LruList = _LruList.CLEAN

    @property
    def clean(self) -> bool:
        return self.waiting.empty and self.in_flight is None

    def is_pending(self, now: float) -> bool:
        """Tell whether it is to be written now. What changed since the last write may wait for its
        interval."""
        is_due = not self.waiting.empty and self.not_before <= now
        return is_due or self.late or self.in_flight is not None


class WritePlan:
    """Plans the objects that await a write. Times are seconds of any one clock."""

    def __init__(self, interval_s: float, most: int = 20_000) -> None:
        self._interval_s = interval_s
        self._most = most
        self._entries: dict[Target, _PlannedWrite] = {}
        self._lru: dict[_LruList, dict[Target, None]] = {lru: {} for lru in _LruList}
        self._queues: tuple[list[tuple[float, int, Target]], ...] = ([], [])  # finals, others
        self._tickets = 0
        self._on_hold_until = _NEVER

    def touch(
        self,
        target: Target,
        place: TopicPartition,
        offset: int,
        *,
        final: bool | None,
        now: float,
        urgent: bool = False,
    ) -> Shed | None:
        """Note that a record changed what the object should carry. Say which object was given up for room.

        A final record is due at once: it is the last, and the object may go soon. None: a record that does
        not know, such as an insight, changes nothing of that. An ``urgent`` one does not wait for the
        interval, but for the pause after a write that failed.
        """
        entry = self._entries.setdefault(target, _PlannedWrite())
        entry.waiting.add(place, offset)
        final = entry.final if final is None else final
        if final and not entry.final:
            entry.not_before = min(entry.not_before, now)
            entry.ticket = 0
        entry.final = final
        if urgent and not entry.late:
            entry.not_before = min(entry.not_before, entry.written_at + URGENT_S)
            entry.ticket = 0
        entry.urgent = entry.urgent or urgent
        self._move(target, entry, anew=True)
        if entry.ticket == 0 and entry.in_flight is None:
            self._queue(target, entry)
        if len(self._entries) <= self._most:
            return None
        # What was touched longest ago: of what waits for nothing, else of what is not final.
        lru = next(lru for lru in _LruList if self._lru[lru])
        oldest = next(iter(self._lru[lru]))
        entry = self._entries[oldest]
        self.drop(oldest)
        return Shed(oldest, lost=entry.late or not entry.clean, final=entry.final)

    def next_due(self, now: float) -> DueWrite | None:
        """Return the next object to write, which is then in flight; None when none is due."""
        if self.is_on_hold(now):
            return None
        for queue in self._queues:
            self._clean(queue)
            if queue and queue[0][0] <= now:
                target = heapq.heappop(queue)[2]
                entry = self._entries[target]
                entry.in_flight, entry.waiting, entry.ticket = entry.waiting, PendingOffsets(), 0
                entry.urgent_in_flight, entry.urgent = entry.urgent, False
                damped = entry.damping.waiting(now - entry.written_at, self._interval_s)
                if entry.final:
                    threshold = ChangeThreshold.TIME_STAMP  # at the end, the slightest
                elif entry.written_at == _NEVER or entry.urgent_in_flight:
                    # Never by us: it may carry all, from before a restart.
                    threshold = ChangeThreshold.ANY_FIGURE
                else:
                    is_long_ago = now - entry.written_at >= REFRESH * self._interval_s
                    threshold = ChangeThreshold.TIME_STAMP if is_long_ago else ChangeThreshold.MUCH
                return DueWrite(target, threshold, damped)
        return None

    def wait_s(self, now: float) -> float | None:
        """Return seconds until something is due; None while nothing waits."""
        for queue in self._queues:
            self._clean(queue)
        times = [queue[0][0] for queue in self._queues if queue]
        return max(0.0, min(times) - now, self._on_hold_until - now) if times else None

    def written(self, target: Target, now: float, changed: Collection[str] = ()) -> None:
        """Note that an object carries what it should. ``changed``: the figures that differed by enough to
        matter."""
        if entry := self._entries.get(target):
            entry.written_at = now
            entry.damping.note_written(changed, now, self._interval_s)
            is_last = entry.final and not entry.waiting.empty
            wait_s = 0.0 if is_last else URGENT_S if entry.urgent else self._interval_s
            self._complete(target, entry, now + wait_s)

    def skipped(self, target: Target, now: float) -> None:
        """Note that what changed was not enough for a write: it counts as done."""
        if entry := self._entries.get(target):
            entry.written_at = now if entry.written_at == _NEVER else entry.written_at
            wait_s = self._interval_s / EVALUATE_SHARE
            self._complete(target, entry, now + (min(URGENT_S, wait_s) if entry.urgent else wait_s))

    def refused(self, target: Target, now: float) -> None:
        """Note that an object can not be written; a later change may, after a longer pause."""
        if entry := self._entries.get(target):
            self._complete(target, entry, now + REFUSED * self._interval_s)

    def failed(self, target: Target, not_before: float) -> None:
        """Note that an object could not be written now, and is tried again, with whatever is newest then."""
        if entry := self._entries.get(target):
            if entry.in_flight is not None:
                entry.waiting.merge(entry.in_flight)
            entry.urgent = entry.urgent or entry.urgent_in_flight
            self._complete(target, entry, not_before, late=True)

    def forbidden(self, target: Target, not_before: float) -> None:
        """Note that no role lets us write an object: its records are done, and it is tried again all the
        same."""
        if entry := self._entries.get(target):
            self._complete(target, entry, not_before, late=True)

    def hold(self, until: float) -> None:
        """Hold all back until ``until``: the API server asked for it, or cannot be reached."""
        self._on_hold_until = max(self._on_hold_until, until)

    def is_on_hold(self, now: float) -> bool:
        """Tell whether nothing at all may be sent."""
        return now < self._on_hold_until

    def drop(self, target: Target) -> None:
        """Know nothing of the object any more."""
        entry = self._entries.pop(target, None)
        if entry is not None:
            self._lru[entry.lru].pop(target, None)

    def pending(self, now: float) -> int:
        """Tell how many objects are to be written now. For any thread."""
        return sum(entry.is_pending(now) for entry in list(self._entries.values()))

    def clear(self) -> None:
        """Know nothing of any object."""
        self._entries.clear()
        for queue in self._queues:
            queue.clear()
        for lru in self._lru.values():
            lru.clear()

    def is_over(self, target: Target) -> bool:
        """Tell whether its last record is written."""
        entry = self._entries.get(target)
        return entry is not None and entry.final and entry.clean

    def pending_offsets(self) -> PendingOffsets:
        """Return all the records that are not done."""
        every = PendingOffsets()
        for lru in (_LruList.WAITING, _LruList.FINAL):
            for target in self._lru[lru]:
                entry = self._entries[target]
                every.merge(entry.waiting)
                if entry.in_flight is not None:
                    every.merge(entry.in_flight)
        return every

    def _complete(
        self, target: Target, entry: _PlannedWrite, not_before: float, *, late: bool = False
    ) -> None:
        entry.in_flight = None
        entry.not_before = not_before
        entry.late = late
        if late or not entry.waiting.empty:
            self._queue(target, entry)
        self._move(target, entry)

    def _queue(self, target: Target, entry: _PlannedWrite) -> None:
        self._tickets += 1
        entry.ticket = self._tickets
        heapq.heappush(self._queues[0 if entry.final else 1], (entry.not_before, entry.ticket, target))

    def _clean(self, queue: list[tuple[float, int, Target]]) -> None:
        """Drop from the front what was queued anew or dropped since."""
        while queue and ((entry := self._entries.get(queue[0][2])) is None or entry.ticket != queue[0][1]):
            heapq.heappop(queue)

    def _move(self, target: Target, entry: _PlannedWrite, *, anew: bool = False) -> None:
        """Move an object to the end of its list, which is in the order in which they were touched last."""
        lru = _LruList.CLEAN if entry.clean else _LruList.FINAL if entry.final else _LruList.WAITING
        if anew or lru is not entry.lru:
            self._lru[entry.lru].pop(target, None)
            self._lru[lru][target] = None
            entry.lru = lru
