"""Tells what each GPU did, and what it waited for while it did nothing, from the order of things in a
profile.

Each moment from a GPU's first activity to its last counts once: for kernels that compute, else for
communication, else for copies to the GPU, else for copies from it, else for a wait. A wait ends with an
activity. If the host had put that on the queue before the wait began, the GPU waited for another stream or
for the launch itself (``queued``). If not, the host was late, and what its thread did in the meantime is the
cause:

- ``input``: it loaded data, by a range of that name, or what it then sent is a batch;
- ``synchronization``: it had waited for the GPU, and could prepare nothing ahead;
- ``launch``: it launches as fast as it can, and the kernels are shorter than that;
- ``host``: something else, for a millisecond or more.

``unexplained``: the call that put it on the queue is not in the profile.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from dutycycle.profile.export import (
    BLOCKS,
    COPY,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    LAUNCHES,
    PEER,
    WAITS,
    Export,
)

COMPUTE, COMMUNICATION, TO_GPU, FROM_GPU = range(4)
INPUT, SYNCHRONIZATION, LAUNCH, HOST = "input", "synchronization", "launch", "host"
QUEUED, UNEXPLAINED = "queued", "unexplained"
_LONG_NS = 1_000_000
"""What a host that only launches needs at most: a wait that is longer has another cause."""
_BATCH_BYTES = 1 << 16
_LAUNCHES_HELD = 50_000
"""The queue of a stream has about a thousand places."""
_LOADS_HELD = 64


class Launch(NamedTuple):
    """Holds a call that put work on a queue. ``issued``: when that was on it, at the latest; a call that
    copies may last as long as the copy, and counts from its beginning."""

    start: int
    issued: int
    thread: int


@dataclass(slots=True)
class Union:
    """Sums the length of intervals that come by their start; what several cover counts once."""

    total: int = 0
    end: int | None = None

    def add(self, start: int, end: int) -> None:
        """Add one more interval, which begins no earlier than the one before."""
        if self.end is None or start > self.end:
            self.total += end - start
        elif end > self.end:
            self.total += end - self.end
        self.end = end if self.end is None else max(self.end, end)


@dataclass(slots=True)
class GpuTime:
    """Sums one GPU's time, in nanoseconds. ``unions[k]``: when it did anything of the first ``k + 1``
    sorts."""

    first: int
    last: int
    activities: int = 0
    late: int = 0
    """Activities that found the GPU idle since the host was late."""
    unions: tuple[Union, ...] = field(default_factory=lambda: tuple(Union() for _ in range(4)))
    copies: Union = field(default_factory=Union)
    waits: dict[str, int] = field(default_factory=dict)
    longest: tuple[int, int, str] = (0, 0, "")
    """Its longest wait: how long, from when, and for what."""

    @property
    def span(self) -> int:
        """Return the nanoseconds from its first activity to the end of its last."""
        return self.last - self.first

    @property
    def busy(self) -> int:
        """Return the nanoseconds while it did anything."""
        return self.unions[-1].total

    @property
    def overlapped(self) -> int:
        """Return the nanoseconds of copies between host and GPU while there were kernels."""
        return self.unions[COMMUNICATION].total + self.copies.total - self.busy

    def shares(self) -> dict[str, int]:
        """Return all of ``span`` by what it went to."""
        totals = [0, *(union.total for union in self.unions)]
        sorts = ("compute", "communication", "copies_to_gpu", "copies_from_gpu")
        shares = {name: totals[place + 1] - totals[place] for place, name in enumerate(sorts)}
        return shares | {f"wait_{cause}": self.waits.get(cause, 0) for cause in _CAUSES}

    def plain(self) -> dict[str, int]:
        """Return it as plain figures for JSON."""
        times = {"span_ns": self.span, "busy_ns": self.busy, "activities": self.activities}
        shares = {f"{part}_ns": value for part, value in self.shares().items()}
        return times | shares | {"longest_wait_ns": self.longest[0], "longest_wait_at_ns": self.longest[1]}


_CAUSES = (INPUT, SYNCHRONIZATION, LAUNCH, HOST, QUEUED, UNEXPLAINED)


class ProfileTimeline:
    """Reads a profile in the order of time, and holds little of it."""

    def __init__(self) -> None:
        self.gpus: dict[int, GpuTime] = {}
        self._launches: OrderedDict[tuple[int, int], Launch] = OrderedDict()
        self._waited: dict[int, int] = {}
        self._loads: deque[tuple[int, int]] = deque(maxlen=_LOADS_HELD)

    def read(self, export: Export) -> None:
        """Read all activities, calls and loads of a profile, in the order of their starts."""
        devices = export.devices()
        for start, which, end, owner, process, correlation, flags, size in export.rows(
            "the timeline", _ORDERED
        ):
            key = process, correlation
            if which == _OF_CALL:
                if flags & WAITS:
                    self._waited[owner] = end
                if flags & LAUNCHES and correlation is not None:
                    self._launches[key] = Launch(start, start if flags & BLOCKS else end, owner)
                    if len(self._launches) > _LAUNCHES_HELD:
                        self._launches.popitem(last=False)
            elif which == _OF_LOAD:
                self._loads.append((start, end))
            elif end > start >= 0:
                gpu = devices.get((process, owner), owner)
                self._activity(gpu, start, end, key, flags, size or 0)

    def _activity(
        self, device: int, start: int, end: int, key: tuple[int, int], sort: int, size: int
    ) -> None:
        gpu = self.gpus.setdefault(device, GpuTime(start, end))
        gpu.activities += 1
        idle_since = gpu.unions[-1].end
        if idle_since is not None and start > idle_since:
            cause = self._cause(idle_since, start, key, size if sort == TO_GPU else 0)
            gpu.waits[cause] = gpu.waits.get(cause, 0) + start - idle_since
            gpu.late += cause not in (QUEUED, UNEXPLAINED)
            gpu.longest = max(gpu.longest, (start - idle_since, idle_since, cause))
        gpu.last = max(gpu.last, end)
        for union in gpu.unions[sort:]:
            union.add(start, end)
        if sort in (TO_GPU, FROM_GPU):
            gpu.copies.add(start, end)

    def _cause(self, begin: int, end: int, key: tuple[int, int], sent: int) -> str:
        launch = self._launches.get(key)
        if launch is None:
            return UNEXPLAINED
        if launch.issued <= begin:
            return QUEUED
        is_long = end - begin >= _LONG_NS
        if launch.start > begin:
            loading = Union()  # loads that overlap count once
            for start, until in self._loads:
                if until > begin and start < launch.start:
                    loading.add(max(start, begin), min(until, launch.start))
            if 2 * loading.total >= launch.start - begin:
                return INPUT
        if is_long:
            return INPUT if sent >= _BATCH_BYTES else HOST
        return SYNCHRONIZATION if self._waited.get(launch.thread, 0) >= begin else LAUNCH


_OF_CALL, _OF_LOAD, _OF_GPU = range(3)
_ORDERED = f"""
WITH calling AS MATERIALIZED (SELECT id, does(CAST(value AS BLOB)) AS flags FROM StringIds
    WHERE does(CAST(value AS BLOB)) > 0),
talking AS MATERIALIZED (SELECT id FROM StringIds WHERE communicates(CAST(value AS BLOB)))
SELECT start, {_OF_CALL}, end, thread, process, correlation, flags, NULL
FROM calls CROSS JOIN calling ON calling.id = name
UNION ALL SELECT start, {_OF_LOAD}, end, NULL, NULL, NULL, NULL, NULL FROM ranges
WHERE loads(CAST(name AS BLOB))
UNION ALL SELECT start, {_OF_GPU}, end, device, process, correlation, CASE
    WHEN what = {COPY} AND copy IN {HOST_TO_DEVICE} THEN {TO_GPU}
    WHEN what = {COPY} AND copy IN {DEVICE_TO_HOST} THEN {FROM_GPU}
    WHEN what = {COPY} AND copy = {PEER} THEN {COMMUNICATION}
    WHEN name IN talking THEN {COMMUNICATION}
    ELSE {COMPUTE} END, bytes
FROM activities
ORDER BY 1, 2
"""
