"""Reads the samples of trace files."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import orjson

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.topics import DEFAULT_PREFIX, SAMPLE_TOPICS, short_name
from dutycycle.contract.trace import TraceError
from dutycycle.contract.trace_reader import TraceReader

_LATEST_MS = 2**63 - 1
_MANY_LATE = 0.05
"""Of all samples: a few are late in any cluster."""
_NAMED = 5
"""Bad lines that are named; the others are counted."""


def late_words(late: int, ticks: int) -> str:
    """Say that ``late`` of all ``ticks`` of a trace were of no use to the streams; empty where they are
    few."""
    if late <= _MANY_LATE * ticks:
        return ""
    return f"{late} of {ticks} samples came after later ones, so no window, trend or cycle has them"


class TraceSamples:
    """Reads the samples of several traces. Derived records in a trace are passed over: a replay makes them
    anew.

    A record without a timestamp takes its payload's ``ts_ms``; without that (a pod) the time of the record
    before it, and 0 as long as there was none.

    Raises ``TraceError`` for a bad line, and for a topic that is none of ours, under ``prefix`` or the
    default one. With ``bad`` such lines are counted, and it is told of the first ones.

    ``tally`` counts the records of each topic, ``bad`` the bad lines. ``size``: bytes of all files; None if
    that is not known.
    """

    def __init__(
        self, traces: Sequence[str], prefix: str, topics: Collection[str] = SAMPLE_TOPICS, *,
        bad: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self._traces, self._prefix, self._topics = traces, prefix, topics
        self._tell, self.bad = bad, 0
        self._before = 0
        self._reader: TraceReader | None = None
        self._last_ms = 0
        self.tally: Counter[str] = Counter()
        files = [Path(trace) for trace in traces]
        self.size = sum(file.stat().st_size for file in files) if all(map(Path.is_file, files)) else None

    def position(self) -> int:
        """Tell how many bytes of the files were read."""
        return self._before + (0 if self._reader is None else self._reader.position())

    def check(self) -> None:
        """Raises ``DutycycleError`` if there was no sample in them."""
        if not any(self.tally[topic] for topic in SAMPLE_TOPICS):
            raise no_samples(self._traces)

    def left_out(self) -> Iterator[str]:
        """Yield a line for people, if anything was left out."""
        if self.bad:
            yield f"left out: {self.bad} bad line{'s' * (self.bad != 1)}"

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for path in self._traces:
            self._reader = TraceReader(path, bad=self._count if self._tell else None)
            for number, record in self._reader:
                topic = short_name(self._prefix, record.topic) or short_name(DEFAULT_PREFIX, record.topic)
                if topic is None:
                    known = ", ".join(self._prefix + name for name in SAMPLE_TOPICS)
                    why = f"topic {record.topic!r:.120} is none of {known}; another prefix is given with "
                    error = TraceError(path, number, f"{why}--topic-prefix")
                    if self._tell is None:
                        raise error
                    self._count(error)
                    continue
                moment_ms = _measured_ms(record.payload) if record.ts_ms is None else record.ts_ms
                self._last_ms = self._last_ms if moment_ms is None else moment_ms
                self.tally[topic] += 1
                if topic in self._topics:
                    offset = number - 1 if record.offset is None else record.offset
                    yield ConsumerRecord(
                        topic, record.partition, offset, record.key, record.payload, self._last_ms
                    )
            self._before += Path(path).stat().st_size if self.size is not None else 0
            self._reader = None

    def _count(self, error: TraceError) -> None:
        self.bad += 1
        if self._tell is not None and self.bad <= _NAMED:
            self._tell(f"left out: {error}")


def no_samples(traces: Iterable[str]) -> DutycycleError:
    """Return the error that there was nothing to replay."""
    wanted = ", ".join(SAMPLE_TOPICS)
    return DutycycleError(f"{', '.join(traces)}: no samples to replay: expected records of {wanted}")


def _measured_ms(payload: bytes | None) -> int | None:
    """Return the ``ts_ms`` of a payload, if it has one that Kafka could store."""
    try:
        record = orjson.loads(payload or b"")
    except orjson.JSONDecodeError:
        return None
    ts_ms = record.get("ts_ms") if type(record) is dict else None
    return ts_ms if type(ts_ms) is int and 0 < ts_ms <= _LATEST_MS else None
