"""What a worker of the streams counts, from 0 on: a rate needs a value before the first increment."""

from collections.abc import Sequence

from bus.faust.logs import LIBRARIES, LIBRARY_SAID
from contract.records.deadletter import Reason
from contract.topics import SAMPLE_TOPICS, TOPICS
from streams.operators.base import Stage
from streams.runtime import events
from telemetry.events import (
    BROKER_UNREACHABLE,
    CLOCK_JUMP,
    DEAD_LETTER,
    DUPLICATE_PRODUCER,
    RECORD_TOO_LARGE,
    SAMPLE_DUPLICATE,
    SAMPLE_LATE,
    SOURCE_GAP,
    Event,
    Telemetry,
)
from telemetry.meter import product
from telemetry.metrics import (
    COMMIT_SECONDS,
    COMMITS,
    RECORDS_TAKEN,
    RECORDS_USED,
    SNAPSHOT_BYTES,
    SNAPSHOTS,
)

_SAMPLES = [topic for topic in SAMPLE_TOPICS if topic.endswith("-samples")]


def expect(telemetry: Telemetry, stages: Sequence[Stage]) -> None:
    """Declare what may be counted."""
    sources, names = [stage.source for stage in stages], [stage.name for stage in stages]
    telemetry.expect(BROKER_UNREACHABLE)
    telemetry.expect(DEAD_LETTER, product(sources, Reason))
    for event in (SAMPLE_LATE, SAMPLE_DUPLICATE, CLOCK_JUMP, DUPLICATE_PRODUCER):
        telemetry.expect(event, product(source for source in sources if source in _SAMPLES))
    telemetry.expect(SOURCE_GAP, product(sources))
    outputs = [name for name, topic in TOPICS.items() if topic.writer != "collector"]
    telemetry.expect(RECORD_TOO_LARGE, product(outputs))
    telemetry.expect(LIBRARY_SAID, product(LIBRARIES))
    for event in vars(events).values():
        if isinstance(event, Event):
            telemetry.expect(event, product(names) if event.labels == ("stage",) else ())
    for metric in (RECORDS_TAKEN, RECORDS_USED):
        telemetry.meter.expect(metric, *product(sources))
    for metric in (SNAPSHOTS, SNAPSHOT_BYTES):
        telemetry.meter.expect(metric, *product(names))
    for metric in (COMMITS, COMMIT_SECONDS):
        telemetry.meter.expect(metric)
