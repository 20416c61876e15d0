"""Declares what a worker of the streams counts of its states, as named events."""

import logging
from collections.abc import Iterable
from functools import cache

from dutycycle.contract.log import ProducerRecord
from dutycycle.telemetry import events
from dutycycle.telemetry.events import STREAM, Event, Telemetry
from streams.operators.base import CountedEvent, Emission

# fmt: off
STATE_RESET = Event(
    "state_reset", logging.ERROR, "States of a key begun empty, because the stored one could not be used",
    ("stage",), by=(STREAM,),
)
STATE_LARGE = Event(
    "state_large", logging.WARNING, "States stored in pieces, over 400 kB each", ("stage",), by=(STREAM,)
)
STATE_REWRITTEN = Event(
    "state_rewritten", logging.WARNING,
    "Stored records written again, because a replaced worker had written older ones after them",
    ("stage",), by=(STREAM,),
)
STATE_EVICTED = Event(
    "state_evicted", logging.INFO, "States removed, because their key was idle beyond the limit",
    ("stage",), by=(STREAM,),
)
# fmt: on


def count_events(emissions: Iterable[Emission], topic: str, telemetry: Telemetry) -> list[ProducerRecord]:
    """Count the events among ``emissions``, which follow from a record of ``topic``; return the records."""
    outs: list[ProducerRecord] = []
    for emission in emissions:
        if isinstance(emission, CountedEvent):
            event = _declared(emission.event)
            telemetry.emit(event, count=emission.count, **dict.fromkeys(event.labels, topic))
        else:
            outs.append(emission)
    return outs


@cache
def _declared(name: str) -> Event:
    """Return the event that an operator names. One that nobody declared is counted under its own name."""
    known = {event.name: event for event in vars(events).values() if isinstance(event, Event)}
    return known.get(name) or Event(name, logging.INFO, "Counted by an operator", ("topic",))
