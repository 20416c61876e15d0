"""Which of the records of pods a report gets, from a topic that is compacted."""

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from bus.kafka.consumer import Message
from contract.codec import encode
from contract.records.pods import Pod
from dutycycle.traces.extract import Wanted, known_pods

WANTED = Wanted(None, 1000, 2000)


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
