"""A broker in memory for the task: it writes down what was asked of it, in order, and fails on request."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from contract.log import ConsumerRecord, ProducerRecord
from streams.operators.base import Stage
from streams.runtime.checkpoint import EARLY, CheckpointCoordinator
from streams.runtime.stage_task import MAX_RESIDENT, StageTask
from streams.state.record import offset_of
from streams.state.recovery import Rewrite
from telemetry.events import Telemetry
from tests.support.streams.toy import SOURCE, STAGE

Moment = Callable[[str, int], bool]
"""Called with a kind of step and how many of it came before: whether the process dies right there."""


class Died(BaseException):
    """The process was killed at this step."""


class Broker:
    """What outlives a worker: outputs, changelog, committed offsets."""

    def __init__(self) -> None:
        self.outputs: list[ProducerRecord] = []
        self.changelog: dict[bytes, bytes] = {}
        self.committed: dict[int, int] = {}
        self.missing: set[int] = set()
        """Offsets that the source has no record for."""

    def bury(self, key: bytes, offset: int) -> None:
        """A tombstone arrives: as a worker reads it at recovery, it removes nothing that is newer."""
        if offset_of(self.changelog.get(key)) <= offset:
            self.changelog.pop(key, None)


class MemoryPort:
    """One worker's port. ``steps`` is what it did, in order; an arrival is a step of its own.

    At the moment ``dies`` the process is gone; with ``errs`` that step fails instead.
    """

    def __init__(self, broker: Broker, *, dies: Moment | None = None, errs: bool = False) -> None:
        self.broker = broker
        self.steps: list[str] = []
        self.failures: list[str] = []
        self.member = True
        self.disturbed = False
        """Whether somebody else writes among its records."""
        self.outdated_records: list[Rewrite] = []
        self._dies = dies or (lambda kind, before: False)
        self._errs = errs
        self._dead = False
        self._counts: Counter[str] = Counter()
        self._tables = dict(broker.changelog)
        self._start = dict(broker.committed)

    def _step(self, kind: str, detail: object = "") -> None:
        if self._dead:
            raise Died
        before = self._counts[kind]
        self._counts[kind] += 1
        self.steps.append(f"{kind} {detail}".strip())
        if self._dies(kind, before):
            self._dead = not self._errs
            raise (OSError if self._errs else Died)(f"{kind} {before}")

    async def post(self, out: ProducerRecord) -> Awaitable[object]:
        self._step("post", out.topic)
        return self._later("output", lambda: self.broker.outputs.append(out))

    async def save(self, stage: str, partition: int, key: bytes, value: bytes) -> Awaitable[object]:
        kind = ("head", "piece", "clock")[key[2]]
        self._step(f"save-{kind}")
        return self._later(kind, lambda: self.broker.changelog.__setitem__(key, value))

    def _later(self, kind: str, effect: Callable[[], None]) -> Awaitable[object]:
        task = asyncio.ensure_future(self._arrive(kind, effect))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # a dead worker asks nobody
        return task

    async def _arrive(self, kind: str, effect: Callable[[], None]) -> None:
        await asyncio.sleep(0)
        self._step(f"arrived-{kind}")
        effect()

    async def drop(self, stage: str, partition: int, key: bytes, offset: int) -> Awaitable[object]:
        self._step("drop")
        return self._later("tombstone", lambda: self.broker.bury(key, offset))

    def wrote(self, stage: str, partition: int, answer: object) -> bool:
        return not self.disturbed

    async def is_sole_writer(self, stage: str) -> bool:
        return not self.disturbed

    def outdated(self, stage: str) -> list[Rewrite]:
        return list(self.outdated_records)

    def rewritten(self, stage: str) -> None:
        self.outdated_records.clear()

    def mirror(self, stage: str, partition: int, key: bytes, value: bytes | None) -> None:
        self._step("mirror")
        if value is None:
            self._tables.pop(key, None)
        else:
            self._tables[key] = value

    def states(self, stage: str) -> Iterable[tuple[bytes, bytes]]:
        return self._tables.items()

    def committed(self, source: str, partition: int) -> int:
        return self.broker.committed.get(partition, 0)

    def load(self, stage: str, key: bytes) -> bytes | None:
        return self._tables.get(key)

    def begins_at(self, source: str, partition: int) -> int | None:
        return self._start.get(partition)

    async def first_offset(self, source: str, partition: int, offset: int) -> int | None:
        while offset in self.broker.missing:
            offset += 1
        return offset

    def acknowledge(self, source: str, partition: int, offset: int) -> None:
        self._step("acknowledge", offset)
        self.broker.committed[partition] = offset + 1

    def may_write(self) -> bool:
        return self.member

    def fail(self, reason: str) -> None:
        self.failures.append(reason)


class Worker:
    """A coordinator with one stage on a memory port, from its start to its death."""

    def __init__(
        self,
        broker: Broker,
        *,
        dies: Moment | None = None,
        errs: bool = False,
        stage: Stage = STAGE,
        early: int = EARLY,
        max_resident: int = MAX_RESIDENT,
    ) -> None:
        self.port = MemoryPort(broker, dies=dies, errs=errs)
        self.telemetry = Telemetry("test")
        self.task = StageTask(stage, self.port, self.telemetry, "t.", max_resident=max_resident)
        self.coordinator = CheckpointCoordinator(self.port, [self.task], self.telemetry, early=early)

    async def take(self, *records: ConsumerRecord) -> None:
        for one in records:
            await self.coordinator.process(self.task, one)


def record(
    offset: int, value: int | bytes | None, key: str | None = "a", partition: int = 0
) -> ConsumerRecord:
    """A source record; ``value`` may be bytes, None, or a number for the toy to add."""
    given = b'{"n":%d}' % value if isinstance(value, int) else value
    return ConsumerRecord(SOURCE, partition, offset, key, given, 1_000 + offset)
