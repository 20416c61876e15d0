"""Announces workloads that are proven idle, and stops them later. What is in doubt is not stopped."""

import time
from dataclasses import dataclass
from typing import Any

import orjson

from dutycycle.contract.units import rfc3339
from dutycycle.kube.discovery import POD
from dutycycle.kube.errors import BusyError, GoneError, KubeError
from dutycycle.kube.events import CULLER, EVENT, Occurrence, new_event
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef
from dutycycle.kube.stops import Stop, kind_of, manager_of, stop_of
from dutycycle.telemetry.events import Telemetry
from sinks.culling.ledger import CullLedger
from sinks.culling.verdicts import IdlePods, IdleWorkload, unproven
from sinks.events import CULL_ANNOUNCED, CULL_FAILED, CULL_LIMIT, CULLED

WOULD_STOP, STOPS, STOPPED = "IdleWouldStop", "IdleStops", "IdleStopped"
_LONGEST_NOTE = 1024  # the API server refuses an Event with a longer one


@dataclass(frozen=True, slots=True)
class CullPolicy:
    """Says when and what is culled. ``after_ms``: idle for so long. ``notice_ms``: from the announcement to
    the stop. ``daily``: at most so many on a day (UTC). ``dry_run``: announce alone. ``prefix``: of our
    annotations and labels."""

    namespaces: tuple[str, ...]
    after_ms: int
    notice_ms: int
    daily: int
    dry_run: bool
    prefix: str

    @property
    def keep_label(self) -> str:
        """Return the label by which a workload, or one of its pods, is exempt."""
        return f"{self.prefix}/keep"


class Culler:
    """Culls: call ``round`` once a minute. ``by``: who is said to have done it."""

    def __init__(
        self, idle: IdlePods, server: ApiServer, ledger: CullLedger, policy: CullPolicy, telemetry: Telemetry,
        *, by: str,
    ) -> None:  # fmt: skip
        self._idle, self._server, self._ledger = idle, server, ledger
        self._policy, self._telemetry, self._by = policy, telemetry, by
        self._announced: set[tuple[str, int]] = set()
        """In a dry run: workloads that were said, by uid and since when they are idle."""

    async def round(self) -> None:
        """Look at all that is idle. One that fails is tried again in the next round."""
        now_ms = round(time.time() * 1000)
        workloads = [
            workload
            for workload in self._idle.workloads(now_ms, self._policy.after_ms)
            if workload.namespace in self._policy.namespaces
        ]
        if not self._policy.dry_run:
            await self._ledger.load()
            await self._ledger.forget_all_but(workloads)
        for workload in workloads:
            try:
                await self._consider(workload, now_ms)
            except KubeError as error:
                self._telemetry.emit(CULL_FAILED, f"{workload}: {error}")
                await self._ledger.load()

    async def _consider(self, workload: IdleWorkload, now_ms: int) -> None:
        kind = kind_of(workload.job)
        if kind is None:
            return
        thing = await self._server.read(kind, workload.job.name, workload.namespace)
        meta = thing["metadata"]
        stop = stop_of(workload.job, workload.namespace, thing, now_ms)
        if meta["uid"] != workload.job.uid or stop is None or self._is_kept(meta):
            return
        if manager_of(thing) is not None:
            return  # it would lose its work, and hold its GPUs again a moment later
        pods = [pod async for pod in self._server.whole(POD, workload.namespace)]
        proven = {pod.uid for pod in workload.pods}
        if unproven(workload, pods) is not None:
            return
        if any(self._is_kept(pod["metadata"]) for pod in pods if pod["metadata"]["uid"] in proven):
            return
        if self._policy.dry_run:
            if (workload.job.uid, workload.since_ms) not in self._announced:
                note = (
                    f"{_evidence(workload)}. It would be stopped, if this were no dry run; {self._exempt()}"
                )
                await self._write_event(workload, WOULD_STOP, note, now_ms)
                self._telemetry.emit(CULL_ANNOUNCED, f"{workload}: {note}")
                self._announced.add((workload.job.uid, workload.since_ms))
            return
        announced_ms = self._ledger.announced_ms(workload)
        if announced_ms is None:
            note = (
                f"{_evidence(workload)}. If that goes on it is stopped after "
                f"{rfc3339(now_ms + self._policy.notice_ms)}; {self._exempt()}"
            )
            await self._write_event(workload, STOPS, note, now_ms)  # who is to know of it knows first
            await self._ledger.announce(workload, now_ms)
            self._telemetry.emit(CULL_ANNOUNCED, f"{workload}: {note}")
        elif now_ms - announced_ms >= self._policy.notice_ms and self._has_room(now_ms):
            await self._stop(workload, stop, meta["resourceVersion"], now_ms)

    def _is_kept(self, meta: Any) -> bool:
        """Tell whether an object is exempt, by a label with any value but ``false``."""
        labels = meta.get("labels") or {}
        return bool(labels.get(self._policy.keep_label, "false") != "false")

    def _has_room(self, now_ms: int) -> bool:
        if self._ledger.stopped_on(now_ms) < self._policy.daily:
            self._telemetry.clear_condition(CULL_LIMIT, "", "another day has begun")
            return True
        limit = f"{self._policy.daily} were stopped today: what else is idle is stopped tomorrow"
        self._telemetry.raise_condition(CULL_LIMIT, "", limit)
        return False

    async def _stop(self, workload: IdleWorkload, stop: Stop, version: str, now_ms: int) -> None:
        entry = {
            "at": rfc3339(now_ms), "by": self._by, "workload": str(workload), "uid": workload.job.uid,
            "does": stop.does, "why": _evidence(workload), "undo": stop.undo,
        }  # fmt: skip
        await self._ledger.note(entry, now_ms)
        kind = kind_of(workload.job)
        assert kind is not None  # noqa: S101 - it was read
        annotations = {f"{self._policy.prefix}/culled": orjson.dumps(entry).decode()}
        annotations |= stop.change.get("metadata", {}).get("annotations", {})
        # As it was looked at: what somebody has changed meanwhile is looked at again.
        meta = {"uid": workload.job.uid, "resourceVersion": version, "annotations": annotations}
        await self._server.merge(
            kind, workload.job.name, workload.namespace, {**stop.change, "metadata": meta}
        )
        self._telemetry.emit(CULLED, f"{workload}: {stop.does}: {entry['why']}")
        note = f"{stop.does} by {self._by}: {entry['why']}. To begin it again: {stop.undo}"
        await self._write_event(workload, STOPPED, note[0].upper() + note[1:], now_ms)

    async def _write_event(self, workload: IdleWorkload, reason: str, note: str, now_ms: int) -> None:
        job = workload.job
        ref = ObjectRef(job.api_version, job.kind, job.name, workload.namespace, job.uid)
        occurrence = Occurrence(ref, reason, "Warning", workload.since_ms, note[:_LONGEST_NOTE])
        try:
            await self._server.create(EVENT, new_event(occurrence, now_ms, CULLER, "Culling"))
        except BusyError as error:
            if error.reason != "409":  # it is there already
                raise
        except GoneError as error:  # the namespace is about to go
            self._telemetry.emit(CULL_FAILED, f"{workload}: its Event: {error}")

    def _exempt(self) -> str:
        return f"the label {self._policy.keep_label}=true keeps it"


def _evidence(workload: IdleWorkload) -> str:
    names = ", ".join(pod.name for pod in workload.pods[:5]) + (", …" if len(workload.pods) > 5 else "")
    count = f"{len(workload.pods)} pods" if len(workload.pods) > 1 else "pod"
    return f"The GPUs of its {count} ({names}) were not used since {rfc3339(workload.since_ms)}"
