"""States of another version, or nobody's, begin anew and say so; states without a clock are not forgotten."""

from dataclasses import replace
from typing import Any

import pytest

from streams.operators.base import Snapshot
from streams.operators.columns.arrays import check_version
from streams.runtime.events import STATE_EVICTED
from streams.state.codec import to_bytes
from streams.state.record import FORMAT, BodyKind, state_key, to_value
from tests.streams.runtime.test_eviction import keys_of, spans
from tests.support.fakes.broker import Broker
from tests.support.streams.port import Worker, place
from tests.support.streams.spans import AT_ONCE, EVICT_MS, SPANS, STRIDE_MS, Span, at

KEY = state_key(0, "a")


def state(**fields: Any) -> bytes:
    return to_bytes({"v": 1, "name": 7, "count": 3, "pad": "", **fields})


def without_clock(keys: str = "ab") -> Broker:
    """What is left if the clock of a partition was damaged or deleted."""
    broker = Broker()
    for offset, key in enumerate(keys):
        broker.replace("spans", state_key(0, key), to_value(BodyKind.PLAIN, offset, 0, state()))
    broker.committed[place()] = len(keys)
    return broker


async def test_without_a_clock_a_key_goes_on_and_nothing_leaves_at_once() -> None:
    worker = Worker(without_clock(), stage=SPANS)
    await worker.commit(at(2, 10**12, "a"))
    await worker.commit(at(3, 10**12 + EVICT_MS, "a"))
    assert spans(worker.port.broker.outputs, AT_ONCE) == {("a", 7, 4), ("a", 7, 5)}
    assert keys_of(worker.port.broker) == {"a", "b"}


async def test_what_never_comes_again_leaves_later_even_with_restarts_in_between() -> None:
    broker, offset = without_clock(), 2
    for step in range(EVICT_MS // STRIDE_MS + 2):
        worker = Worker(broker, stage=SPANS)  # a new worker for each record
        await worker.commit(at(offset + step, step * STRIDE_MS, "a"))
        await worker.commit()
    assert keys_of(broker) == {"a"}
    assert worker.telemetry.count(STATE_EVICTED) == 1


def checked_span(key: str, snapshot: Snapshot | None) -> Span:
    if snapshot is not None:
        check_version(snapshot, 1, "a span")
    return Span(key, snapshot)


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (to_value(BodyKind.PLAIN, 0, 0, state(v=2)), "a span: version 2, this program reads 1"),
        (
            bytes([FORMAT + 1]) + to_value(BodyKind.PLAIN, 0, 0, state())[1:],
            f"state of format {FORMAT + 1:02x}, this program reads {FORMAT:02x}",
        ),
    ],
)
async def test_a_state_that_is_refused_names_its_version_and_ours(
    stored: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker()
    broker.replace("spans", KEY, stored)
    await Worker(broker, stage=replace(SPANS, build=checked_span)).commit(at(1, 0))
    assert words in caplog.text


@pytest.mark.parametrize(
    ("stored", "goes_on"),
    [
        pytest.param(to_value(BodyKind.PLAIN, 0, 0, state(count=41)), True, id="today's"),
        pytest.param(to_value(BodyKind.PLAIN, 0, 0, state(v=2)), False, id="a newer version"),
        pytest.param(to_value(BodyKind.PLAIN, 0, 0, state(v=0)), False, id="an older version"),
        pytest.param(to_value(BodyKind.PLAIN, 0, 0, to_bytes({})), False, id="no version"),
        pytest.param(to_value(BodyKind.PLAIN, 0, 0, state()[:-1]), False, id="damaged"),
        pytest.param(
            bytes([FORMAT + 1]) + to_value(BodyKind.PLAIN, 0, 0, state())[1:], False, id="newer format"
        ),
        pytest.param(
            bytes([FORMAT - 1]) + to_value(BodyKind.PLAIN, 0, 0, state())[1:], False, id="older format"
        ),
    ],
)
async def test_snapshots_of_any_version(stored: bytes, goes_on: bool) -> None:
    """Counted, and never a crash: the worker takes what comes, and goes on after the next restart."""
    broker = Broker()
    broker.replace("spans", KEY, stored)
    broker.committed[place()] = 1
    stage = replace(SPANS, build=checked_span)
    worker = Worker(broker, stage=stage)
    await worker.commit(at(1, 0))
    first = ("a", 7, 42) if goes_on else ("a", 1, 1)
    assert spans(broker.outputs, AT_ONCE) == {first}
    assert worker.telemetry.counts["state_reset", ("spans",)] == (not goes_on)
    again = Worker(broker, stage=stage)
    await again.commit(at(2, 0))
    assert ("a", first[1], first[2] + 1) in spans(broker.outputs, AT_ONCE)
    assert again.telemetry.counts["state_reset", ("spans",)] == 0
