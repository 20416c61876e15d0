"""The sink that annotates Kubernetes objects: which is due, and what to do when a write does not succeed."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from sinks.annotation_plan import Plan
from sinks.annotation_targets import Target
from sinks.annotation_writer import AnnotationWriter, Server
from sinks.annotations import TOPICS, Annotations
from sinks.deadletters import DeadLetters
from sinks.events import ANNOTATION_SHED, OBJECT_GONE, SINK_AWAY
from sinks.figures import wrote
from sinks.kube_errors import BusyError, GoneError, RefusedError
from sinks.origin import Origin
from sinks.progress import Held
from wire.deadletter import Reason
from wire.derived import JobPeaks, PodPeaks
from wire.events import WRITE_REJECTED, WRITE_RETRIED, Telemetry
from wire.samples import NvmlSample

WRITERS = 4
"""So many writes are under way at once, which is what protects the API server from us."""
SAMPLE_SHARE = 3
"""A node's samples are looked at three times an interval; those between are passed over undecoded."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_SAMPLES = "nvml-samples"
_PEAKS = ("pod-peaks", "job-peaks")


class AnnotationSink:
    """Holds what objects should carry until it is written; the newest value wins."""

    name = "annotations"
    topics: tuple[str, ...] = TOPICS

    def __init__(
        self,
        server: Server,
        prefix: str,
        interval_s: float,
        letters: DeadLetters,
        telemetry: Telemetry,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._server = server
        self._letters = letters
        self._telemetry = telemetry
        self._clock = clock
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._sample_gap_ms = interval_s * 1000 / SAMPLE_SHARE
        self._annotations = Annotations(prefix)
        self._writer = AnnotationWriter(server, prefix, self._annotations, telemetry)
        self._plan = Plan(interval_s)
        self._origins: dict[Target, Origin] = {}
        self._failures: dict[Target | None, int] = {}
        self._told: set[Target] = set()
        self._sampled: dict[str, int] = {}
        self._wake = asyncio.Event()

    def wants(self, origin: Origin) -> bool:
        """Peaks, what is about a GPU, and now and then a node's sample."""
        if origin.value is None:
            return False
        if origin.topic == _SAMPLES:
            node = (origin.key or b"").decode("utf-8", "replace")
            return not 0 <= origin.ts_ms - self._sampled.get(node, origin.ts_ms + 1) < self._sample_gap_ms
        return origin.topic in _PEAKS or (origin.key or b"").startswith(b"gpu/")

    def take(self, origin: Origin, record: Any) -> None:
        """Note what the record changes."""
        target = self._annotations.take(record)
        if isinstance(record, NvmlSample):
            self._sampled[record.node] = origin.ts_ms
        if target is None:
            return
        final = isinstance(record, PodPeaks | JobPeaks) and record.final
        self._origins[target] = origin
        shed = self._plan.touch(target, origin.place, origin.offset, final=final, now=self._clock())
        if shed is not None:
            self._forget(shed.target)
            if shed.lost:
                self._telemetry.emit(ANNOTATION_SHED, str(shed.target))
        self._wake.set()

    async def room(self) -> None:
        """There always is: past a bound, the object that was touched longest ago is given up."""

    def held(self) -> Held:
        """The records whose annotations are not written yet."""
        return self._plan.held()

    @property
    def pending(self) -> int:
        """How many objects wait to be written."""
        return self._plan.pending

    def forget(self) -> None:
        """Know nothing any more; what is there is read anew."""
        self._annotations.clear()
        self._writer.clear()
        self._plan.clear()
        for memory in (self._origins, self._failures, self._told, self._sampled):
            memory.clear()

    async def run(self) -> None:
        """Write what is due, several objects at once, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._work())

    async def drain(self) -> None:
        """Nothing: what is not written yet is read again by whoever comes next."""

    async def close(self) -> None:
        """Give the connections back."""
        await self._server.close()

    async def _work(self) -> None:
        while True:
            target = self._plan.next_due(self._clock())
            if target is not None:
                await self._write(target)
                continue
            self._wake.clear()
            try:
                async with asyncio.timeout(self._plan.wait_s(self._clock())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _write(self, target: Target) -> None:
        try:
            exact = self._plan.wants_exact(target, self._clock())
            worth = await self._writer.write(target, exact=exact)
        except GoneError:
            self._telemetry.emit(OBJECT_GONE, str(target), kind=target.kind)
            self._forget(target)
        except BusyError as error:
            self._later(target, error)
        except RefusedError as error:
            await self._refused(target, error)
        else:
            self._succeeded(target, worth)

    def _succeeded(self, target: Target, worth: bool) -> None:
        for failed in (target, None):
            self._failures.pop(failed, None)
        self._told.discard(target)
        self._telemetry.clear_condition(SINK_AWAY, self.name, f"{self._server.address} answers")
        if not worth:
            self._plan.skipped(target, self._clock())
            return
        self._plan.written(target, self._clock())
        wrote(self._telemetry, self.name)
        if self._plan.is_over(target):
            self._forget(target)

    def _later(self, target: Target, error: BusyError) -> None:
        """Try again later; where nothing else would fare better, hold everything back for as long."""
        self._telemetry.emit(WRITE_RETRIED, f"{target}: {error}", sink=self.name, reason=error.reason)
        whose = None if error.everything else target
        failures = self._failures[whose] = self._failures.get(whose, 0) + 1
        longest = min(_FIRST_PAUSE_S * 2 ** min(failures - 1, 10), _LONGEST_PAUSE_S)
        until = self._clock() + (error.retry_after_s or 0.0) + longest * self._chance.uniform(0.5, 1.0)
        if error.everything:
            self._telemetry.raise_condition(SINK_AWAY, self.name, f"{error}; trying again")
            self._plan.hold(until)
        self._plan.failed(target, until)

    async def _refused(self, target: Target, error: RefusedError) -> None:
        """Count it; the record goes to the dead letters once, until a write of this object succeeds."""
        self._telemetry.emit(WRITE_REJECTED, f"{target}: {error}", sink=self.name, reason=error.reason)
        origin = self._origins.get(target)
        if target not in self._told and origin is not None:
            if not await self._letters.send(origin, Reason.REJECTED, f"annotating {target}: {error}"):
                return  # the worker ends, and the record stays unacknowledged
            self._told.add(target)
        self._plan.refused(target, self._clock())

    def _forget(self, target: Target) -> None:
        self._plan.drop(target)
        self._annotations.forget(target)
        self._writer.forget(target)
        self._origins.pop(target, None)
        self._failures.pop(target, None)
        self._told.discard(target)
