"""States that an older Dutycycle wrote, and one that a newer or nobody's wrote."""

import struct
from typing import Any

import orjson
import pytest
import zstandard

from streams.operators.base import Snapshot, Stage
from streams.operators.migration import migrated
from streams.runtime.events import STATE_EVICTED
from streams.state.codec import PIECE_BYTES, Resumed, unpack
from streams.state.record import FORMAT, Kind, head_body, header_of, piece_key, state_key
from tests.streams.runtime.test_eviction import keys_of, spans
from tests.support.streams.port import Broker, Worker
from tests.support.streams.spans import AT_ONCE, EVICT_MS, SPANS, STRIDE_MS, Span, at
from tests.support.streams.toy import SOURCE

KEY = state_key(0, "a")


def format_1(kind: int, offset: int, body: bytes) -> bytes:
    """A value as it was before it said when its key was seen."""
    return struct.pack(">BBQ", 1, kind, offset) + body


def old_state(**fields: Any) -> bytes:
    return orjson.dumps({"v": 1, "name": 7, "count": 3, "pad": "", **fields})


def test_format_1_is_read() -> None:
    value = format_1(Kind.JSON, 5, old_state())
    assert unpack(KEY, {KEY: value}.get) == Resumed(5, orjson.loads(old_state()), 0)


def test_pieces_of_format_1_are_read() -> None:
    body = zstandard.compress(old_state(pad="x" * 100))
    half = len(body) // 2
    log = {KEY: format_1(Kind.HEAD, 5, head_body(1, 2))}
    for number, part in enumerate((body[:half], body[half:])):
        log[piece_key(KEY, 1, number)] = format_1(Kind.PIECE, 5, part)
    found = unpack(KEY, log.get)
    assert found is not None
    assert found.snapshot["pad"] == "x" * 100
    assert half < PIECE_BYTES


async def upgraded(keys: str = "ab") -> Worker:
    broker = Broker()
    for offset, key in enumerate(keys):
        broker.changelog[state_key(0, key)] = format_1(Kind.JSON, offset, old_state())
    broker.committed[0] = len(keys)
    return Worker(broker, stage=SPANS)


async def test_after_an_upgrade_a_key_goes_on_and_nothing_leaves_at_once() -> None:
    worker = await upgraded()
    await worker.take(at(2, 10**12, "a"))
    await worker.flow.commit()
    await worker.take(at(3, 10**12 + EVICT_MS, "a"))
    await worker.flow.commit()
    assert spans(worker.port.broker.outputs, AT_ONCE) == {("a", 7, 4), ("a", 7, 5)}
    assert keys_of(worker.port.broker) == {"a", "b"}
    header = header_of(worker.port.broker.changelog[KEY])
    assert header is not None
    assert worker.port.broker.changelog[KEY][0] == FORMAT


async def test_what_never_comes_again_leaves_later_even_with_restarts_in_between() -> None:
    broker, offset = (await upgraded()).port.broker, 2
    for step in range(EVICT_MS // STRIDE_MS + 2):
        worker = Worker(broker, stage=SPANS)  # a new worker for each record
        await worker.take(at(offset + step, step * STRIDE_MS, "a"))
        await worker.flow.commit()
        await worker.flow.commit()
    assert keys_of(broker) == {"a"}
    assert worker.telemetry.count(STATE_EVICTED) == 1


def newer_span(key: str, snapshot: Snapshot | None) -> Span:
    """A stage whose states are of version 2 now: what was ``total`` is ``count``."""
    steps = {1: lambda plain: {**plain, "count": plain["total"]}}
    return Span(key, None if snapshot is None else migrated(snapshot, 2, "a span", steps))


@pytest.mark.parametrize(
    ("stored", "goes_on", "resets"),
    [
        pytest.param(old_state(v=1, total=41), True, 0, id="an older version is migrated"),
        pytest.param(old_state(v=2, count=41), True, 0, id="today's"),
        pytest.param(old_state(v=3, count=41), False, 1, id="a newer one begins anew"),
        pytest.param(old_state(v=1), False, 1, id="an older one that its step fails on begins anew"),
        pytest.param(b'{"v":2}'[:-1], False, 1, id="a damaged one begins anew"),
    ],
)
async def test_snapshots_of_any_version(stored: bytes, goes_on: bool, resets: int) -> None:
    """Told, and never a crash: the worker takes what comes, and goes on after the next restart."""
    broker = Broker()
    broker.changelog[KEY] = format_1(Kind.JSON, 0, stored)
    broker.committed[0] = 1
    stage = Stage(name="spans", source=SOURCE, build=newer_span, evict_ms=EVICT_MS)
    worker = Worker(broker, stage=stage)
    await worker.take(at(1, 0))
    await worker.flow.commit()
    first = ("a", 7, 42) if goes_on else ("a", 1, 1)
    assert spans(broker.outputs, AT_ONCE) == {first}
    assert worker.telemetry.counts["state_reset", ("spans",)] == resets
    again = Worker(broker, stage=Stage(name="spans", source=SOURCE, build=Span, evict_ms=EVICT_MS))
    await again.take(at(2, 0))
    await again.flow.commit()
    assert ("a", first[1], first[2] + 1) in spans(broker.outputs, AT_ONCE)
    assert again.telemetry.counts["state_reset", ("spans",)] == 0
