"""Keeps the order of doing things that makes a worker exact, over all its stages.

1. A record is applied at once; its outputs are put in line, in order. Coalesced outputs follow every two
   to thirty seconds: they need no checkpoint, as a newer one replaces the older.
2. Every so often a checkpoint is taken: the last offset processed, and then, one after another, of every key
   that had changed the coalesced outputs and the state. A state may have seen more than that offset, and
   says so itself. Partitions have nothing to do with one another: a commit may take one checkpoint after the
   other, each of some partitions, with pauses in between. So records never wait for many states.
3. All outputs up to the checkpoint must have arrived before a state of it is sent. A state that survives a
   crash while its outputs do not would hide their loss, because its records are not applied again.
4. Pieces of a state arrive before its head is sent. What is to be written anew after a recovery goes first.
   A gradual commit makes, sends and mirrors many states some at a time.
5. Clocks of partitions, and tombstones of keys that leave, are sent after all states.
6. Only when all has arrived are the offsets acknowledged.

Whatever fails on the way ends the process: what is not acknowledged is done again. So does a record that
somebody else wrote among ours: the next worker recovers what is there, and puts it right.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.clients import describe_failure
from dutycycle.kafka.faust.sequence import SourceSequence
from dutycycle.telemetry.events import RECORD_TOO_LARGE, Telemetry
from streams.runtime.metrics import StreamsMetrics
from streams.runtime.port import StreamsPort
from streams.runtime.stage_task import Checkpoint, StageTask
from streams.state.fencing import ForeignWriterError
from streams.state.record import Write, partition_of, piece_of

EARLY_BYTES = 40 * 1024 * 1024
"""After so many bytes of packed records since the last commit the next one does not wait for its time: they
fill memory. A minute of 1,400 nodes with 8 GPUs takes as much."""
_YIELD_EVERY = 16
"""After so many records of a batch the event loop has a turn: heartbeats and answers do not wait for all."""
WAITING_BYTES = 1024 * 1024
"""Of a gradual commit a stage has states of so many bytes at most that were made and not sent: those of a
partition with many keys would all be in memory twice, as they are and as they were."""
FLUSH_AT_ONCE = 16
"""The coalesced outputs of so many keys are made before records have a turn: in a few milliseconds."""

_FLUSHED_PER_S = 20
"""A stage sends the coalesced outputs of so many keys a second on average, ..."""
_LONGEST_WAIT_S = 30.0
"""... but each that changed so often at least."""


class CheckpointCoordinator:
    """Gives records to tasks, sends what follows, and commits. One per worker.

    ``early_bytes`` of records that are kept since the last commit make the next one due. With twice as many
    no more are processed: while the state topics take nothing, what is behind shows as lag. A gradual commit
    stores ``waiting_bytes`` of states before it makes others of their checkpoint.
    """

    def __init__(
        self,
        port: StreamsPort,
        tasks: Sequence[StageTask],
        telemetry: Telemetry,
        *,
        early_bytes: int = EARLY_BYTES,
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        self._port = port
        self._tasks = list(tasks)
        self._telemetry = telemetry
        self._early_bytes = early_bytes
        self._waiting_bytes = waiting_bytes
        self._sequence = SourceSequence(port, telemetry, self.fail)
        self.next_offset = self._sequence.next_offset
        self.metrics = StreamsMetrics(telemetry, self._tasks)
        self._outbox: deque[ProducerRecord] = deque()
        self._under_way: set[asyncio.Future[object]] = set()
        self._sending = asyncio.Lock()
        self._committing = asyncio.Lock()
        self._failed = False
        self._begun = False
        self._whole = True  # not between a checkpoint and its arrival: one that did not arrive is lost to us
        self._flush_due_s: dict[str, float] = {}
        """By stage, in the time of the event loop."""
        self._uncommitted_bytes = 0
        self.commit_due = asyncio.Event()
        """Set when a commit is due before its time."""
        self._room = asyncio.Event()
        self._room.set()

    async def process(self, task: StageTask, records: Sequence[ConsumerRecord]) -> None:
        """Apply the records of one partition in order, each as soon as there is room for what it changes,
        and send what follows.

        Does not return once the worker has failed.
        """
        assignment = self._sequence.assignment
        for record in records[:1]:
            if self._sequence.next_offset(record.topic, record.partition) is None:
                await self._verify_recovery(task, record.partition)
        for number, record in enumerate(records, 1):
            await self._room.wait()
            if self._failed:
                await asyncio.Event().wait()
            if self._sequence.assignment != assignment:
                return  # while it waited, the partition was handed over
            if await self._sequence.admits(record):
                before = task.packed_bytes
                self._outbox += task.process(record)
                self._uncommitted_bytes += task.packed_bytes - before
                if self._uncommitted_bytes >= self._early_bytes:
                    self.commit_due.set()
                if self._uncommitted_bytes >= 2 * self._early_bytes:
                    self._room.clear()
            if number % _YIELD_EVERY == 0:
                await self._send_outbox()
                await asyncio.sleep(0)
        await self._send_outbox()

    async def _verify_recovery(self, task: StageTask, partition: int) -> None:
        """End if others wrote states and committed after we read ours: what follows from old states would be
        wrong, and what is sent at once is not fenced.

        More may be committed than the states have seen because somebody moved the group's offset: then there
        is no newer state, and nothing to recover.
        """
        if not task.is_behind_commit(partition):
            return
        async with self._committing:  # nothing is under way
            assignment = self._sequence.assignment
            alone = await self._port.is_sole_writer(task.stage.name)
            if not alone and assignment == self._sequence.assignment:
                self.fail(f"states of {task.stage.name}, {partition} are older than what is committed")

    async def _send_outbox(self) -> None:
        async with self._sending:  # one at a time, so that the order stays
            while self._outbox:
                out = self._outbox.popleft()
                most = TOPICS[out.topic].max_bytes
                if out.value is not None and len(out.value) > most:
                    detail = f"{out.key}: {len(out.value)} bytes, at most {most}"
                    self._telemetry.emit(RECORD_TOO_LARGE, detail, topic=out.topic)
                    continue
                try:
                    self._under_way.add(await self._port.post(out))
                except Exception as error:  # noqa: BLE001 - whatever it was, the output did not leave
                    self.fail(describe_failure(error, f"sending to {out.topic}"))
                    return

    async def flush(self) -> None:
        """Send the coalesced outputs of everything processed so far; return when all outputs have arrived.

        A stage in which many keys change sends them less often: a newer one replaces the older, and what one
        stage sends the next one reads.
        """
        async with self._committing:
            if not self._may_write():
                return
            now_s = asyncio.get_running_loop().time()
            try:
                for task in self._tasks:
                    if now_s < self._flush_due_s.get(task.stage.name, 0.0):
                        continue
                    wait_s = min(task.unflushed / _FLUSHED_PER_S, _LONGEST_WAIT_S)
                    self._flush_due_s[task.stage.name] = now_s + wait_s
                    for _ in range(0, task.unflushed, FLUSH_AT_ONCE):
                        self._outbox += task.flush(FLUSH_AT_ONCE)
                        await self._send_outbox()
                        await asyncio.sleep(0)
                await self._outputs_arrived()
            except Exception as error:  # noqa: BLE001 - whatever it was, something did not arrive
                self.fail(f"flush: {describe_failure(error)}")

    @property
    def has_unsent(self) -> bool:
        """Tell whether something that was put in line has not arrived."""
        return any(not answer.done() for answer in self._under_way)

    def is_backpressured(self) -> bool:
        """Tell whether no more is processed because the broker takes nothing, however long that lasts: this
        is no worker that is stuck. That nothing is committed is said elsewhere."""
        return not self._room.is_set() or self.has_unsent

    async def _outputs_arrived(self) -> None:
        await self._send_outbox()
        if self._under_way:
            done, _ = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_EXCEPTION)
            for answer in done:
                answer.result()
            self._under_way -= done

    async def commit(self) -> None:
        """Put outputs and state of everything processed so far on the broker, then acknowledge it."""
        async with self._committing:
            began_s = self.metrics.now_s()
            if self._may_write():
                self._make_room()
                if await self._commit(self._parts(None)[0], in_turns=False):
                    self.metrics.committed(self.metrics.now_s() - began_s)

    async def commit_gradually(self, at_once: int, over_s: float) -> float:
        """Commit everything processed until now, spread over so many seconds, or faster once a commit is due;
        how long it took without the pauses.

        A checkpoint is of partitions in which at most ``at_once`` keys changed, or of one; what is processed
        in the meantime may be in it. Records have a turn after each state, unless a commit is due: then what
        is kept fills memory. In the pauses others may commit and flush.
        """
        assignment, took_s, complete = self._sequence.assignment, 0.0, True
        parts = self._parts(at_once)
        for number, part in enumerate(parts):
            async with self._committing:
                began_s = self.metrics.now_s()
                may = self._may_write() and assignment == self._sequence.assignment
                if may and not number:
                    self._make_room()
                complete = may and await self._commit(part, in_turns=True) and complete
                took_s += self.metrics.now_s() - began_s
            if complete and number == len(parts) - 1:
                self.metrics.committed(took_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(over_s / len(parts)):
                    await self.commit_due.wait()
        return took_s

    def _may_write(self) -> bool:
        return not self._failed and self._whole and self._port.may_write()

    async def _commit(self, part: list[tuple[StageTask, list[int]]], *, in_turns: bool) -> bool:
        """Commit some partitions of some stages, the states ``in_turns`` with the records; whether all of it
        arrived."""
        assignment = self._sequence.assignment
        self._whole = False
        checkpoints: list[tuple[StageTask, Checkpoint]] = []
        for task, partitions in part:
            checkpoint = task.checkpoint(partitions)
            checkpoints.append((task, checkpoint))
            for key in checkpoint.keys:
                self._outbox += task.add_state(checkpoint, key)
                if in_turns and not self.commit_due.is_set():
                    await asyncio.sleep(0)  # a state takes milliseconds, and windows that close would wait
                    if assignment != self._sequence.assignment:
                        return False
                # Each time takes a round trip or two: not at a revocation, of which others wait for the end.
                is_enough = in_turns and checkpoint.waiting_bytes >= self._waiting_bytes
                if is_enough and not await self._store(checkpoints):
                    return False
            self._outbox += task.close_idle(checkpoint)
        if not await self._store(checkpoints, complete=True):
            return False
        for task, checkpoint in checkpoints:
            task.checkpoint_done(checkpoint)
        self._whole = True
        return True

    def _parts(self, at_once: int | None) -> list[list[tuple[StageTask, list[int]]]]:
        parts: list[list[tuple[StageTask, list[int]]]] = [[]]
        size = 0
        for task in self._tasks:
            for partition, keys in task.pending().items():
                if at_once is not None and size and size + keys > at_once:
                    parts.append([])
                    size = 0
                size += keys
                if not parts[-1] or parts[-1][-1][0] is not task:
                    parts[-1].append((task, []))
                parts[-1][-1][1].append(partition)
        return parts

    async def verify_ownership(self) -> None:
        """End if somebody else has written into a changelog where we write nothing ourselves."""
        async with self._committing:  # nothing is under way
            assignment = self._sequence.assignment
            for task in self._tasks:
                if self._failed or not self._begun:
                    continue
                alone = await self._port.is_sole_writer(task.stage.name)
                if alone is False and self._begun and assignment == self._sequence.assignment:
                    self.fail(f"somebody else writes into the state of {task.stage.name}")

    async def _store(
        self, checkpoints: list[tuple[StageTask, Checkpoint]], *, complete: bool = False
    ) -> bool:
        """Put the states that were made for checkpoints on the broker, and mirror them; where no more follow,
        what completes the checkpoints, too. Whether all arrived while the partitions were ours."""
        assignment = self._sequence.assignment
        stages = [(task.stage.name, checkpoint) for task, checkpoint in checkpoints]
        states = [(name, write.packed) for name, stage in stages for write in stage.writes]
        try:
            await self._outputs_arrived()
            if self._failed or not self._port.may_write():
                return False
            await self._rewritten((name, rewrite) for name, stage in stages for rewrite in stage.rewrites)
            await self._write((name, Write(*piece)) for name, state in states for piece in state.pieces)
            await self._write((name, Write(*state.head)) for name, state in states)
            if complete:
                await self._write((name, clock) for name, stage in stages for clock in stage.clocks)
                await self._write((name, gone) for name, stage in stages for gone in stage.gone)
        except Exception as error:  # noqa: BLE001 - whatever it was, something did not arrive
            self.fail(f"commit: {describe_failure(error)}")
            return False
        if assignment != self._sequence.assignment:
            return False
        for task, checkpoint in checkpoints:
            self.metrics.stored(task, checkpoint)
            task.states_stored(checkpoint)
        return True

    async def _rewritten(self, rewrites: Iterable[tuple[str, Write]]) -> None:
        turns: list[list[tuple[str, Write]]] = [[], [], []]  # pieces, what is no piece, tombstones
        for name, write in rewrites:
            turns[2 if write.value is None else piece_of(write.key) is None].append((name, write))
        for turn in turns:
            await self._write(turn)

    async def _write(self, writes: Iterable[tuple[str, Write]]) -> None:
        """Put records of stages on the broker; return once all have arrived. Raises ``ForeignWriterError`` if
        others write there."""
        keys, under_way = [], []
        for name, write in writes:
            keys.append((name, write.key))
            under_way.append(await self._port.write(name, write))
            self._under_way.add(under_way[-1])
        for (name, key), answer in zip(keys, await asyncio.gather(*under_way), strict=True):
            if not self._port.wrote(name, key, answer):
                raise ForeignWriterError(
                    f"somebody else writes into the state of {name}, {partition_of(key)}"
                )

    def _make_room(self) -> None:
        self._uncommitted_bytes = 0
        self.commit_due.clear()
        self._room.set()

    def fail(self, reason: str) -> None:
        """End the worker: nothing more is processed or committed."""
        self._failed = True
        self._port.fail(reason)

    def forget(self) -> None:
        """Forget all, as the partitions were handed over or assigned anew: what was not committed is
        somebody's again."""
        self._make_room()
        self._outbox.clear()
        self._under_way.clear()
        self._whole, self._begun = True, False
        self.metrics.assigned()
        self._sequence.forget()
        for task in self._tasks:
            task.forget()

    def begin(self) -> None:
        """Go on from the states that are recovered."""
        self.forget()
        for task in self._tasks:
            task.begin()
        self._begun = True
