"""The exact-state shell of one stage: a living operator per key, and cuts of their state to be stored.

Nothing here waits. ``take`` applies a record; ``cut`` says, at one instant, what has to be on the broker
before the records taken so far may be acknowledged; ``stored`` hears that it is. The order of sending,
waiting and acknowledging is ``shell_flow``'s.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from bus.faust.offset_tracker import OffsetTracker
from contract.codec import DecodeError
from contract.log import ConsumerRecord, ProducerRecord
from contract.records.deadletter import Reason
from streams.deadletters import dead_letter
from streams.operators.base import CountedEvent, Emission, Stage
from streams.runtime.checks import unfit
from streams.runtime.events import STATE_EVICTED, STATE_LARGE, STATE_RENEWED, STATE_RESET, named
from streams.runtime.eviction import Idle, IdleKeys, Removal
from streams.runtime.keyed_operator import Live, OperatorFailedError
from streams.runtime.port import Port
from streams.state.codec import Packed
from streams.state.record import Record
from streams.state.recovery import Renewal
from telemetry.events import DEAD_LETTER, SAMPLE_DUPLICATE, Telemetry

KEPT_LIVE = 20_000
"""How many operators stay in memory although nothing comes for them; the others come back when it does."""

Place = tuple[int, str]
"""Partition and key."""


class Save(NamedTuple):
    """A state to be stored: ``covers`` of its operator's recent records are in it."""

    live: Live
    covers: int
    packed: Packed


@dataclass(slots=True)
class Cut:
    """What a stage owes the broker at one instant.

    ``done`` is the last offset taken of each partition: to be acknowledged once ``outs``, ``renewals``,
    ``saves`` and ``clocks`` are on the broker, in this order, and what is ``gone`` is removed from it.
    ``evicted`` counts the keys among that.
    """

    outs: list[ProducerRecord] = field(default_factory=list)
    renewals: list[Renewal] = field(default_factory=list)
    """What a worker that was replaced without noticing has written something older after."""
    saves: list[Save] = field(default_factory=list)
    clocks: list[tuple[int, Record]] = field(default_factory=list)
    """By partition. After the states: a clock on the broker says that all states before it are there."""
    gone: list[Removal] = field(default_factory=list)
    evicted: int = 0
    done: dict[int, int] = field(default_factory=dict)


class Shell:
    """All keys of one stage that this worker was assigned."""

    def __init__(self, stage: Stage, port: Port, telemetry: Telemetry, prefix: str) -> None:
        self.stage = stage
        self._port = port
        self._telemetry = telemetry
        self._prefix = prefix
        self._lives: dict[Place, Live] = {}
        self._changed: dict[Place, Live] = {}
        self._trackers: dict[int, OffsetTracker] = {}
        self._done: dict[int, int] = {}
        self._idle = IdleKeys(stage, port)
        self._renewals: list[Renewal] = []
        self.assignment = 0
        """Counts how often everything was forgotten."""
        self.used = 0
        """Counts the records that count in the results. For any thread."""

    def tracker(self, partition: int) -> OffsetTracker:
        """The place in ``partition``."""
        found = self._trackers.get(partition)
        if found is None:
            begins_at = self._port.begins_at(self.stage.source, partition)
            found = self._trackers[partition] = OffsetTracker(begins_at or 0)
        return found

    def taken(self, partition: int) -> int | None:
        """The offset to be taken next; None if nothing was asked of ``partition`` yet. For any thread."""
        found = self._trackers.get(partition)
        return None if found is None else found.expected

    @property
    def live(self) -> int:
        """How many keys have their operator in memory. For any thread."""
        return len(self._lives)

    def at_beginning(self, partition: int) -> bool:
        """Whether nothing of ``partition`` was taken since it was assigned."""
        return self.tracker(partition).expected == (self._port.begins_at(self.stage.source, partition) or 0)

    def take(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Apply a record; what has to be sent for it, in order. Never raises for a bad record."""
        self.tracker(record.partition).took(record.offset)
        self._done[record.partition] = record.offset
        now_ms = self._idle.hear(record)
        bad = unfit(record)
        return self._applied(record, now_ms) if bad is None else self._refused(record, *bad)

    def _applied(self, record: ConsumerRecord, now_ms: int) -> list[ProducerRecord]:
        place = (record.partition, record.key or "")
        try:
            if self.stage.stateless:
                emissions = self.stage.build(place[1], None).update(record)
            else:
                live = self._lives.get(place) or self._begun(place)
                if record.offset <= live.offset:
                    return []  # read again after a restart: its state has it, and its outputs were sent
                emissions = live.update(record, now_ms)
                self._changed[place] = live
            outs = self._sorted(emissions, record.topic)
        except DecodeError as error:
            return self._refused(record, error.reason, error.brief)
        except OperatorFailedError as error:
            return self._refused(record, Reason.OPERATOR, str(error))
        except Exception as error:  # noqa: BLE001 - an operator that cannot even begin: the next record tries again
            self._lives.pop(place, None)
            return self._refused(record, Reason.OPERATOR, f"{type(error).__name__}: {error}")
        if not (emissions and _repeated(emissions)):
            self.used += 1
        return outs

    def _begun(self, place: Place) -> Live:
        partition, key = place
        live = Live(self.stage, partition, key, self._lookup, self._reset)
        self._lives[place] = live
        return live

    def _lookup(self, key: bytes) -> bytes | None:
        return self._port.load(self.stage.name, key)

    def _reset(self, detail: str) -> None:
        self._telemetry.emit(STATE_RESET, detail, stage=self.stage.name)

    def _refused(self, record: ConsumerRecord, reason: Reason, error: str) -> list[ProducerRecord]:
        self._telemetry.emit(DEAD_LETTER, error, topic=record.topic, reason=reason.value)
        return [dead_letter(record, reason, error, prefix=self._prefix)]

    def _sorted(self, emissions: list[Emission], topic: str) -> list[ProducerRecord]:
        outs: list[ProducerRecord] = []
        for emission in emissions:
            if isinstance(emission, CountedEvent):
                event = named(emission.event)
                labels = dict.fromkeys(event.labels, topic)
                self._telemetry.emit(event, count=emission.count, **labels)
            else:
                outs.append(emission)
        return outs

    def cut(self) -> Cut:
        """What is owed for everything taken so far. Counts as handed over: the next cut holds only news."""
        cut = Cut(done=self._done, renewals=self._renewals)
        changed, self._changed, self._done, self._renewals = self._changed, {}, {}, []
        for live in changed.values():
            try:
                outs, save = self._owed(live)
            except Exception as error:  # noqa: BLE001 - one key's operator is broken: the other keys go on
                self._reset(f"{type(error).__name__}: {error}")
                live.begin_anew()
                outs, save = self._owed(live)
            cut.outs += outs
            cut.saves.append(save)
        self._add_idle(cut)
        return cut

    def _add_idle(self, cut: Cut) -> None:
        cut.clocks = self._idle.clocks(cut.done)
        idle, cut.gone = self._idle.found(dict(save.packed.head for save in cut.saves))
        for one in idle:
            cut.outs += self._closed(one)
            cut.gone.append(one.removal)
        cut.evicted = len(idle)

    def _owed(self, live: Live) -> tuple[list[ProducerRecord], Save]:
        outs = self._sorted(live.settle(), self.stage.source)
        return outs, Save(live, live.recent(), live.packed())

    def _closed(self, idle: Idle) -> list[ProducerRecord]:
        """The last outputs of a key that leaves. A record that comes before it has left begins it anew."""
        place = (idle.removal.partition, idle.key)
        try:
            live = self._lives.pop(place, None) or Live(self.stage, *place, self._lookup, self._reset)
        except Exception as error:  # noqa: BLE001 - one key's operator is broken: the other keys go on
            self._reset(f"{idle.key}: cannot be closed: {type(error).__name__}: {error}")
            return []
        return self._sorted(live.close(), self.stage.source)

    def stored(self, cut: Cut) -> None:
        """Everything in ``cut`` is on the broker."""
        for live, covers, packed in cut.saves:
            for key, value in (*packed.pieces, packed.head):
                self._port.mirror(self.stage.name, live.partition, key, value)
            if packed.pieces:
                self._telemetry.emit(STATE_LARGE, f"{len(packed.pieces)} pieces", stage=self.stage.name)
            live.stored(covers)
        self._note_gone(cut)
        if cut.renewals:
            self._port.renewed(self.stage.name)
            self._telemetry.emit(STATE_RENEWED, count=len(cut.renewals), stage=self.stage.name)
        for partition, offset in cut.done.items():
            self._port.acknowledge(self.stage.source, partition, offset)
        self._put_to_sleep()

    def _note_gone(self, cut: Cut) -> None:
        for partition, (key, value) in cut.clocks:
            self._port.mirror(self.stage.name, partition, key, value)
        for partition, _, keys in cut.gone:
            for key in keys:
                self._port.mirror(self.stage.name, partition, key, None)
        if cut.evicted:
            self._telemetry.emit(STATE_EVICTED, count=cut.evicted, stage=self.stage.name)

    def _put_to_sleep(self) -> None:
        too_many = len(self._lives) - KEPT_LIVE
        if too_many > 0:
            idle = [place for place in self._lives if place not in self._changed]
            for place in idle[:too_many]:
                del self._lives[place]

    def forget(self) -> None:
        """The partitions were handed over, or assigned anew: only what is stored counts."""
        self.assignment += 1
        self._lives.clear()
        self._changed.clear()
        self._trackers.clear()
        self._done.clear()
        self._idle.forget()
        self._renewals = []

    def begin(self) -> None:
        """The states are recovered: only they count, and what is outdated in their changelog is put right."""
        self.forget()
        self._renewals = self._port.outdated(self.stage.name)
        if not self._renewals:
            self._port.renewed(self.stage.name)


def _repeated(emissions: list[Emission]) -> bool:
    return any(isinstance(one, CountedEvent) and one.event == SAMPLE_DUPLICATE.name for one in emissions)
