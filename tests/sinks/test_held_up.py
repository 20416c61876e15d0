"""A database that is away for longer than a stuck worker is left alive: the sink waits, and says so."""

import asyncio
from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.faust import app
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.watchdog import StallDetector, StallLimits
from sinks import service
from sinks.records.query import pod_peaks
from sinks.records.sink import RecordsSink
from sinks.records.store import RecordsAwayError, RecordsStore
from tests.support.kafka import all_topics, send
from tests.support.sinks import made
from tests.support.waiting import until

PODS = 50
BEHIND_S = 8.0
PREFIX = "held."


class SmallSink(RecordsSink):
    """Reading waits for it after a few records."""

    __init__ = partialmethod(RecordsSink.__init__, most_rows=10)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(all_topics(prefix=PREFIX)) as one:
        yield one


@pytest.fixture(autouse=True)
def _short_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "RecordsSink", SmallSink)
    monkeypatch.setitem(app._PLAIN, "stream_buffer_maxsize", 10)


class Away:
    """Takes the database away until ``back``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = True
        put = RecordsStore.put

        def refuse(store: RecordsStore, rows: Any) -> Any:
            if self.is_away:
                raise RecordsAwayError("no answer")
            return put(store, rows)

        monkeypatch.setattr(RecordsStore, "put", refuse)


@pytest.mark.slow  # it waits longer than a stuck worker may, by the worker's own clock
async def test_a_sink_that_waits_for_its_database_is_alive_and_not_ready(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    settings = load({}, {"broker": broker.url, "topic_prefix": PREFIX, "records": url, "annotations": "off"})
    away, stop, telemetry = Away(monkeypatch), asyncio.Event(), Telemetry("sink")
    telemetry.stall_detector = StallDetector(StallLimits(said_s=BEHIND_S, ended_s=BEHIND_S))
    await send(settings, [("pod-peaks", f"uid-{i}", made.pod_peaks(f"uid-{i}")) for i in range(PODS)], 10_000)
    working = asyncio.create_task(service.run(settings, telemetry, stop))
    try:
        await until(lambda: telemetry.conditions, working=working)
        await asyncio.sleep(1.5 * BEHIND_S)  # two checks after its limit a stuck worker would have ended
        assert not working.done(), working.exception()
        assert telemetry.status.alive["worker"]() is None
        assert "no answer" in (telemetry.status.ready["sinks"]() or "")
        away.is_away = False
        await until(lambda: len(pod_peaks(url)) == PODS, working=working)
    finally:
        stop.set()
        await asyncio.wait([working], timeout=30)
    await working
