"""Decides what is worth a Kubernetes Event, and when it is due: first, and again while it holds. Pure.

Times are those of the samples. The moments of an Event and of its repetitions are decided by the occurrence
alone. So a sink that has just started, or another one, writes what is there already, and adds nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dutycycle.contract.health.verdict import fault_sentence, is_sick, rank, sentence
from dutycycle.contract.records.health import GpuEvent, NodeHealth
from dutycycle.contract.records.parts import JobInsight, PodInsight, WorkloadState
from dutycycle.contract.records.pods import is_name_key
from dutycycle.contract.units import rfc3339
from dutycycle.kube.events import Occurrence
from sinks.annotations.core.targets import Target, job_target, node_target, placed_target, pod_target

GPU_IDLE, CYCLE_LOST, GPU_UNHEALTHY, GPU_FAULT = "GpuIdle", "CycleLost", "GpuUnhealthy", "GpuFault"
_ANOMALIES = {
    "slow_steps": "StepsSlower", "hot_gpu": "GpuHotter", "slow_gpu": "GpuSlower", "power": "PowerUnusual",
    "hang": "RankHangs", "stall": "TrainingStalls", "frozen": "GpuFiguresFrozen",
}  # fmt: skip
"""The reason of each kind of anomaly that we know."""
AFTER_MS = {GPU_IDLE: 1_800_000, CYCLE_LOST: 600_000}
"""How long it has to hold, by reason: as for the alerts ``PodHoldsIdleGpu`` and ``CycleLost``. An anomaly has
held for some minutes when it is found."""
REPEAT_MS = 1_800_000
"""Kubernetes forgets an Event after an hour without a change, and what still holds should be seen."""
FRESH_MS = 300_000
"""An Event says what holds now: not what a sink that is behind reads of the past."""
_WAITS_MS = 1_800_000
"""So long a fault that hit a pod waits to be written: it is told once, and a state again and again."""
_MISSED_MS = 6 * 3_600_000
"""A cycle that was lost longer ago is not missed any more: so says the alert, too."""
_LONGEST_NOTE = 1024
"""Characters that the API server takes."""
MOST = 10_000
"""Objects at once; beyond, those are given up of which was heard the longest ago."""


@dataclass(frozen=True, slots=True)
class Due:
    """Describes an Event to write: for the ``count``-th time, as of ``at_ms``. ``known_as``: where it was
    found."""

    target: Target
    occurrence: Occurrence
    count: int
    at_ms: int
    known_as: str = ""


@dataclass(slots=True)
class _Occurrence:
    seen_ms: int = 0
    holds: tuple[Occurrence, ...] = ()
    waits: bool = False
    """Whether it was due while it was news, and is not written yet."""
    not_before_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    """By reason and fault."""


class Occurrences:
    """Keeps what holds of each pod and job, from the newest record of each."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.given_up = 0
        """Faults that hit pods, and were not written in time."""
        self._entries: OrderedDict[tuple[Target, str], _Occurrence] = OrderedDict()
        """By object and, of what hit it, the fault; the state of an object has none."""

    def take(self, record: PodInsight | JobInsight | NodeHealth | GpuEvent) -> None:
        """Take a record."""
        if isinstance(record, NodeHealth):
            self._note(node_target(record.node), record.ts_ms, lambda target: _sick(record, target))
        elif isinstance(record, GpuEvent):
            self._note_fault(record)
        elif (state := record.state) is not None:
            self._note(target_of(record), state.seen_ms, lambda target: _holding(record, target, state))

    def _note(
        self, target: Target | None, seen_ms: int, holding: Callable[[Target], Iterator[Occurrence]]
    ) -> None:
        if target is not None:
            self._keep((target, ""), seen_ms, tuple(holding(target)))

    def _note_fault(self, event: GpuEvent) -> None:
        """Note it of each pod that used the GPU: one that goes on is one Event, as others that hold."""
        if event.kind == "state" or event.severity == "info":
            return
        if event.kind != "xid" and event.severity != "fatal":
            return  # rows that were remapped, and such: the node's concern
        fault = f"{event.gpu}/{event.kind}/{event.code}"
        for pod in event.pods or ():
            if pod.namespace is None or pod.name is None or is_name_key(pod.uid):
                continue
            if (target := placed_target(pod.namespace, pod.name, pod.uid)) is not None:
                known = self._entries.get((target, fault))
                if known is not None and known.seen_ms < event.ts_ms - FRESH_MS:
                    del self._entries[target, fault]  # that one was over
                    known = None
                since_ms = event.ts_ms if known is None else known.holds[0].since_ms
                note = fault_sentence(event)[:_LONGEST_NOTE]
                hold = Occurrence(target.ref, GPU_FAULT, "Warning", since_ms, note, fault)
                self._keep((target, fault), event.ts_ms, (hold,))

    def _keep(self, key: tuple[Target, str], seen_ms: int, holds: tuple[Occurrence, ...]) -> None:
        entry = self._entries.setdefault(key, _Occurrence())
        entry.seen_ms, entry.holds = seen_ms, holds
        self._entries.move_to_end(key)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def due(self, now_ms: int) -> list[Due]:
        """Return the Events to write now. Forgets what was not heard of lately: it may hold no more."""
        repetitions = []
        for key, entry in list(self._entries.items()):
            if entry.seen_ms < now_ms - (_WAITS_MS if entry.waits else FRESH_MS):
                self.given_up += entry.waits
                del self._entries[key]
                continue
            due = []
            for hold in entry.holds:
                first_ms = hold.since_ms + AFTER_MS.get(hold.reason, 0)
                if entry.seen_ms >= max(first_ms, entry.not_before_ms.get((hold.reason, hold.fault), 0)):
                    repeats = (entry.seen_ms - first_ms) // REPEAT_MS
                    due.append(Due(key[0], hold, repeats + 1, first_ms + repeats * REPEAT_MS, key[1]))
            entry.waits = bool(due and key[1])
            repetitions += due
        return repetitions

    def done(self, due: Due) -> None:
        """Note that an Event was written, or never can be."""
        if entry := self._entries.get((due.target, due.known_as)):
            entry.not_before_ms[due.occurrence.reason, due.occurrence.fault] = due.at_ms + REPEAT_MS
            entry.waits = False

    def clear(self) -> None:
        """Know nothing any more."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


def target_of(record: PodInsight | JobInsight) -> Target | None:
    """Return the object that the record is about; None where Kubernetes has none."""
    if isinstance(record, PodInsight):
        return pod_target(record.pod)
    return job_target(record.job, record.namespace)


def _holding(record: PodInsight | JobInsight, target: Target, state: WorkloadState) -> Iterator[Occurrence]:
    if state.idle_since_ms is not None:
        since = rfc3339(state.idle_since_ms)
        note = f"It holds GPUs and has used none of them since {since}"
        yield Occurrence(target.ref, GPU_IDLE, "Normal", state.idle_since_ms, note)
    kinds: set[str] = set()
    for anomaly in record.insight.anomalies:
        if anomaly.kind in _ANOMALIES and anomaly.kind not in kinds:  # the first of its kind
            kinds.add(anomaly.kind)
            note = f"Since {rfc3339(anomaly.since_ms)}: {anomaly.advice or anomaly.kind}"
            yield Occurrence(target.ref, _ANOMALIES[anomaly.kind], "Warning", anomaly.since_ms, note)
    of_a_job = isinstance(record, PodInsight) and target_of_job(record) is not None
    lost_ms = state.lost_ms
    if lost_ms is not None and not of_a_job and state.seen_ms - lost_ms < _MISSED_MS:
        note = f"It has stopped stepping: its GPUs had a cycle, and have had none since {rfc3339(lost_ms)}"
        yield Occurrence(target.ref, CYCLE_LOST, "Warning", lost_ms, note)


def _sick(record: NodeHealth, target: Target) -> Iterator[Occurrence]:
    """Yield one for each GPU that should get no more work, the worst first; another when it gets worse."""
    for gpu in sorted(record.gpus, key=lambda gpu: -rank(gpu.level)):
        if is_sick(gpu):
            note, fault = sentence(gpu)[:_LONGEST_NOTE], f"{gpu.gpu}/{gpu.level}"
            yield Occurrence(target.ref, GPU_UNHEALTHY, "Warning", gpu.since_ms, note, fault)


def target_of_job(record: PodInsight) -> Target | None:
    """Return the job of a pod, which says of itself that it lost its cycle."""
    pod = record.pod
    return None if pod.job is None else job_target(pod.job, pod.namespace)
