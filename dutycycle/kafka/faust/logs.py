"""Turns what Faust and the Kafka client log, as one named event: counted, said once a minute each, no
tables."""

import logging

from dutycycle.telemetry.events import SINK, STREAM, Event, Telemetry

_LIBRARIES = ("faust", "mode", "aiokafka", "dutycycle.kafka", "streams")
"""Mode names the log of a service after the module of its class, so ours are among them."""
_LIBRARY_SAID = Event(
    "library_said", logging.WARNING, "Errors that the stream libraries logged", ("library",),
    by=(STREAM, SINK), values={"library": _LIBRARIES},
)  # fmt: skip
_LENGTH = 300


class _EventHandler(logging.Handler):
    def __init__(self, library: str, telemetry: Telemetry) -> None:
        super().__init__(logging.ERROR)
        self._library = library
        self._telemetry = telemetry

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # a message that does not fit its arguments
            text = str(record.msg)
        first = " ".join(text.split())[:_LENGTH]
        self._telemetry.emit(_LIBRARY_SAID, first, about=str(record.msg), library=self._library)


def route_library_logs(telemetry: Telemetry) -> None:
    """Send the libraries' errors to ``telemetry``, and drop everything below."""
    for name in _LIBRARIES:
        log = logging.getLogger(name)
        log.handlers = [_EventHandler(name, telemetry)]
        log.propagate = False
        log.setLevel(logging.ERROR)
