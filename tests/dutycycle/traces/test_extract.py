"""What is read for a report: of pods, whose topic is compacted; and from a broker that goes away."""

from secrets import token_bytes
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from dutycycle.contract.codec import encode
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.load import load
from dutycycle.kafka.consumer import Message
from dutycycle.kafka.errors import BrokerError
from dutycycle.traces.extract import ExtractRequest, known_pods, read_batches
from tests.support.kafka import send
from tests.support.servers.kafka.broker import OwnBroker, RunningBroker

WANTED = ExtractRequest(None, 1000, 2000)


def told(ts_ms: int, uid: str = "p", **values: Any) -> Message:
    pod = replace(Pod(uid=uid, name=uid, node="a", phase="Running", started_ms=500), **values)
    return Message("pods", 0, ts_ms, ts_ms, uid.encode(), encode(pod))


GONE = Message("pods", 0, 1900, 1900, b"p", None)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([told(600)], [(1000, "Running")]),  # as of the beginning
        ([told(600), told(1500, phase="Succeeded")], [(1000, "Running"), (1500, "Succeeded")]),
        ([told(1200), told(2500, phase="Succeeded", finished_ms=2400)], [(1200, "Running")]),
        ([told(1200), GONE], [(1200, "Running")]),  # it is not forgotten that it was there
        ([told(600, finished_ms=900)], []),  # ended before
        ([told(2500, phase="Succeeded", finished_ms=2400)], [(1000, "Running")]),  # compacted
        ([told(2500, started_ms=2200)], []),  # began after
        ([Message("pods", 0, 1, 1, b"p", b"no pod")], []),
    ],
)
def test_what_was_known_in_the_time_that_is_wanted(
    messages: list[Message], expected: list[tuple[int, str]]
) -> None:
    found = known_pods(messages, WANTED)
    assert [(one.ts_ms, orjson.loads(one.payload or b"")["phase"]) for one, _ in found] == expected


async def test_a_broker_that_goes_away_ends_the_reading(kafka: RunningBroker, topic_prefix: str) -> None:
    """Frozen after the first batch: so much lies there that it is not all on its way already."""
    if not isinstance(kafka, OwnBroker):
        pytest.skip("needs a broker of its own to freeze")
    settings = load({}, {"broker": kafka.url, "topic_prefix": topic_prefix})
    kafka.create_topics({topic_prefix + "pods": 1})
    payload = token_bytes(900_000)  # which no compression makes less
    await send(settings, [("pods", "p", payload)] * 40, 1)
    batches = read_batches(settings, ("pods",), "beginning", timeout_s=1.0)
    messages, left = await anext(batches)
    assert len(messages) + left == 40
    with kafka.frozen(), pytest.raises(BrokerError, match=r"has given nothing for 1 s; \d+ records are left"):
        _ = [one async for one in batches]
