"""What the workers of a group must have in common, and what is said of one that has not."""

import asyncio
import subprocess
import sys

import pytest

from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.errors import BrokerRefusedError
from dutycycle.kafka.membership import describe_difference, name_protocol, verify_membership

NAMES = ("windows", "records")


def protocol(**environment: str) -> str:
    return name_protocol(
        load({f"DUTYCYCLE_{name.upper()}": value for name, value in environment.items()}), NAMES
    )


def test_defaults_and_settings_that_decide_no_result_are_not_in_it() -> None:
    assert protocol() == protocol(windows="10s,60s", session_timeout="20s")
    assert protocol() != protocol(windows="30s")


def test_a_database_is_compared_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    first = protocol(records="postgresql://user:hunter2@host/db")
    assert first == protocol(records="postgresql://user:hunter2@host/db")
    assert first == protocol(records="postgresql://user:rotated@host/db"), "who logs in decides no result"
    assert first != protocol(records="postgresql://user:hunter2@other/db")
    assert "hunter2" not in first
    local = protocol(records="sqlite:///records.db")
    monkeypatch.setattr("socket.gethostname", lambda: "another-host")
    assert local != protocol(records="sqlite:///records.db"), "a file of the same name on another host"


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ('dutycycle {"release": "1.0"}', "its workers have release 1.0 (here 2.0), "),
        ('dutycycle {"release": "2.0", "windows": [5.0]}', "DUTYCYCLE_WINDOWS [5.0] (here the default), "),
        ("range", "another program uses this consumer group, with the protocol 'range': stop it, "),
    ],
)
def test_what_differs_is_named_with_what_to_do(theirs: str, words: str) -> None:
    message = describe_difference(theirs, 'dutycycle {"release": "2.0"}')
    assert words in message
    assert "or take another DUTYCYCLE_TOPIC_PREFIX" in message


_MEMBER = """
import asyncio, sys
from dutycycle.contract.settings.load import load
from dutycycle.kafka.membership import verify_membership
asyncio.run(verify_membership(load({}, {"broker": sys.argv[1]}), "sinks", "p"))
print("joins", flush=True)
sys.stdin.read()
"""


def test_a_group_on_the_embedded_broker_has_one_process() -> None:
    """A second member with another protocol fails an assertion of librdkafka's mock, and the broker ends."""
    with EmbeddedBroker({"t": 1}) as broker:
        settings = load({}, {"broker": broker.url})
        member = subprocess.Popen(
            [sys.executable, "-c", _MEMBER, broker.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with member:
            assert member.stdout is not None
            assert member.stdout.readline() == "joins\n"
            asyncio.run(verify_membership(settings, "streams", "p"))
            with pytest.raises(
                BrokerRefusedError, match="is the broker of a `dutycycle up`, whose own worker"
            ):
                asyncio.run(verify_membership(settings, "sinks", "p"))
            member.kill()
        asyncio.run(verify_membership(settings, "sinks", "p"))
