"""Runs the stages in process, without a broker: what a replay does. A function of its input alone."""

from collections import Counter
from collections.abc import Callable, Iterable

from contract.codec import DecodeError
from contract.log import ConsumerRecord, ProducerRecord
from contract.records.deadletter import Reason
from contract.topics import DEFAULT_PREFIX
from streams.deadletters import dead_letter
from streams.local_keys import LocalKeys
from streams.operators.base import CountedEvent, Emission, Stage
from streams.runtime.checks import unfit
from streams.runtime.keyed_operator import OperatorFailedError

SETTLE_MS = 60_000
"""How often, in event time, coalesced outputs are sent."""


class LocalPipeline:
    """All stages with the operators of all their keys, which leave when they were idle as in a worker.

    ``happened`` counts named events. Outputs that other stages read are passed on at once; all outputs
    are returned as well, so that a trace of everything can be written.
    """

    def __init__(self, stages: Iterable[Stage], prefix: str = DEFAULT_PREFIX) -> None:
        self._prefix = prefix
        self.happened: Counter[str] = Counter()
        self._stages = {stage.source: LocalKeys(stage, self.happened) for stage in stages}
        self._offsets: Counter[str] = Counter()
        self._settle_due: int | None = None

    @property
    def sources(self) -> frozenset[str]:
        """Topics that a stage reads."""
        return frozenset(self._stages)

    def feed(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Give a record to its stage; all outputs that follow from it, in order."""
        outs = self._settle_if_due(record.ts_ms)
        return outs + self._run(record)

    def _settle_if_due(self, ts_ms: int) -> list[ProducerRecord]:
        beat = ts_ms // SETTLE_MS
        if self._settle_due is None:
            self._settle_due = beat + 1
        if self._settle_due - 2 <= beat < self._settle_due:
            return []  # far behind is no late record: another trace begins, or a wrong clock had pushed us on
        self._settle_due = beat + 1
        return self.settle()

    def _run(self, record: ConsumerRecord) -> list[ProducerRecord]:
        keys = self._stages[record.topic]
        keys.hear(record.ts_ms)
        if (bad := unfit(record)) is not None:
            return [self._refused(record, *bad)]
        try:
            outs = self._passed_on(keys.update(record))
        except DecodeError as error:
            return [self._refused(record, error.reason, error.brief)]
        except OperatorFailedError as error:
            return [self._refused(record, Reason.OPERATOR, str(error))]
        return outs + self._passed_on(keys.leave())

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
                outs += self._run(self._as_input(emission))
        return outs

    def _as_input(self, out: ProducerRecord) -> ConsumerRecord:
        offset = self._offsets[out.topic]
        self._offsets[out.topic] += 1
        return ConsumerRecord(out.topic, 0, offset, out.key, out.value, out.ts_ms)

    def settle(self) -> list[ProducerRecord]:
        """Send what is coalesced, stage by stage, so that what one settles reaches the next."""
        return self._each(LocalKeys.settle)

    def close(self) -> list[ProducerRecord]:
        """The input has ended: close what is open, stage by stage."""
        return self._each(LocalKeys.close)

    def _each(self, act: Callable[[LocalKeys, str], list[Emission]]) -> list[ProducerRecord]:
        outs: list[ProducerRecord] = []
        for keys in self._stages.values():
            for key in keys.sorted():
                outs += self._passed_on(act(keys, key))
        return outs
