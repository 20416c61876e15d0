"""A worker's topics are there before its operators are imported, or its start says why not."""

import threading

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import TOPICS, full_name
from dutycycle.kafka.topics import topics_there
from streams.ahead import request_topics
from streams.names import changelogs, sources
from tests.support.servers.kafka.broker import RunningBroker


def join() -> None:
    for thread in threading.enumerate():
        if thread.name == "topics":
            thread.join(240)
            assert not thread.is_alive()


async def test_all_that_the_worker_asks_for_is_made(kafka: RunningBroker, topic_prefix: str) -> None:
    settings = load(kafka.settings() | {"DUTYCYCLE_TOPIC_PREFIX": topic_prefix, "DUTYCYCLE_PARTITIONS": "2"})
    request_topics(settings)
    join()
    outputs = [name for name, topic in TOPICS.items() if "streams" in topic.writer]
    names = [*sources(settings).values(), *outputs]
    wanted = {*changelogs(settings), *(full_name(topic_prefix, name) for name in names)}
    assert set(await topics_there(settings, wanted)) == wanted


def test_a_broker_that_is_away_is_left_to_the_start(capfd: pytest.CaptureFixture[str]) -> None:
    request_topics(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}))
    join()
    assert capfd.readouterr().err == ""


def test_settings_that_do_not_go_together_make_no_topics() -> None:
    settings = load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1", "DUTYCYCLE_RETIRE": "15s"})
    with pytest.raises(SettingError, match="DUTYCYCLE_RETIRE"):
        request_topics(settings)
    assert "topics" not in {thread.name for thread in threading.enumerate()}
