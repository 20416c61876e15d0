"""Joins the spans of one pod from its two sources, in the order of time, whatever order they come in.

A span of ``nvml`` is complete once ``cgroup`` has sent the same span or a later one. So what comes out is a
function of the spans, and not of how the two topics interleave, as long as neither is more than half an hour
ahead of the other. Where the clock of the node was set back, an epoch begins, by which a span that is older
than the last is told from one that comes again.
"""

from collections import deque
from typing import Any, NamedTuple

from dutycycle.contract.codec import from_plain, to_plain
from dutycycle.contract.records.parts import InsightPart
from streams.operators.workload.channels import SPAN_MS

TOPIC = "insight-parts"
_MAX_WAITING = 180
"""Spans that are kept of a source that is ahead: half an hour."""
_MAX_WAITING_UNSEEN = 36
"""The same for a pod that was never seen on a GPU: it is likely to have none."""
# Each time that the node's clock is set back is one more: the oldest are let go, so that state is bounded.
_MOST_EPOCHS = 4


class JoinedSpan(NamedTuple):
    """Holds a span of ``nvml``, and that of ``cgroup`` if there is one."""

    gpu: InsightPart
    cgroup: InsightPart | None

    @property
    def end_ms(self) -> int:
        """Return where the span ends."""
        return self.gpu.start_ms + SPAN_MS


class SpanJoin:
    """Keeps spans that wait for the other source."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[InsightPart]] = {"nvml": deque(), "cgroup": deque()}
        self._newest_ms = {"nvml": -1, "cgroup": -1}
        self._epochs: dict[str, dict[int, int]] = {"nvml": {}, "cgroup": {}}
        """The newest span of each of the last epochs, of which the present one comes last."""

    @property
    def has_cgroup(self) -> bool:
        """Tell whether ``cgroup`` ever sent a span of the pod."""
        return self._newest_ms["cgroup"] >= 0

    @property
    def has_gpu(self) -> bool:
        """Tell whether ``nvml`` ever sent a span of the pod."""
        return self._newest_ms["nvml"] >= 0

    def is_repeat(self, part: InsightPart) -> bool:
        """Tell whether its source has already sent that span, or a later one of its epoch."""
        return part.start_ms <= self._epochs[part.source].get(part.epoch_ms or 0, -1)

    def begins_epoch(self, part: InsightPart) -> bool:
        """Tell whether a part that is no repeat is of another epoch than those of its source before it."""
        epochs = self._epochs[part.source]
        return bool(epochs) and next(reversed(epochs)) != (part.epoch_ms or 0)

    def add(self, part: InsightPart, *, wants_gpu: bool = True) -> list[JoinedSpan]:
        """Take a part that is no repeat. Returns the spans that are complete with it.

        ``wants_gpu`` False: the pod asked for no GPU, so nothing is kept until it is seen on one.
        """
        epochs, epoch_ms = self._epochs[part.source], part.epoch_ms or 0
        if self.begins_epoch(part):
            self._waiting[part.source].clear()
        epochs.pop(epoch_ms, None)
        epochs[epoch_ms] = part.start_ms
        if len(epochs) > _MOST_EPOCHS:
            del epochs[next(iter(epochs))]
        self._newest_ms[part.source] = part.start_ms
        self._waiting[part.source].append(part)
        gpu, cgroup = self._waiting["nvml"], self._waiting["cgroup"]
        done: list[JoinedSpan] = []
        while gpu and (self._newest_ms["cgroup"] >= gpu[0].start_ms or len(gpu) > _MAX_WAITING):
            span = gpu.popleft()
            while cgroup and cgroup[0].start_ms < span.start_ms:
                cgroup.popleft()
            same = bool(cgroup) and cgroup[0].start_ms == span.start_ms
            done.append(JoinedSpan(span, cgroup.popleft() if same else None))
        most = _MAX_WAITING if self.has_gpu else _MAX_WAITING_UNSEEN if wants_gpu else 0
        while len(cgroup) > most:
            cgroup.popleft()
        return done

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        waiting = {source: [to_plain(part) for part in parts] for source, parts in self._waiting.items()}
        epochs = {source: [list(entry) for entry in of.items()] for source, of in self._epochs.items()}
        return {"waiting": waiting, "newest_ms": dict(self._newest_ms), "epochs": epochs}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._newest_ms = dict(plain["newest_ms"])
        self._epochs = {source: dict(of) for source, of in plain["epochs"].items()}
        self._waiting = {
            source: deque(from_plain(InsightPart, part, TOPIC) for part in parts)
            for source, parts in plain["waiting"].items()
        }
