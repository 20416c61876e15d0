"""What the stream libraries log becomes events."""

import logging
from collections.abc import Iterator

import pytest

from dutycycle.kafka.faust.logs import route_library_logs
from dutycycle.telemetry.events import Telemetry


@pytest.fixture
def library_logs() -> Iterator[None]:
    logs = [logging.getLogger(name) for name in ("faust", "mode", "aiokafka", "dutycycle.kafka", "streams")]
    before = [(log.level, log.propagate, log.handlers) for log in logs]
    yield
    for log, (level, propagate, handlers) in zip(logs, before, strict=True):
        log.setLevel(level)
        log.propagate, log.handlers = propagate, handlers


@pytest.mark.usefixtures("library_logs")
def test_library_errors_become_events(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("test")
    route_library_logs(telemetry)
    log = logging.getLogger("aiokafka.client")
    log.info("Discovered coordinator")
    for _ in range(3):
        log.error("Unable connect\nto node %s", 1)
    log.error("does not fit %d %d", "x")
    assert telemetry.counts["library_said", ("aiokafka",)] == 4
    said = ["Unable connect to node 1", "does not fit %d %d"]  # each once
    assert caplog.messages == [f"library_said library=aiokafka: {one}" for one in said]
