"""What a worker of the streams counts of its states, as named events."""

import logging
from functools import cache

from telemetry import events
from telemetry.events import STREAM, Event

# fmt: off
STATE_RESET = Event(
    "state_reset", logging.ERROR, "States of a key begun anew, because the old one was of no use",
    ("stage",), by=(STREAM,),
)
STATE_LARGE = Event(
    "state_large", logging.WARNING, "States stored in pieces, over 400 kB each", ("stage",), by=(STREAM,)
)
STATE_REWRITTEN = Event(
    "state_rewritten", logging.WARNING,
    "Stored records written anew, because a worker that was replaced had written older ones after them",
    ("stage",), by=(STREAM,),
)
STATE_EVICTED = Event(
    "state_evicted", logging.INFO, "States of a key that was idle for so long that it left", ("stage",),
    by=(STREAM,),
)
# fmt: on


@cache
def declared(name: str) -> Event:
    """The event that an operator names. One that nobody declared is counted under its own name."""
    known = {one.name: one for one in vars(events).values() if isinstance(one, Event)}
    return known.get(name) or Event(name, logging.INFO, "Counted by an operator", ("topic",))
