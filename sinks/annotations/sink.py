"""Holds the sink that annotates Kubernetes objects: which is due, and what to do when a write does not
succeed."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.records.derived import JobPeaks, PodPeaks
from dutycycle.contract.records.health import GpuEvent, NodeHealth
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.kube.errors import BusyError, GoneError, KubeError, NoKindError
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import WRITE_REJECTED, WRITE_RETRIED, Telemetry
from sinks.annotations.beside import BesideWriter
from sinks.annotations.core.desired import TOPICS, Annotations
from sinks.annotations.core.schedule import DueWrite, WritePlan, WritePolicy
from sinks.annotations.core.targets import Target
from sinks.annotations.forbidden import RETRY_S, ForbiddenKindError, Refusals
from sinks.annotations.heartbeats import Heartbeats
from sinks.annotations.node_labels import NodeLabels
from sinks.annotations.object_events import ObjectEvents
from sinks.annotations.writer import AnnotationWriter, Written
from sinks.base import PendingOffsets
from sinks.deadletters import DeadLetters
from sinks.events import ANNOTATION_SHED, NO_KIND, OBJECT_GONE, PERMISSION_MISSING, SINK_AWAY
from sinks.metrics import count_writes
from sinks.permissions import missing_permission

WRITERS = 8
"""So many writes are under way at once, at most."""
SAMPLE_SHARE = 3
"""A node's samples are looked at three times an interval, or a renewal of its Lease where that is shorter;
those between are passed over undecoded."""
_SAMPLE_WAITS = 10
"""After so many intervals without a sample of a node, what was found about its GPUs is given up."""
_MOST_FAILURES = 12
"""After so many in a row, some seven minutes, the records of an object that fails while others are written
count as done: a kind whose conversion webhook is gone for good would keep all of its partition from being
acknowledged. An API server that can write nothing, as its etcd is full, is waited for."""
_FIRST_PAUSE_S = 1.0
_DRAIN_S = 5.0
_LOOK_S = 1.0
_LONGEST_PAUSE_S = 60.0
_SAMPLES, _FAULTS = "nvml-samples", "gpu-events"


class AnnotationSink:
    """Holds what objects should carry until it is written; the newest value wins."""

    name = "annotations"

    def __init__(
        self,
        server: ApiServer,
        policy: WritePolicy,
        letters: DeadLetters,
        telemetry: Telemetry,
        *,
        may_write: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._letters = letters
        self._telemetry = telemetry
        self._clock = clock
        self._may_write = may_write
        self._interval_s = policy.interval_s
        period_s = min(policy.interval_s, policy.heartbeat_s or policy.interval_s)
        self._sample_gap_ms = period_s * 1000 / SAMPLE_SHARE
        self._annotations = Annotations(policy.prefix)
        self._refusals = Refusals(telemetry, clock)
        self._writer = AnnotationWriter(
            server, policy.prefix, self._annotations, self._refusals, telemetry, clock
        )
        self._beside: list[BesideWriter[Any]] = []
        if policy.heartbeat_s:
            self._beside.append(Heartbeats(server, policy.heartbeat_s, self.name, telemetry, clock))
        if policy.labels:
            holds = self._annotations.conditions
            self._beside.append(NodeLabels(server, policy.prefix, holds, self.name, telemetry, clock))
        if policy.events:
            self._beside.append(ObjectEvents(server, self.name, telemetry, clock))
        self.topics: tuple[str, ...] = (*TOPICS, _FAULTS) if policy.events else TOPICS
        self._plan = WritePlan(policy.interval_s, policy.most)
        self._origins: dict[Target, ConsumerRecord] = {}
        self._failures: dict[Target | None, int] = {}
        self._patches = 0
        self._patches_before: dict[Target, int] = {}
        """Says of objects that fail how many objects had been written when that began."""
        self._told: set[Target] = set()
        self._sampled: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._writing: set[asyncio.Future[None]] = set()
        self._draining = False
        self._generation = 0
        self._silent = 0

    def wants(self, origin: ConsumerRecord) -> bool:
        """Take peaks, what was found about a node's GPUs, and now and then its sample."""
        if origin.value is None:
            return False
        if origin.topic == _SAMPLES:
            node = origin.key or ""
            return not 0 <= origin.ts_ms - self._sampled.get(node, origin.ts_ms + 1) < self._sample_gap_ms
        return True

    def take(self, origin: ConsumerRecord, record: Any) -> None:
        """Note what the record changes."""
        for writer in self._beside:
            writer.take(record)
        if isinstance(record, GpuEvent):
            return
        urgent = isinstance(record, NodeHealth) and self._annotations.is_judged_anew(record)
        target = self._annotations.take(record)
        if isinstance(record, NvmlSample):
            self._sampled[record.node] = origin.ts_ms
            for writer in self._beside if target is not None else ():
                writer.sampled(record.node, record.ts_ms)
        if target is None:
            return
        final = record.final if isinstance(record, PodPeaks | JobPeaks) else None
        self._origins[target] = origin
        shed = self._plan.touch(
            target, origin.topic_partition, origin.offset, final=final, now=self._clock(), urgent=urgent
        )
        if shed is not None:
            self._forget(shed.target)
            if shed.lost:
                self._telemetry.emit(ANNOTATION_SHED, str(shed.target), final=str(shed.final).lower())
        self._wake.set()

    async def room(self) -> None:
        """Return at once, as there always is room: past a bound, the object that was touched longest ago is
        given up."""

    def pending_offsets(self) -> PendingOffsets:
        """Return the records whose annotations are not written yet."""
        return self._plan.pending_offsets()

    @property
    def pending(self) -> int:
        """Return how many objects are to be written now."""
        return self._plan.pending(self._clock())

    def forget(self) -> None:
        """Know nothing any more; what is there is read anew."""
        self._generation += 1
        self._draining = False
        self._annotations.clear()
        self._writer.clear()
        self._plan.clear()
        self._refusals.forget()
        for writer in self._beside:
            writer.forget()
        for memory in (self._origins, self._failures, self._patches_before, self._told, self._sampled):
            memory.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write what is due, several objects at once, until cancelled."""

        def may_renew() -> bool:
            return self._may_begin() and not self._plan.is_on_hold(self._clock())

        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._work())
            for writer in self._beside:
                group.create_task(writer.run(may_renew))

    async def drain(self) -> None:
        """Begin nothing more, and let end what is under way: it would overwrite what the next worker writes.

        What is not written yet is read again by whoever comes next.
        """
        self._draining = True
        if self._writing:
            await asyncio.wait(self._writing, timeout=_DRAIN_S)

    async def close(self) -> None:
        """Give the connections back."""
        await self._server.close()

    def _may_begin(self) -> bool:
        return not self._draining and self._may_write()

    async def _work(self) -> None:
        while True:
            may = self._may_begin()
            due = self._plan.next_due(self._clock()) if may else None
            if due is not None:
                over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._writing.add(over)  # ``drain`` waits for it
                try:
                    await self._write(due)
                finally:
                    self._writing.discard(over)
                    over.set_result(None)
                continue
            # Nothing was awaited since ``next_due``: so no call to wake up is lost here.
            self._wake.clear()
            try:
                async with asyncio.timeout(self._plan.wait_s(self._clock()) if may else _LOOK_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _write(self, due: DueWrite) -> None:
        target = due.target
        if target.kind == "node" and not self._annotations.knows_gpus_of(target.name):
            # No sample of the node came yet: what was found about its GPUs is held, as one comes any moment.
            self._failures[target] = self._failures.get(target, 0) + 1
            if self._failures[target] > _SAMPLE_WAITS:
                self._forget(target)
            else:
                self._plan.failed(target, self._clock() + self._interval_s)
            return
        refusal = self._refusals.refusal(target)
        if refusal is not None:
            # What is there, and of no kind that is left out on purpose, waits until a role lets us write it.
            if refusal.event is PERMISSION_MISSING:
                self._plan.forbidden(target, refusal.until)
            else:
                self._forget(target)
            return
        generation, answered = self._generation, self._server.answered
        try:
            written = await self._writer.write(due)
        except KubeError as error:
            if generation == self._generation:  # else it is another worker's, or ours anew
                await self._failed(target, error)
        else:
            if generation == self._generation:
                if self._server.answered > answered:
                    # Note that the API server has answered. A write with nothing to send asks it nothing,
                    # and proves nothing.
                    self._silent = 0
                    self._failures.pop(None, None)
                    self._telemetry.clear_condition(SINK_AWAY, self.name, f"{self._server.address} answers")
                self._succeeded(target, written)

    async def _failed(self, target: Target, error: KubeError) -> None:
        # An answer fails to come, and only answers to others tell that from an API server that is away: it
        # hangs, or one behind it that serves a kind for it, an aggregated API, is not there (503 without
        # ``Retry-After``).
        is_silence = error.reason == "timeout" or (error.reason == "503" and error.retry_after_s is None)
        if not is_silence:
            self._silent = 0
        if isinstance(error, GoneError):
            # Should the object be there later, the next record tells.
            if isinstance(error, ForbiddenKindError):
                self._refusals.add(target, error)
            elif isinstance(error, NoKindError):
                self._telemetry.emit(NO_KIND, f"{target}: {error}")
            else:
                self._refusals.add_gone(target)
                self._telemetry.emit(OBJECT_GONE, str(target), kind=target.kind)
            self._forget(target)
        elif isinstance(error, BusyError):
            # Where nothing else would fare better, everything is held back for as long.
            self._telemetry.emit(WRITE_RETRIED, f"{target}: {error}", sink=self.name, reason=error.reason)
            self._silent += is_silence
            # It hangs or is away, and not for one object or kind alone.
            everything = (error.everything and not is_silence) or self._silent >= WRITERS
            whose = None if everything else target
            failures = self._failures.get(whose, 0)
            # Writers that were under way fail with the first: an outage has not lasted longer by that.
            if not (failures and everything and self._plan.is_on_hold(self._clock())):
                failures = self._failures[whose] = failures + 1
            backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, failures=failures - 1)
            until = self._clock() + (error.retry_after_s or 0.0) + backoff.next_s()
            if everything:
                self._telemetry.raise_condition(SINK_AWAY, self.name, f"{error}; trying again")
                self._plan.hold(until)
            is_alone = self._patches > self._patches_before.setdefault(target, self._patches)
            if everything or failures < _MOST_FAILURES or not is_alone:
                self._plan.failed(target, until)
            elif await self._send_letter(target, error):
                self._plan.forbidden(target, until)
        else:
            await self._refused(target, error)

    def _succeeded(self, target: Target, written: Written | None) -> None:
        self._failures.pop(target, None)
        self._patches_before.pop(target, None)
        self._told.discard(target)
        if written is None:
            self._plan.skipped(target, self._clock())
            return
        self._plan.written(target, self._clock(), written.changed)
        if written.sent:
            self._patches += 1
            count_writes(self._telemetry, self.name)
        if self._plan.is_over(target):
            self._forget(target)

    async def _refused(self, target: Target, error: KubeError) -> None:
        """Count it; the record goes to the dead letters once, until a write of this object succeeds.

        What lacks a permission is tried again, and is said once for all objects of a kind.
        """
        lacks = missing_permission(str(error)) if error.reason == "403" else ""
        if lacks and not self._refusals.add(target, error):
            self._plan.forbidden(target, self._clock() + RETRY_S)
            return
        self._telemetry.emit(
            WRITE_REJECTED, f"{target}: {error}", about=lacks, sink=self.name, reason=error.reason
        )
        if not await self._send_letter(target, error):
            return
        if lacks:
            self._plan.forbidden(target, self._clock() + RETRY_S)
        else:
            self._plan.refused(target, self._clock())

    async def _send_letter(self, target: Target, error: KubeError) -> bool:
        """Send the record to the dead letters, once until a write of this object succeeds. False: the worker
        ends, and the record stays unacknowledged."""
        origin = self._origins.get(target)
        if target not in self._told and origin is not None:
            if not await self._letters.send(origin, Reason.REJECTED, f"annotating {target}: {error}"):
                return False
            self._told.add(target)
        return True

    def _forget(self, target: Target) -> None:
        self._plan.drop(target)
        self._annotations.forget(target)
        self._writer.forget(target)
        self._origins.pop(target, None)
        self._failures.pop(target, None)
        self._patches_before.pop(target, None)
        self._told.discard(target)
