"""What a worker of the streams counts of its states, as named events."""

import logging
from functools import cache

from telemetry import events
from telemetry.events import STREAM, Event

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


@cache
def declared(name: str) -> Event:
    """The event that an operator names. One that nobody declared is counted under its own name."""
    known = {one.name: one for one in vars(events).values() if isinstance(one, Event)}
    return known.get(name) or Event(name, logging.INFO, "Counted by an operator", ("topic",))
