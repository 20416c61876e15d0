"""The collector as a process: signals, outages, kills, and settings that are wrong."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from dutycycle.contract.topics import SAMPLE_TOPICS, full_name
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.kafka import settings_of
from tests.support.processes.commands import environ, read_now, run_to_end, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import wait_until

TOPIC = "cgroup-samples"
QUICK_S = 60.0
"""An end takes a few seconds, and on a busy machine many times that."""


@pytest.fixture
def broker() -> Iterator[InterruptibleBroker]:
    with InterruptibleBroker({full_name("dutycycle.", name): 2 for name in SAMPLE_TOPICS}) as running_broker:
        yield running_broker


def environment(folder: Path, url: str, **extra: str) -> dict[str, str]:
    return environ(
        broker=url, node="a", interval="100ms", spool=str(folder / "spool"), kubernetes="off", **extra
    )


def ticks(env: dict[str, str]) -> list[tuple[str, int, int]]:
    """(collector, seq, ts_ms) of what lies on the broker, in order."""
    payloads = read_now(settings_of(env), [TOPIC])[TOPIC, "a"]
    return [(one["collector"], one["seq"], one["ts_ms"]) for one in map(orjson.loads, payloads)]


def assert_whole(found: list[tuple[str, int, int]], starts: int, folder: Path) -> None:
    """Each start has an id of its own and numbers from 0 without a hole; nothing is out of order.

    A machine that is so busy that a collector was not ready for its next tick makes holes, and says so.
    """
    overloaded = any("reason=slow" in log.read_text() for log in folder.glob("*.log"))
    by_start: dict[str, list[int]] = {}
    for collector, seq, _ in found:
        by_start.setdefault(collector, []).append(seq)
    assert len(by_start) == starts
    for numbers in by_start.values():
        assert overloaded or list(dict.fromkeys(numbers)) == list(range(max(numbers) + 1))
    assert [ts for *_, ts in found] == sorted(ts for *_, ts in found)


@pytest.mark.quick  # the collectors as a process
def test_ticks_arrive_and_sigterm_ends_it_in_seconds(broker: InterruptibleBroker, tmp_path: Path) -> None:
    env = environment(tmp_path, broker.url)
    with running("collect", env=env, log=tmp_path / "a.log") as process:
        wait_until(lambda: len(ticks(env)) >= 10, (tmp_path / "a.log").read_text)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(QUICK_S) == 0
        assert time.monotonic() - began < QUICK_S
    found = ticks(env)
    assert_whole(found, 1, tmp_path)
    assert (found[-1][2] - found[0][2]) / (len(found) - 1) > 95  # late ones are left out, never made up for


def test_no_broker_is_said_once_and_waited_for(broker: InterruptibleBroker, tmp_path: Path) -> None:
    env, log = environment(tmp_path, broker.url), tmp_path / "a.log"
    broker.set_down()
    with running("collect", env=env, log=log):
        wait_until(lambda: "spooled" in log.read_text(), log.read_text)
        assert log.read_text().count("broker_unreachable") == 1
        assert f"DUTYCYCLE_BROKER={broker.url}" in log.read_text()
        broker.set_up()
        wait_until(lambda: len(ticks(env)) >= 10, log.read_text)
        assert "answers" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert_whole(ticks(env), 1, tmp_path)


def test_sigterm_while_the_broker_is_away_keeps_all_for_the_next_start(
    broker: InterruptibleBroker, tmp_path: Path
) -> None:
    env = environment(tmp_path, broker.url)
    broker.set_down()
    with running("collect", env=env, log=tmp_path / "a.log") as process:
        wait_until(lambda: "spooled" in (tmp_path / "a.log").read_text(), (tmp_path / "a.log").read_text)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(QUICK_S) == 0
        assert time.monotonic() - began < QUICK_S
    broker.set_up()
    with running("collect", env=env, log=tmp_path / "b.log"):
        wait_until(lambda: len({one[0] for one in ticks(env)}) == 2, (tmp_path / "b.log").read_text)
    assert_whole(ticks(env), 2, tmp_path)


def test_an_unwritable_spool_is_refused_by_name(broker: InterruptibleBroker, tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    done = run_to_end("collect", env=environment(tmp_path, broker.url))
    assert done.returncode == 1
    assert str(tmp_path / "spool") in done.stderr
    assert "DUTYCYCLE_SPOOL" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_ca_that_is_none_is_refused_although_no_broker_is_there(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"kafka+ssl://127.0.0.1:{closed.getsockname()[1]}"
        done = run_to_end("collect", env=environment(tmp_path, url, tls_ca=str(tmp_path / "ca.pem")))
    assert done.returncode == 2
    assert "DUTYCYCLE_TLS_CA" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_collector_on_one_spool_is_refused(broker: InterruptibleBroker, tmp_path: Path) -> None:
    env = environment(tmp_path, broker.url)
    with running("collect", env=env, log=tmp_path / "a.log"):
        wait_until(lambda: bool(ticks(env)), (tmp_path / "a.log").read_text)
        done = run_to_end("collect", env=env)
    assert done.returncode == 1
    assert "in use by another collector" in done.stderr


def test_real_kafka_comes_later_and_goes_meanwhile(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """Started first, while no broker is there; topics are created when it is; it stops and starts again."""
    env, log = environment(tmp_path, kafka.url, topic_prefix=topic_prefix), tmp_path / "a.log"
    kafka.stop()
    with running("collect", env=env, log=log):
        wait_until(lambda: "spooled" in log.read_text(), log.read_text)
        kafka.start()
        wait_until(lambda: "answers" in log.read_text(), log.read_text)
        kafka.kill()
        wait_until(lambda: log.read_text().count("broker_unreachable") >= 2, log.read_text)
        kafka.start()
        before = len(ticks(env))
        wait_until(lambda: len(ticks(env)) > before + 10, log.read_text)
    assert "Traceback" not in log.read_text()
    assert_whole(list(dict.fromkeys(ticks(env))), 1, tmp_path)


def test_real_kafka_wrong_password_is_refused(secure_kafka: RunningBroker, tmp_path: Path) -> None:
    wrong = secure_kafka.settings() | {"DUTYCYCLE_SASL_PASSWORD": "wrong"}
    env = environment(tmp_path, secure_kafka.url) | wrong
    assert os.environ.get("DUTYCYCLE_SASL_PASSWORD") is None
    done = run_to_end("collect", env=env)
    assert done.returncode == 1
    assert "DUTYCYCLE_SASL" in done.stderr
    assert "Traceback" not in done.stderr
