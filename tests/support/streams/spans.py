"""A toy stage whose outputs show every beginning of a key: a span lasts from there until the key leaves."""

import asyncio
import os
from typing import Any

import orjson

from dutycycle.contract.codec import DecodeError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import Telemetry
from streams.operators.base import Emission, Operator, Snapshot, Stage
from streams.service import run_stages
from tests.support.streams.toy import SOURCE

EVICT_MS = 240
STRIDE_MS = 10
AT_ONCE = "window-aggregates"
"""For each record: the span that it belongs to, and its place in it."""
CLOSED = "trends"
"""A span that has ended, with how many records it had."""


class Span(Operator):
    """Counts the records of a span, which its first record names. ``pad`` makes the state large."""

    def __init__(self, key: str, snapshot: Snapshot | None) -> None:
        self._key = key
        self._state: dict[str, Any] = dict(snapshot or {"v": 1, "name": None, "count": 0, "pad": ""})

    def update(self, record: ConsumerRecord) -> list[Emission]:
        if record.value is None or not record.value.startswith(b"{"):
            raise DecodeError(record.topic, "payload", Reason.DECODE, "no object")
        given = orjson.loads(record.value)
        if "boom" in given:
            self._state["count"] += 1_000_000
            raise RuntimeError("boom")
        state = self._state
        state["name"] = given["n"] if state["name"] is None else state["name"]
        state["count"] += 1
        state["pad"] = "".join(map(str, range(given["pad"]))) if "pad" in given else state["pad"]
        return [self._out(AT_ONCE, record.ts_ms)]

    def close(self) -> list[Emission]:
        return [self._out(CLOSED, 0)] if self._state["count"] else []

    def snapshot(self) -> Snapshot:
        return dict(self._state)

    def _out(self, topic: str, ts_ms: int) -> ProducerRecord:
        return ProducerRecord(
            topic, self._key, orjson.dumps([self._state["name"], self._state["count"]]), ts_ms
        )


SPANS = Stage(name="spans", source=SOURCE, build=Span, evict_ms=EVICT_MS)


def at(offset: int, ts_ms: int, key: str = "a", **fields: Any) -> ConsumerRecord:
    """A record at a time; ``n`` is its offset."""
    return ConsumerRecord(SOURCE, 0, offset, key, orjson.dumps({"n": offset, **fields}), ts_ms)


def log_of(*times: tuple[str, int]) -> list[ConsumerRecord]:
    """Records of keys at times, in this order."""
    return [at(offset, ts_ms, key) for offset, (key, ts_ms) in enumerate(times)]


def ticking(key: str, begin_ms: int, end_ms: int) -> list[tuple[str, int]]:
    """Times of a key that comes every stride, from ``begin_ms`` up to but not including ``end_ms``."""
    return [(key, ts_ms) for ts_ms in range(begin_ms, end_ms, STRIDE_MS)]


if __name__ == "__main__":  # a worker, settings in the environment, until it is killed
    asyncio.run(run_stages(load(os.environ), [SPANS], Telemetry("spans"), asyncio.Event()))
