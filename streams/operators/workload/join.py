"""Spans of one pod from two sources, put together in the order of time, whatever order they come in.

A span of the GPU's side is complete once the other side has told of it or of a later one. So what comes out
is a function of the spans, and not of how two topics interleave, as long as neither is half an hour ahead
of the other.
"""

from collections import deque
from typing import Any, NamedTuple

from contract.codec import from_plain, to_plain
from contract.records.insight_parts import InsightPart
from streams.operators.workload.codes import SPAN_MS

TOPIC = "insight-parts"
MOST = 180
"""Spans that are kept of a source that is ahead: half an hour."""
MOST_WITHOUT_GPU = 36
"""The same of a pod that was never seen on a GPU: it is likely to have none."""


class Joint(NamedTuple):
    """A span of the GPU's side, and of the other if there is one."""

    gpu: InsightPart
    cgroup: InsightPart | None

    @property
    def end_ms(self) -> int:
        """Where the span ends."""
        return self.gpu.start_ms + SPAN_MS


class Join:
    """What waits for the other source."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[InsightPart]] = {"nvml": deque(), "cgroup": deque()}
        self._newest_ms = {"nvml": -1, "cgroup": -1}

    @property
    def has_cgroup(self) -> bool:
        """Whether the other side ever told of the pod."""
        return self._newest_ms["cgroup"] >= 0

    def is_repeat(self, part: InsightPart) -> bool:
        """Whether its source has told of that span, or of a later one."""
        return part.start_ms <= self._newest_ms[part.source]

    def take(self, part: InsightPart, *, gpus: bool = True) -> list[Joint]:
        """Take a part that is no repeat; the spans that are complete with it.

        ``gpus`` False: the pod asked for none, and until it is seen on one nothing is kept.
        """
        self._newest_ms[part.source] = part.start_ms
        self._waiting[part.source].append(part)
        done = self._complete()
        self._bound(gpus)
        return done

    def _complete(self) -> list[Joint]:
        gpu, cgroup = self._waiting["nvml"], self._waiting["cgroup"]
        done: list[Joint] = []
        while gpu and (self._newest_ms["cgroup"] >= gpu[0].start_ms or len(gpu) > MOST):
            one = gpu.popleft()
            while cgroup and cgroup[0].start_ms < one.start_ms:
                cgroup.popleft()
            there = bool(cgroup) and cgroup[0].start_ms == one.start_ms
            done.append(Joint(one, cgroup.popleft() if there else None))
        return done

    def _bound(self, gpus: bool) -> None:
        most = MOST if self._newest_ms["nvml"] >= 0 else MOST_WITHOUT_GPU if gpus else 0
        waiting = self._waiting["cgroup"]
        while len(waiting) > most:
            waiting.popleft()

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        waiting = {source: [to_plain(part) for part in parts] for source, parts in self._waiting.items()}
        return {"waiting": waiting, "newest_ms": dict(self._newest_ms)}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._newest_ms = dict(plain["newest_ms"])
        self._waiting = {
            source: deque(from_plain(InsightPart, part, TOPIC) for part in parts)
            for source, parts in plain["waiting"].items()
        }
