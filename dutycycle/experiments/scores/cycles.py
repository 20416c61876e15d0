"""Scores cycles against what is known of them: right at the end of a span, and how soon."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import Cycle
from dutycycle.traces.ticks import subject_key
from streams.operators.columns.tick import TickRow

_CLOSE = 0.05
"""Relative error up to which a period is right: jitter alone moves the mean period of five bursts by 2 %."""


def is_close(period: float | None, true: float) -> bool:
    """Tell whether a period is the true one."""
    return period is not None and abs(period / true - 1) <= _CLOSE


def f1(hits: int, alarms: int, misses: int) -> float | None:
    """Return the harmonic mean of precision and recall; None where there was nothing to find and nothing was
    said."""
    total = 2 * hits + alarms + misses
    return 2 * hits / total if total else None


class CycleTruth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds what is known of one metric of one subject from ``from_ms`` to ``to_ms``: its period in seconds;
    None: it has no cycle. ``subject`` is the key of ``Subject``, such as ``gpu/<node>/<uuid>``."""

    subject: str
    metric: str
    from_ms: int
    to_ms: int
    period_s: float | None = None

    def __post_init__(self) -> None:
        if self.to_ms <= self.from_ms:
            raise ValueError("to_ms has to be later than from_ms")
        if self.period_s is not None and self.period_s <= 0:
            raise ValueError("period_s has to be above 0")


def read_truth(path: str) -> list[CycleTruth]:
    """Return the lines of a file of JSON lines. Raises ``DutycycleError`` that names the line."""
    decode = msgspec.json.Decoder(CycleTruth).decode
    truths = []
    try:
        with open(path, "rb") as lines:  # noqa: PTH123 - a path as it was given
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    truths.append(decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise DutycycleError(f"{path}:{number}: {error}") from error
    except OSError as error:
        raise DutycycleError(f"{path}: {error.strerror}") from error
    if not truths:
        raise DutycycleError(f"{path}: no line says what is true")
    return truths


@dataclass(frozen=True, slots=True)
class _Answer:
    """Holds what was said of a span: ``period_s`` at its end, and when the true period was said first.
    ``is_measured``: whether the trace has the series at all."""

    truth: CycleTruth
    period_s: float | None
    first_ms: int | None
    is_measured: bool

    @property
    def right(self) -> bool | None:
        """Tell whether the answer is right; None where the trace does not have the series: that nothing was
        said of it is no answer."""
        if not self.is_measured:
            return None
        if self.truth.period_s is None:
            return self.period_s is None
        return is_close(self.period_s, self.truth.period_s)

    @property
    def delay_s(self) -> float | None:
        return None if self.first_ms is None else (self.first_ms - self.truth.from_ms) / 1000


class CycleScorer:
    """Collects what is published of the spans that something is known of."""

    def __init__(self, truths: Iterable[CycleTruth]) -> None:
        self._truths = list(truths)
        self._answers: dict[tuple[str, str], list[tuple[int, float | None]]] = defaultdict(list)
        self._wanted = {(truth.subject, truth.metric) for truth in self._truths}
        self._unseen = set(self._wanted)

    def output(self, record: ProducerRecord) -> None:
        """Take a record that the replay made."""
        if record.topic != "cycles" or record.value is None:
            return
        cycle = msgspec.json.decode(record.value, type=Cycle)
        for metric, rhythm in cycle.metrics.items():
            place = cycle.subject.key, metric
            if place in self._wanted:
                self._unseen.discard(place)
                self._answers[place].append((cycle.ts_ms, rhythm.period_s if rhythm.cyclic else None))

    def tick(self, node: str, tick: TickRow) -> None:
        """Take a tick of a sample, for what is measured at all."""
        if self._unseen:
            self._unseen.difference_update(
                (subject_key(node, column), column.metric)
                for column, value in zip(tick.layout.series, tick.values.tolist(), strict=True)
                if value == value
            )

    def result(self) -> dict[str, Any]:
        """Return F1, its parts, the median delay in periods, and each span; those that the trace has no
        series of count in none of them."""
        of_spans = []
        for truth in self._truths:
            last: float | None = None
            first_ms: int | None = None
            for ts_ms, period_s in self._answers[truth.subject, truth.metric]:
                if ts_ms > truth.to_ms:
                    break
                last = period_s
                if truth.period_s is None:
                    continue
                if is_close(period_s, truth.period_s):
                    first_ms = max(ts_ms, truth.from_ms) if first_ms is None else first_ms
                elif ts_ms <= truth.from_ms:  # what was said before the span counts only where it still holds
                    first_ms = None
            is_measured = (truth.subject, truth.metric) not in self._unseen
            of_spans.append(_Answer(truth, last, first_ms, is_measured))
        answers = [answer for answer in of_spans if answer.is_measured]
        cyclic = [answer for answer in answers if answer.truth.period_s is not None]
        hits = sum(answer.right is True for answer in cyclic)
        alarms = sum(answer.period_s is not None and not answer.right for answer in answers)
        delays = [
            answer.delay_s / answer.truth.period_s
            for answer in cyclic
            if answer.truth.period_s and answer.delay_s is not None
        ]
        return {
            "f1": f1(hits, alarms, len(cyclic) - hits),
            "right": sum(answer.right is True for answer in answers),
            "spans": len(answers),
            "false_alarms": alarms,
            "delay_periods": median(delays) if delays else None,
            "of_spans": [
                {
                    **msgspec.to_builtins(answer.truth), "said_s": answer.period_s, "delay_s": answer.delay_s,
                    "right": answer.right,
                }
                for answer in of_spans
            ],
        }  # fmt: skip
