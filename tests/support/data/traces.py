"""Writing and reading a trace file, for tests."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.topics import DEFAULT_PREFIX, short_name
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.contract.trace_reader import TraceReader


def write_trace(path: Path, records: Iterable[TraceRecord]) -> Path:
    """A trace file of ``records``."""
    with TraceWriter(str(path)) as writer:
        for one in records:
            writer.write(one)
    return path


def read_trace(path: str) -> Iterator[TraceRecord]:
    """The records of a trace file, in order; raises ``TraceError``."""
    return (record for _, record in TraceReader(path))


def read_by_topic(trace: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of a trace file as plain objects, by topic without prefix; of those that it has."""
    objects: dict[str, list[dict[str, Any]]] = {}
    for record in read_trace(str(trace)):
        topic = short_name(DEFAULT_PREFIX, record.topic) or record.topic
        objects.setdefault(topic, []).append(orjson.loads(record.payload or b""))
    return objects


def consumed(records: Iterable[TraceRecord]) -> Iterator[ConsumerRecord]:
    """The records as a stage gets them."""
    for offset, one in enumerate(records):
        topic = short_name(DEFAULT_PREFIX, one.topic) or one.topic
        yield ConsumerRecord(topic, 0, offset, one.key, one.payload, one.ts_ms or 0)
