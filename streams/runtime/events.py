"""What may happen to the state of a key, as named events."""

import logging
from functools import cache

from telemetry import events
from telemetry.events import Event

STATE_RESET = Event(
    "state_reset", logging.ERROR, "States of a key begun anew, because the old one was of no use", ("stage",)
)
STATE_LARGE = Event("state_large", logging.WARNING, "States stored in pieces, over 400 kB each", ("stage",))
STATE_RENEWED = Event(
    "state_renewed", logging.WARNING,
    "Stored records written anew, because a worker that was replaced had written older ones after them",
    ("stage",),
)  # fmt: skip
STATE_EVICTED = Event(
    "state_evicted", logging.INFO, "States of a key that was idle for so long that it left", ("stage",)
)


@cache
def named(name: str) -> Event:
    """The event that an operator names. One that nobody declared is counted under its own name."""
    declared = {one.name: one for one in vars(events).values() if isinstance(one, Event)}
    return declared.get(name) or Event(name, logging.INFO, "Told by an operator", ("topic",))
