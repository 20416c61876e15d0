"""The order of doing things that makes a worker exact, over all its stages.

1. A record is applied at once; its outputs are put in line, in order.
2. Every so often a cut is taken: at one instant, the coalesced outputs, the state of every key that changed
   and the last offset taken.
3. All outputs up to the cut must have arrived before a state of it is sent: a state that survives a crash
   while its outputs do not would hide their loss, because its records are not applied again.
4. Pieces of a state arrive before its head is sent. What is to be written anew after a recovery goes first.
5. Clocks of partitions, and tombstones of keys that leave, are sent after that.
6. Only when all has arrived is it mirrored, and the offsets are acknowledged.
Whatever fails on the way ends the process: what is not acknowledged is done again. So does a record of
somebody else among our own: the next one reads what lies there, and puts it right.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence

from bus.faust.offset_tracker import OffsetKind
from contract.log import ConsumerRecord, ProducerRecord
from contract.topics import TOPICS
from streams.runtime.eviction import Removal
from streams.runtime.metrics import Figures
from streams.runtime.port import Port
from streams.runtime.stage_task import Cut, Shell
from streams.state.fencing import ForeignWriterError
from streams.state.record import Record, piece_of
from streams.state.recovery import Renewal
from telemetry.events import RECORD_TOO_LARGE, SOURCE_GAP, Telemetry

EARLY = 50_000
"""So many records since the last commit, and the next one does not wait for its time: they fill memory."""
MOST = 2 * EARLY
"""So many, and no more are taken: while the state's topics take nothing, what is behind shows as lag."""


class Flow:
    """Takes records into shells, and commits. One per worker."""

    def __init__(self, port: Port, shells: Sequence[Shell], telemetry: Telemetry) -> None:
        self._port = port
        self._shells = list(shells)
        self._telemetry = telemetry
        self.figures = Figures(telemetry, self._shells)
        self._outbox: deque[ProducerRecord] = deque()
        self._under_way: list[Awaitable[object]] = []
        self._sending = asyncio.Lock()
        self._committing = asyncio.Lock()
        self._failed = False
        self._begun = False
        self._whole = True  # not between a cut and its arrival: what was cut and did not arrive is nobody's
        self._taken = 0
        self.early = asyncio.Event()
        """Set when a commit is due before its time."""
        self._room = asyncio.Event()
        self._room.set()

    async def handle(self, shell: Shell, record: ConsumerRecord) -> None:
        """Take one record, and send what follows from it: as soon as there is room for what it changes.

        Does not return once the worker has failed.
        """
        assignment = shell.assignment
        await self._room.wait()
        if shell.assignment != assignment:
            return  # while it waited, the partition was handed over
        if self._failed:
            await asyncio.Event().wait()
        match shell.tracker(record.partition).classify(record.offset):
            case OffsetKind.REPEAT:
                return
            case OffsetKind.AFTER_GAP if not await self._bridged(shell, record):
                return
        self._outbox += shell.take(record)
        self.figures.took(record.topic, record.ts_ms)
        self._taken += 1
        if self._taken >= EARLY:
            self.early.set()
        if self._taken >= MOST:
            self._room.clear()
        if self._outbox:
            await self._send_outbox()

    async def _bridged(self, shell: Shell, record: ConsumerRecord) -> bool:
        """Whether the records missing before ``record`` are missing on the broker, too.

        A compacted topic is full of holes: there it is asked only at the first record of an assignment,
        which is where Faust is known to lose some.
        """
        compacted = TOPICS[shell.stage.source].cleanup == "compact"
        if compacted and not shell.at_beginning(record.partition):
            return True
        assignment, expected = shell.assignment, shell.tracker(record.partition).expected
        first = await self._port.first_offset(shell.stage.source, record.partition, expected)
        if shell.assignment != assignment:
            return False  # meanwhile the partition was handed over
        hole = f"{shell.stage.source}-{record.partition}: {expected}-{record.offset - 1}"
        if first is not None and first < record.offset:
            self._fail(f"{hole} were not delivered, but are on the broker from {first} on")
            return False
        begun = self._port.begins_at(shell.stage.source, record.partition) is not None
        if begun and not compacted:
            self._telemetry.emit(SOURCE_GAP, f"{hole} are gone from the broker", topic=shell.stage.source)
        return True

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
                    self._under_way.append(await self._port.post(out))
                except Exception as error:  # noqa: BLE001 - whatever it was, the output did not leave
                    self._fail(f"sending to {out.topic}: {error!r}")
                    return

    async def commit(self) -> None:
        """Put outputs and state of everything taken so far on the broker, then acknowledge it."""
        async with self._committing:
            if self._failed or not self._whole or not self._port.may_write():
                return
            self._whole = False
            began_s = self.figures.now_s()
            self._empty()
            cuts = [(shell, shell.cut()) for shell in self._shells]
            for _, cut in cuts:
                self._outbox += cut.outs
            assignments = [shell.assignment for shell in self._shells]
            if await self._arrived(cuts) and assignments == [one.assignment for one in self._shells]:
                for shell, cut in cuts:
                    shell.stored(cut)
                self._whole = True
                self.figures.stored(cuts, began_s)

    async def look(self) -> None:
        """See whether somebody else has written into a changelog where we write nothing ourselves."""
        async with self._committing:  # nothing is under way
            assignments = [shell.assignment for shell in self._shells]
            for shell in self._shells:
                if self._failed or not self._begun or await self._port.is_alone(shell.stage.name):
                    continue
                if self._begun and assignments == [one.assignment for one in self._shells]:
                    self._fail(f"somebody else writes into the state of {shell.stage.name}")

    async def _arrived(self, cuts: list[tuple[Shell, Cut]]) -> bool:
        saves = [(shell.stage.name, save) for shell, cut in cuts for save in cut.saves]
        try:
            await self._send_outbox()
            under_way, self._under_way = self._under_way, []
            await asyncio.gather(*under_way)
            if self._failed or not self._port.may_write():
                return False
            await self._renewed((shell.stage.name, one) for shell, cut in cuts for one in cut.renewals)
            await self._saved(
                (name, s.live.partition, piece) for name, s in saves for piece in s.packed.pieces
            )
            await self._saved((name, s.live.partition, s.packed.head) for name, s in saves)
            await self._saved((shell.stage.name, *clock) for shell, cut in cuts for clock in cut.clocks)
            await self._removed((shell.stage.name, gone) for shell, cut in cuts for gone in cut.gone)
        except Exception as error:  # noqa: BLE001 - whatever it was, something did not arrive
            self._fail(f"commit: {error!r}")
            return False
        return True

    async def _saved(self, records: Iterable[tuple[str, int, Record]]) -> None:
        places, under_way = [], []
        for name, partition, record in records:
            places.append((name, partition))
            under_way.append(await self._port.save(name, partition, *record))
        self._alone(places, await asyncio.gather(*under_way))

    async def _removed(self, removals: Iterable[tuple[str, Removal]]) -> None:
        places, under_way = [], []
        for name, (partition, offset, keys) in removals:
            for key in keys:
                places.append((name, partition))
                under_way.append(await self._port.drop(name, partition, key, offset))
        self._alone(places, await asyncio.gather(*under_way))

    async def _renewed(self, renewals: Iterable[tuple[str, Renewal]]) -> None:
        every = list(renewals)
        for is_head in (False, True):
            await self._saved(
                (name, one.partition, (one.key, one.value))
                for name, one in every
                if one.value is not None and (piece_of(one.key) is None) is is_head
            )
        await self._removed(
            (name, Removal(one.partition, one.offset, [one.key])) for name, one in every if one.value is None
        )

    def _alone(self, places: list[tuple[str, int]], answers: list[object]) -> None:
        for (name, partition), answer in zip(places, answers, strict=True):
            if not self._port.wrote(name, partition, answer):
                raise ForeignWriterError(f"somebody else writes into the state of {name}, {partition}")

    def _empty(self) -> None:
        self._taken = 0
        self.early.clear()
        self._room.set()

    def refuse(self, reason: str) -> None:
        """End: nothing more is taken or committed."""
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        self._failed = True
        self._port.fail(reason)

    def forget(self) -> None:
        """The partitions were handed over or assigned anew: what was not committed is somebody's again."""
        self._empty()
        self._outbox.clear()
        self._under_way.clear()
        self._whole, self._begun = True, False
        self.figures.assigned()
        for shell in self._shells:
            shell.forget()

    def begin(self) -> None:
        """The states are recovered: go on from them."""
        self.forget()
        for shell in self._shells:
            shell.begin()
        self._begun = True
