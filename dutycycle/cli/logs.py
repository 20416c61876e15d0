"""Logging of the command: to stderr, one line an event."""

import logging

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def set_up(*, verbose: bool) -> None:
    """Our own events from INFO on, libraries from WARNING on; with ``verbose`` libraries from INFO on."""
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=_FORMAT, force=True)
    logging.getLogger("dutycycle").setLevel(logging.INFO)
