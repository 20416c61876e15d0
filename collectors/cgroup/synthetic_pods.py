"""Makes records of the topic ``pods`` for what is no pod: containers and units, which no API server names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collectors.attribution.cgroup_path import CgroupId
from collectors.base import Tick
from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.units import printable_text

_LONGEST = 512
_REPEAT_S = 300.0
"""So that a reader who joined late, or a trace that begins in the middle, learns the names too."""


@dataclass(slots=True)
class _SyntheticPod:
    """Holds one synthetic pod. Times in monotonic seconds; ``gone_s`` None while it is there."""

    id: CgroupId
    published_s: float
    gone_s: float | None = None


class SyntheticPods:
    """Makes a record for each that came or went, and a tombstone ``retire_s`` seconds after it went."""

    def __init__(self, retire_s: float) -> None:
        self._retire_s = retire_s
        self._known: dict[str, _SyntheticPod] = {}

    def update(self, present: Mapping[str, CgroupId], tick: Tick) -> Iterator[ProducerRecord]:
        """Yield the records that are new when exactly ``present`` (by uid) is there at ``tick``."""
        now = tick.monotonic_s
        for uid, who in present.items():
            known = self._known.get(uid)
            if known is None or known.gone_s is not None or now - known.published_s >= _REPEAT_S:
                self._known[uid] = _SyntheticPod(who, now)
                yield _record(uid, who, tick, finished=False)
        for uid, pod in [(uid, pod) for uid, pod in self._known.items() if uid not in present]:
            if pod.gone_s is None:
                pod.gone_s = now
                yield _record(uid, pod.id, tick, finished=True)
            elif now - pod.gone_s >= self._retire_s:
                del self._known[uid]
                yield ProducerRecord(topic="pods", key=uid, value=None, ts_ms=tick.ts_ms)


def _record(uid: str, who: CgroupId, tick: Tick, *, finished: bool) -> ProducerRecord:
    pod = Pod(
        uid=uid, namespace=who.namespace, name=label(who.name), node=tick.node,
        phase="Unknown" if finished else "Running", finished_ms=tick.ts_ms if finished else None,
    )  # fmt: skip
    return ProducerRecord(topic="pods", key=uid, value=encode(pod), ts_ms=tick.ts_ms)


def label(name: str) -> str:
    """Return a cgroup's name as a record may carry it: a folder's name may be of any length and any bytes."""
    printable = printable_text(name)
    return printable if len(printable) <= _LONGEST else "…" + printable[1 - _LONGEST :]
