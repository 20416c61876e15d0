"""What a worker of the streams counts: events of states, and everything that is declared from 0 on."""

import logging
from collections.abc import Sequence
from functools import cache

from bus.faust.logs import LIBRARIES, LIBRARY_SAID
from contract.records.deadletter import Reason
from contract.topics import SAMPLE_TOPICS, TOPICS
from streams.operators.base import Stage
from telemetry import events
from telemetry.events import Event, Telemetry
from telemetry.meter import product
from telemetry.metrics import (
    COMMIT_SECONDS,
    COMMITS,
    RECORDS_TAKEN,
    RECORDS_USED,
    SNAPSHOT_BYTES,
    SNAPSHOTS,
)

STATE_RESET = Event(
    "state_reset", logging.ERROR, "States of a key begun anew, because the old one was of no use", ("stage",)
)
STATE_LARGE = Event("state_large", logging.WARNING, "States stored in pieces, over 400 kB each", ("stage",))
STATE_REWRITTEN = Event(
    "state_rewritten", logging.WARNING,
    "Stored records written anew, because a worker that was replaced had written older ones after them",
    ("stage",),
)  # fmt: skip
STATE_EVICTED = Event(
    "state_evicted", logging.INFO, "States of a key that was idle for so long that it left", ("stage",)
)
STATE_EVENTS = (STATE_RESET, STATE_LARGE, STATE_REWRITTEN, STATE_EVICTED)

_SAMPLES = [topic for topic in SAMPLE_TOPICS if topic.endswith("-samples")]


@cache
def declared(name: str) -> Event:
    """The event that an operator names. One that nobody declared is counted under its own name."""
    known = {one.name: one for one in vars(events).values() if isinstance(one, Event)}
    return known.get(name) or Event(name, logging.INFO, "Counted by an operator", ("topic",))


def expect(telemetry: Telemetry, stages: Sequence[Stage]) -> None:
    """Declare what may be counted: a rate needs a value before the first increment."""
    sources, names = [stage.source for stage in stages], [stage.name for stage in stages]
    telemetry.expect(events.BROKER_UNREACHABLE)
    telemetry.expect(events.DEAD_LETTER, product(sources, Reason))
    for event in (events.SAMPLE_LATE, events.SAMPLE_DUPLICATE, events.CLOCK_JUMP, events.DUPLICATE_PRODUCER):
        telemetry.expect(event, product(source for source in sources if source in _SAMPLES))
    telemetry.expect(events.SOURCE_GAP, product(sources))
    outputs = [name for name, topic in TOPICS.items() if topic.writer != "collector"]
    telemetry.expect(events.RECORD_TOO_LARGE, product(outputs))
    telemetry.expect(LIBRARY_SAID, product(LIBRARIES))
    for event in STATE_EVENTS:
        telemetry.expect(event, product(names))
    for metric in (RECORDS_TAKEN, RECORDS_USED):
        telemetry.meter.expect(metric, *product(sources))
    for metric in (SNAPSHOTS, SNAPSHOT_BYTES):
        telemetry.meter.expect(metric, *product(names))
    for metric in (COMMITS, COMMIT_SECONDS):
        telemetry.meter.expect(metric)
