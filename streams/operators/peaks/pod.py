"""Merges the peaks of one pod: what its node's sources and the API server know of it, merged.

Parts are cumulative: the newest part of each accumulation counts. So the result does not depend on the order
in which the sources come.
"""

from typing import NamedTuple

from dutycycle.contract.codec import decode, encode, from_plain, to_plain
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.ownership.words import merged
from dutycycle.contract.records.derived import PodPeaks
from dutycycle.contract.records.parts import JobPart, PodPart
from dutycycle.contract.records.pods import Pod
from streams.operators.base import Emission, Operator, Snapshot
from streams.operators.columns.arrays import check_version
from streams.operators.keyed import decode_under_key
from streams.operators.peaks.merge import merge_scopes, merge_tallies, merge_totals, to_peaks
from streams.operators.peaks.processes import limit_processes

SNAPSHOT_VERSION = 2
_TOPIC = "pod-parts"


class _KeptPart(NamedTuple):
    """Holds a part as it came: decoded it takes several times the room."""

    samples: int
    text: bytes

    def decoded(self) -> PodPart:
        """Return the part."""
        return decode(PodPart, self.text, _TOPIC)


class PodOperator(Operator):
    """Keeps the state of one pod: who it is, and the newest part of each accumulation."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._pod: Pod | None = None
        self._gone = False
        self._ever_ended = False
        self._parts: dict[str, _KeptPart] = {}
        self._changed = False

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take a part; nothing is sent before ``flush``. Raises ``DecodeError``."""
        part = decode_under_key(PodPart, record.value, _TOPIC, key=self._uid)
        if part.source == "pods":
            self._pod, self._gone = part.pod or self._pod, part.gone
            # Else its job would take a part without an end for an older one if it had got one with an end.
            # No count: identities may come again.
            self._ever_ended = self._ever_ended or self._has_ended()
            self._changed = True
        else:
            name = f"{part.source}/{part.node}/{part.opened_ms}"
            known = self._parts.get(name)
            if known is None or part.samples >= known.samples:
                self._parts[name] = _KeptPart(part.samples, record.value or b"")
                self._changed = True
        return []

    def _has_ended(self) -> bool:
        return self._gone or (self._pod is not None and self._pod.finished)

    def flush(self) -> list[Emission]:
        """Return the pod's peaks so far, and what it adds to its job."""
        if not self._changed or not self._parts:
            return []
        self._changed = False
        parts = [self._parts[name].decoded() for name in sorted(self._parts)]
        pod = self._pod
        if pod is None:  # its identity did not come (yet): better shown by its uid than not at all
            pod = Pod(uid=self._uid, name=self._uid, node=parts[-1].node or "unknown", phase="Unknown")
        first = pod.first_seen_ms(min(part.first_ms for part in parts))
        last = max(first, *(part.last_ms for part in parts))
        tallies = merge_tallies(part.metrics for part in parts)
        processes, over = limit_processes(merge_scopes(part.processes for part in parts))
        omitted = sum(part.processes_omitted for part in parts) + over
        # The ticks of the source that saw the pod most often; sources tick side by side
        by_source: dict[str, int] = {}
        for part in parts:
            by_source[part.source] = by_source.get(part.source, 0) + part.samples
        samples = max(by_source.values())
        peaks = PodPeaks(
            pod=pod, first_ms=first, last_ms=last, samples=samples, final=self._has_ended(),
            metrics=to_peaks(tallies),
            gpus={scope: to_peaks(of) for scope, of in merge_scopes(part.gpus for part in parts).items()},
            processes={scope: to_peaks(of) for scope, of in processes.items()} or None,
            processes_omitted=omitted or None,
            attribution=merged(part.attribution for part in parts) or None,
            totals=merge_totals(part.totals for part in parts) or None,
        )  # fmt: skip
        outs: list[Emission] = [ProducerRecord("pod-peaks", self._uid, encode(peaks), last)]
        if pod.job is not None:
            of_job = JobPart(
                job=pod.job, namespace=pod.namespace, pod_uid=self._uid, pod_name=pod.name, node=pod.node,
                first_ms=first, last_ms=last, samples=sum(part.samples for part in parts), final=peaks.final,
                metrics=tallies, gpus=peaks.gpus, attribution=peaks.attribution or {},
                totals=peaks.totals, gone=self._gone,
                returned=(self._ever_ended and not peaks.final) or None,
            )  # fmt: skip
            outs.append(ProducerRecord("job-parts", pod.job.uid, encode(of_job), last))
        return outs

    def snapshot(self) -> Snapshot:
        """Return plain data."""
        return {
            "v": SNAPSHOT_VERSION,
            "pod": None if self._pod is None else to_plain(self._pod),
            "gone": self._gone,
            "ever_ended": self._ever_ended,
            "parts": {name: to_plain(part.decoded()) for name, part in self._parts.items()},
            "changed": self._changed,
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for one of another version."""
        check_version(plain, SNAPSHOT_VERSION, "a pod")
        self._pod = None if plain["pod"] is None else from_plain(Pod, plain["pod"], _TOPIC)
        self._gone = plain["gone"]
        parts = {name: from_plain(PodPart, part, _TOPIC) for name, part in plain["parts"].items()}
        self._parts = {name: _KeptPart(part.samples, encode(part)) for name, part in parts.items()}
        self._ever_ended = plain.get("ever_ended", self._has_ended())
        self._changed = plain["changed"]
