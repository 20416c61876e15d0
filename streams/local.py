"""Runs the stages in process, without a broker: what a replay does. A function of its input alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from dutycycle.contract.codec import DecodeError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.topics import DEFAULT_PREFIX
from streams.operators.base import CountedEvent, Emission, Stage
from streams.runtime.dead_letters import check_key_and_size, dead_letter
from streams.runtime.events import STATE_EVICTED, STATE_RESET
from streams.runtime.keyed_operator import KeyedOperator, OperatorFailedError
from streams.runtime.record_packer import RecordPacker
from streams.state.codec import pieces_of
from streams.state.partition_clock import PartitionClock
from streams.state.record import state_key

_FLUSH_MS = 60_000
"""How often, in event time, coalesced outputs are sent."""
STORED_EVERY = 400
"""After so many records of a key its state is stored, from where it goes on if its operator fails. To store
it costs as much as some ten records."""
_PARTITION = 0


class LocalPipeline:
    """Runs all stages with the operators of all their keys, which leave when they were idle as in a worker.

    ``happened`` counts named events. Outputs that other stages read are passed on at once; all outputs
    are returned as well, so that a trace of everything can be written.
    """

    def __init__(self, stages: Iterable[Stage], prefix: str = DEFAULT_PREFIX) -> None:
        self._prefix = prefix
        self.happened: Counter[str] = Counter()
        self._stages = {stage.source: LocalStage(stage, self.happened) for stage in stages}
        self._offsets: Counter[str] = Counter()
        self._flush_due: int | None = None

    def feed(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Give a record to its stage; all outputs that follow from it, in order. Of what no stage reads there
        are none."""
        outs: list[ProducerRecord] = []
        turn = record.ts_ms // _FLUSH_MS
        if self._flush_due is None:
            self._flush_due = turn + 1
        # Far behind is no late record: another trace begins, or a wrong clock had pushed us on.
        if not self._flush_due - 2 <= turn < self._flush_due:
            self._flush_due = turn + 1
            outs = self.flush()
        return outs + self._process(record) if record.topic in self._stages else outs

    def _process(self, record: ConsumerRecord) -> list[ProducerRecord]:
        stage = self._stages[record.topic]
        stage.observe(record.ts_ms)
        try:
            check_key_and_size(record)
            outs = self._passed_on(stage.update(record))
        except DecodeError as error:
            return [self._refused(record, error.reason, error.brief)]
        except OperatorFailedError as error:
            return [self._refused(record, Reason.OPERATOR, str(error))]
        return outs + self._passed_on(stage.evict())

    def _refused(self, record: ConsumerRecord, reason: Reason, error: str) -> ProducerRecord:
        self.happened[f"dead_letter {record.topic} {reason}"] += 1
        return dead_letter(record, reason, error, prefix=self._prefix)

    def _passed_on(self, emissions: Iterable[Emission]) -> list[ProducerRecord]:
        outs: list[ProducerRecord] = []
        for emission in emissions:
            if isinstance(emission, CountedEvent):
                self.happened[emission.event] += emission.count
                continue
            outs.append(emission)
            if emission.topic in self._stages:
                topic, offset = emission.topic, self._offsets[emission.topic]
                self._offsets[topic] += 1
                read = ConsumerRecord(topic, 0, offset, emission.key, emission.value, emission.ts_ms)
                outs += self._process(read)
        return outs

    def flush(self) -> list[ProducerRecord]:
        """Send what is coalesced, stage by stage, so that what one sends reaches the next."""
        return self._each(LocalStage.flush)

    def close(self) -> list[ProducerRecord]:
        """Close what is open at the end of the input, stage by stage."""
        return self._each(LocalStage.close)

    def states(self) -> Iterator[bytes]:
        """Yield the state of each key as a worker would store it."""
        for stage in self._stages.values():
            yield from stage.states()

    def _each(self, act: Callable[["LocalStage", str], list[Emission]]) -> list[ProducerRecord]:
        outs: list[ProducerRecord] = []
        for stage in self._stages.values():
            for key in stage.sorted_keys():
                outs += self._passed_on(act(stage, key))
        return outs


class LocalStage:
    """Runs the operators of one stage, as in a worker, with its changelog in memory.

    All records count as one partition, numbered as they come: a trace may join the logs of several clusters.
    """

    def __init__(self, stage: Stage, happened: Counter[str]) -> None:
        self._stage = stage
        self._happened = happened
        self._operators: dict[str, KeyedOperator] = {}
        self._changelog: dict[bytes, bytes] = {}
        self._packer = RecordPacker()
        self._clock = PartitionClock(stage.stride_ms, confirm=stage.confirm)
        self._next_ms = stage.stride_ms

    def sorted_keys(self) -> list[str]:
        """Return the keys that are there, in order."""
        return sorted(self._operators)

    def observe(self, ts_ms: int) -> None:
        """Note the time of a record, of whatever use it is."""
        self._clock.observe(self._clock.offset + 1, ts_ms)

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Apply a record. Raises ``DecodeError`` or ``OperatorFailedError``: then it counts as never come."""
        key = record.key or ""
        numbered = ConsumerRecord(
            record.topic, _PARTITION, self._clock.offset, record.key, record.value, record.ts_ms
        )
        operator = self._operators.get(key)
        if operator is None:
            try:
                operator = KeyedOperator(
                    self._stage, _PARTITION, key, self._changelog.get, self._reset, self._packer
                )
            except Exception as error:
                raise OperatorFailedError(f"{type(error).__name__}: {error}") from error
        if self._stage.stateless:
            return operator.update(numbered)
        emissions = operator.update(numbered, self._clock.now_ms)
        self._operators[key] = operator
        if operator.recent() >= STORED_EVERY:
            packed = operator.packed()
            self._changelog.update([*packed.pieces, packed.head])
            operator.stored(operator.recent())
        return emissions

    def _reset(self, _detail: str) -> None:
        self._happened[STATE_RESET.name] += 1

    def evict(self) -> list[Emission]:
        """Forget the keys that are idle, looked for once in a stride; what they had open is closed."""
        if self._stage.evict_ms is None or self._clock.now_ms < self._next_ms:
            return []
        self._next_ms = self._clock.now_ms + self._stage.stride_ms
        emissions: list[Emission] = []
        for key in self.sorted_keys():
            if self._stage.is_idle(self._operators[key].seen_ms or 0, self._clock.now_ms):
                emissions += self._operators.pop(key).close()
                head = state_key(_PARTITION, key)
                for stored_key in [head, *pieces_of(head, self._changelog.get)]:
                    self._changelog.pop(stored_key, None)
                self._happened[STATE_EVICTED.name] += 1
        return emissions

    def flush(self, key: str) -> list[Emission]:
        """Send what a key's operator sends coalesced, and what a worker writes when it stores the state."""
        operator = self._operators[key]
        return operator.flush() + operator.unwritten()

    def states(self) -> Iterator[bytes]:
        """Yield the stored state of each key, as it is now."""
        if not self._stage.stateless:
            for operator in self._operators.values():
                packed = operator.packed()
                yield b"".join(value for _, value in (*packed.pieces, packed.head))

    def close(self, key: str) -> list[Emission]:
        """Close a key at the end of the input."""
        return self._operators[key].close()
