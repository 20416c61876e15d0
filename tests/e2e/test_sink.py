"""The sink as a process: real and embedded Kafka, SQL, kills, outages, poison; every record arrives."""

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from dutycycle.contract.records.derived import JobPeaks
from dutycycle.kafka.embedded import EmbeddedBroker
from sinks.records.query import job_peaks
from tests.support.kafka import PUBLIC, Sent, all_topics, make_topics, send, settings_of
from tests.support.processes.commands import environ, read_now, run_to_end, running
from tests.support.processes.sinking import kept
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.postgres import Postgres
from tests.support.sinks import made
from tests.support.waiting import wait_until

QUICK_S = 60.0
"""An end takes a few seconds, and on a busy machine many times that."""


def environment(url: str, records: str, prefix: str = "dutycycle.") -> dict[str, str]:
    """Of a sink that keeps records and annotates nothing."""
    return environ(broker=url, records=records, topic_prefix=prefix, partitions="3", annotations="off")


def publish(env: dict[str, str], *records: Sent) -> None:
    """Put records on their topics, and wait until the broker has them."""
    asyncio.run(send(settings_of(env), records, 1_700_000_000_000))


def create_topics(env: dict[str, str]) -> None:
    asyncio.run(make_topics(settings_of(env), PUBLIC))


def pods(count: int, **changed: Any) -> list[Sent]:
    """Peaks of so many pods."""
    return [("pod-peaks", f"uid-{i:04}", made.pod_peaks(f"uid-{i:04}", **changed)) for i in range(count)]


def wait_for(env: dict[str, str], count: int, log: Path) -> None:
    wait_until(lambda: len(kept(env)) >= count, lambda: f"{count} pods: {len(kept(env))}, {log.read_text()}")


def wait_for_all(env: dict[str, str], log: Path, **fields: int) -> None:
    """Until every pod that is kept has these fields."""
    wait_until(
        lambda: all(getattr(pod, name) == value for pod in kept(env) for name, value in fields.items()),
        log.read_text,
    )


def check_all_arrive(url: str, prefix: str, records: str, folder: Path) -> None:
    """The same on every broker and every database: good records, poison among them, tombstones, an end."""
    env, log = environment(url, records, prefix), folder / "sink.log"
    job: JobPeaks = made.job_peaks(final=True)
    with running("sink", env=env, log=log):
        publish(
            env, *pods(300), ("pod-peaks", "uid-0001", b"\x00 no JSON"),
            ("pod-peaks", "uid-0002", b'{"v":7}'), ("pod-peaks", "uid-0003", None),
            ("job-peaks", "job-1", b'{"v":1,"job":5}'), ("job-peaks", "job-1", job),
            *pods(310, last_ms=20_000, samples=20), *pods(5),
        )  # fmt: skip
        wait_for(env, 310, log)
        wait_for_all(env, log, last_ms=20_000)
        wait_until(lambda: job_peaks(records) == [job], log.read_text)
        began = time.monotonic()
    assert time.monotonic() - began < QUICK_S
    letters = read_now(settings_of(env), ["dead-letters"])
    reasons = sorted(orjson.loads(one)["reason"] for payloads in letters.values() for one in payloads)
    assert reasons == ["decode", "schema", "version"]
    assert "Traceback" not in log.read_text()


def test_all_arrive_by_real_kafka_in_postgresql(
    kafka: RunningBroker, topic_prefix: str, postgres_url: str, tmp_path: Path
) -> None:
    create_topics(environment(kafka.url, postgres_url, topic_prefix))  # the sink may take long to come to it
    check_all_arrive(kafka.url, topic_prefix, postgres_url, tmp_path)


@pytest.mark.quick  # the sinks as a process
def test_all_arrive_by_the_embedded_broker_in_sqlite(tmp_path: Path) -> None:
    with EmbeddedBroker(all_topics(2)) as broker:
        check_all_arrive(broker.url, "dutycycle.", f"sqlite:///{tmp_path}/records.db", tmp_path)


def test_sigterm_while_the_database_is_away_leaves_all_to_the_next_start(
    kafka: RunningBroker, topic_prefix: str, postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.new_database()
    env = environment(kafka.url, url, topic_prefix)
    create_topics(env)
    log = tmp_path / "log"
    with running("sink", env=env, log=log):
        publish(env, *pods(10))
        wait_for(env, 10, log)
        postgres.stop()
        publish(env, *pods(60))
        wait_until(lambda: "sink_away" in log.read_text(), log.read_text)
    postgres.start()
    with running("sink", env=env, log=tmp_path / "second.log"):
        wait_for(env, 60, tmp_path / "second.log")
    assert "Traceback" not in log.read_text()


def test_a_database_that_hangs_does_not_hinder_the_end(
    kafka: RunningBroker, topic_prefix: str, postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.new_database()
    env = environment(kafka.url, url, topic_prefix)
    create_topics(env)
    log = tmp_path / "log"
    with running("sink", env=env, log=log) as process:
        publish(env, *pods(10))
        wait_for(env, 10, log)
        found = subprocess.run(
            ["pgrep", "-P", str(postgres._process.pid), "-f", "127.0.0.1"],
            capture_output=True,
            text=True,
            check=False,
        )
        backends = [int(pid) for pid in found.stdout.split()]
        assert backends
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        try:
            publish(env, *pods(20))
            time.sleep(2)  # not waited for: only that it is in the middle of a write, in all likelihood
            process.send_signal(signal.SIGTERM)
            assert process.wait(QUICK_S) == 0
        finally:
            for pid in backends:
                os.kill(pid, signal.SIGCONT)


def test_started_before_the_broker_it_waits_and_ends_at_once(
    kafka: RunningBroker, topic_prefix: str, postgres_url: str, tmp_path: Path
) -> None:
    env, log = environment(kafka.url, postgres_url, topic_prefix), tmp_path / "log"
    kafka.stop()
    with running("sink", env=env, log=log):
        wait_until(lambda: "broker_unreachable" in log.read_text(), log.read_text)
        assert f"DUTYCYCLE_BROKER={kafka.url}" in log.read_text()
    with running("sink", env=env, log=tmp_path / "second.log"):
        kafka.start()
        create_topics(env)
        publish(env, *pods(10))
        wait_for(env, 10, tmp_path / "second.log")
        kafka.kill()
        kafka.start()
        publish(env, *pods(20))
        wait_for(env, 20, tmp_path / "second.log")


REFUSED = {
    "unwritable": ({"records": "sqlite:////proc/nowhere/records.db"}, "DUTYCYCLE_RECORDS"),
    "no API server, but asked for": (
        {"annotations": "on", "kubernetes": "off", "records": "sqlite:///{folder}/records.db"},
        "DUTYCYCLE_ANNOTATIONS=on",
    ),
}


@pytest.mark.parametrize(("settings", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_work_is_refused_at_start(settings: dict[str, str], words: str, tmp_path: Path) -> None:
    filled = {name: value.format(folder=tmp_path) for name, value in settings.items()}
    env = environ(**({"broker": "kafka://127.0.0.1:1"} | filled))
    done = run_to_end("sink", env=env)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "s3cret" not in done.stderr
    assert "Traceback" not in done.stderr
