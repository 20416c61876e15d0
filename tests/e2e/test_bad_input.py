"""Bad input on every topic that the streams read: a dead letter or a counted drop, and its neighbours count.

One worker reads the whole table. What it makes of the good records is what a replay makes of them alone.
"""

import asyncio
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.cluster_trace import START_MS, Shape, records
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.contract.trace import TraceRecord
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.data.traces import write_trace
from tests.support.faults.oracle import DERIVED, replayed, results
from tests.support.kafka import all_topics, send
from tests.support.processes.commands import environ, read_now, running
from tests.support.waiting import wait_until

PREFIX = "test."
NODE = "gpu-000"
POD = "00000000-0000-4000-8000-000000000000"
GOOD = list(records(Shape(nodes=2, gpus=2, seconds=45)))
HALF = len(GOOD) // 2


def good(topic: str, key: str) -> bytes:
    """A record as it ought to be: the last of its key before the bad ones are sent."""
    found = [r for r in GOOD[:HALF] if r.topic == DEFAULT_PREFIX + topic and r.key == key]
    return found[-1].payload or b""


def changed(payload: bytes, seq: int | None = None, **fields: Any) -> bytes:
    """``payload`` with other fields (None takes one away), as a tick of its own where it has a ``seq``."""
    plain = orjson.loads(payload) | fields
    if seq is not None:
        plain["seq"] = seq
    return orjson.dumps({name: value for name, value in plain.items() if value is not None})


@dataclass(frozen=True)
class Bad:
    """A record that nobody can use, and the reason that its dead letter gives."""

    goal: str
    topic: str
    key: str | None
    payload: bytes
    reason: str
    error: str


def of_every_topic() -> Iterator[Bad]:
    part = {"v": 1, "uid": POD, "source": "nvml", "node": NODE, "opened_ms": 1, "first_ms": 1, "last_ms": 2,
            "samples": 1,
            "metrics": {"gpu_util_pct": {"max": 100, "at_ms": 1, "sum": 100, "count": 1}}}  # fmt: skip
    job = {"v": 1, "job": {"api_version": "v1", "kind": "Job", "name": "x", "uid": "job-0"}, "pod_uid": POD,
           "pod_name": "p", "node": NODE, "first_ms": 1, "last_ms": 2, "samples": 1, "final": False,
           "metrics": part["metrics"]}  # fmt: skip
    whole = {
        "nvml-samples": (NODE, changed(good("nvml-samples", NODE), seq=70_000), "gpus"),
        "cgroup-samples": (NODE, changed(good("cgroup-samples", NODE), seq=70_000), "host"),
        "pods": (POD, good("pods", POD), "name"),
        "pod-parts": (POD, orjson.dumps(part), "source"),
        "job-parts": ("job-0", orjson.dumps(job), "metrics"),
    }
    for topic, (key, payload, field) in whole.items():
        yield Bad("garbage", topic, key, b"\x00\xff garbage \xfe", "decode", "payload: not JSON")
        yield Bad("an array", topic, key, b"[1]", "decode", "payload: Expected `object`")
        yield Bad("a wrong type", topic, key, changed(payload, None, **{field: [1]}), "schema", field)
        yield Bad("a missing field", topic, key, changed(payload, None, **{field: None}), "schema", field)
        yield Bad("NaN", topic, key, payload[:-1] + b',"x":NaN}', "decode", "not JSON")
        yield Bad("a later version", topic, key, changed(payload, v=2), "version", "version 2")
        yield Bad("no version", topic, key, changed(payload, v=None), "schema", "v: missing")
        yield Bad("too large", topic, key, changed(payload, x="x" * 1_000_000), "size", "at most 1000000")
        yield Bad("no key", topic, None, payload, "key", "no key")
        yield Bad("another's key", topic, "other", payload, "key", "under the key 'other'")


def of_samples() -> Iterator[Bad]:
    for topic in ("nvml-samples", "cgroup-samples"):
        sample = changed(good(topic, NODE), seq=70_001)
        odd = "a/b \u202e\n;--"
        yield Bad("an odd node", topic, odd, changed(sample, node=odd), "schema", "node: ")
        yield Bad("microseconds", topic, NODE, changed(sample, ts_ms=START_MS * 1000), "schema", "ts_ms")
        yield Bad("a tombstone", topic, NODE, b"", "decode", "not JSON")
    plain = orjson.loads(changed(good("nvml-samples", NODE), seq=70_002))
    for goal, value in (("a string", "97"), ("over 100", 101), ("below 0", -1), ("true", True)):
        plain["gpus"][0]["gpu_util_pct"] = value
        payload = orjson.dumps(plain)
        yield Bad(f"percent is {goal}", "nvml-samples", NODE, payload, "schema", "gpus[0].gpu_util_pct")
    plain = orjson.loads(changed(good("cgroup-samples", NODE), seq=70_003))
    plain["pods"][0]["containers"][0]["mem_used_bytes"] = 1e308
    many = orjson.dumps(plain)
    yield Bad("impossibly many bytes", "cgroup-samples", NODE, many, "schema", "mem_used_bytes")
    infinite = many.replace(b"1e308", b"1e999").replace(b"1e+308", b"1e999")
    yield Bad("an infinity", "cgroup-samples", NODE, infinite, "schema", "mem_used_bytes")


BAD = [*of_every_topic(), *of_samples()]


def dropped() -> list[tuple[str, str, bytes]]:
    """Ticks that are counted and left out: a clock an hour ahead, a tick seen twice."""
    found = []
    for topic in ("nvml-samples", "cgroup-samples"):
        last = good(topic, NODE)
        ahead = orjson.loads(last)["ts_ms"] + 3_600_000
        found.append((topic, NODE, changed(last, seq=500, ts_ms=ahead)))
        found.append((topic, NODE, last))
    return found


def line(one: TraceRecord) -> tuple[str, str | None, bytes, int]:
    return one.topic.removeprefix(DEFAULT_PREFIX), one.key, one.payload or b"", one.ts_ms or 0


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    with EmbeddedBroker(all_topics(2, PREFIX)) as broker:
        yield load({}, {"topic_prefix": PREFIX, "broker": broker.url})


def test_the_whole_table(settings: Settings, tmp_path: Path) -> None:
    # Neighbouring ticks of each node change places: out of order, within the allowed lateness.
    sent = list(GOOD)
    for first in range(0, len(sent) - 8, 8):
        sent[first : first + 8] = reversed(sent[first : first + 8])
    expected = replayed(write_trace(tmp_path / "good.jsonl", sent), tmp_path)
    bad = [(one.topic, one.key, one.payload, START_MS) for one in BAD]
    counted = [(*one, START_MS) for one in dropped()]
    env = environ(broker=settings.broker or "", topic_prefix=PREFIX, partitions="2", snapshot_interval="0.5s")
    log = tmp_path / "stream.log"
    with running("stream", env=env, log=log) as worker:
        half = [line(one) for one in sent[:HALF]]
        rest = [line(one) for one in sent[HALF:]]
        places = asyncio.run(send(settings, [*half, *bad, *counted, *rest]))[HALF : HALF + len(bad)]
        wait_until(lambda: results(read_now(settings, DERIVED)) == expected, log.read_text)
        wait_until(lambda: len(letters(settings)) >= len(bad), log.read_text)
        # By itself, and last: a partition of the embedded broker holds no more than this.
        payload = changed(good("pods", POD), x="x" * 5_000_000)
        large = Bad("five megabytes", "pods", POD, payload, "size", "at most")
        places += asyncio.run(send(settings, [(large.topic, large.key, large.payload, START_MS)]))
        wait_until(lambda: len(letters(settings)) > len(bad), log.read_text)
        assert worker.poll() is None
    found = letters(settings)
    assert len(found) == len(places)
    for one, place in zip([*BAD, large], places, strict=True):
        letter = found[one.topic, *place]
        assert letter["reason"] == one.reason, (one.goal, one.topic, letter)
        assert one.error in letter["error"], (one.goal, one.topic, letter)
        assert b64decode(letter["payload_b64"]) == one.payload[:65_536], one.goal
    assert results(read_now(settings, DERIVED)) == expected, "and the end adds nothing"
    for event in ("sample_duplicate", "clock_jump", "dead_letter"):
        assert event in log.read_text(), event


def letters(settings: Settings) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Dead letters by topic without prefix, partition and offset of the bad record."""
    found = {}
    for payload in (one for many in read_now(settings, ["dead-letters"]).values() for one in many):
        letter = orjson.loads(payload)
        found[letter["topic"].removeprefix(PREFIX), letter["partition"], letter["offset"]] = letter
    return found
