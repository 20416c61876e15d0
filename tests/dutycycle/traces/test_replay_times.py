"""When a record of a trace happened: by its own timestamp, or by its payload's."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import DEFAULT_PREFIX, SAMPLE_TOPICS, full_name
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.traces import republish
from dutycycle.traces.samples import TraceSamples

T = 1_700_000_000_000
POD = {"v": 1, "uid": "u", "namespace": "d", "name": "p", "node": "a", "phase": "Running"}


def written(path: Path, *records: Mapping[str, Any]) -> str:
    """A trace of these records, each of them a sample of the host unless it says otherwise."""
    lines = [{"topic": "dutycycle.cgroup-samples", "key": "a"} | dict(one) for one in records]
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return str(path)


def tick(ts_ms: object) -> dict[str, Any]:
    """A payload that was measured then."""
    return {"v": 1, "node": "a", "collector": "c", "seq": 1, "ts_ms": ts_ms, "interval_ms": 1000}


TIMES = [
    ("its own counts first", [{"ts": T + 5, "payload": tick(T)}], [T + 5]),
    ("its payload's", [{"payload": tick(T)}, {"payload": tick(T + 1000)}], [T, T + 1000]),
    ("in a string too", [{"payload": orjson.dumps(tick(T)).decode()}], [T]),
    ("none of its own: the last one's", [{"payload": tick(T)}, {"payload": POD}], [T, T]),
    ("a tombstone", [{"payload": tick(T)}, {"payload": None}], [T, T]),
    ("no time", [{"payload": one} for one in (tick(T), tick("x"), "[]", "?")], [T] * 4),
    ("none that Kafka could store", [{"payload": tick(one)} for one in (T, 2**63, -1)], [T] * 3),
    ("none known yet", [{"payload": POD}, {"payload": tick(T)}], [0, T]),
]  # fmt: skip


@pytest.mark.parametrize(("records", "expected"), [one[1:] for one in TIMES], ids=[one[0] for one in TIMES])
def test_when_a_record_happened(records: list[dict[str, Any]], expected: list[int], tmp_path: Path) -> None:
    trace = written(tmp_path / "t.jsonl", *records)
    assert [one.ts_ms for one in TraceSamples([trace], DEFAULT_PREFIX)] == expected


def test_it_is_published_with_that_time_and_paced_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses = []

    async def sleep(_: asyncio.Event, seconds: float) -> bool:
        pauses.append(seconds)
        return False

    monkeypatch.setattr(republish, "stopped_within", sleep)
    pod = {"topic": "dutycycle.pods", "key": "u", "payload": POD}
    trace = written(tmp_path / "t.jsonl", pod, {"payload": tick(T)}, {"payload": tick(T + 1000)})
    began_ms = time.time_ns() // 1_000_000
    with EmbeddedBroker({f"dutycycle.{name}": 1 for name in SAMPLE_TOPICS}) as broker:
        republish.republish([trace], load({}, {"broker": broker.url}), speed=0.001)
        assert stored(broker.url, "cgroup-samples") == [T, T + 1000]
        (of_pod,) = stored(broker.url, "pods")
    assert of_pod >= began_ms, "when it happened is not known: now is what Kafka takes"
    assert len(pauses) == 1
    assert 900 < pauses[0] <= 1000
    assert "the trace begins" in capsys.readouterr().err


def stored(url: str, topic: str) -> list[int]:
    """The timestamps of what lies on a topic."""

    async def read() -> list[int]:
        consumer = Consumer(
            load({}, {"broker": url}), "test", [full_name(DEFAULT_PREFIX, topic)], "beginning"
        )
        await consumer.start()
        found: list[int] = []
        try:
            ends = await consumer.ends()
            while not await consumer.reached(ends):
                found += [one.ts_ms for one in await consumer.take()]
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())
