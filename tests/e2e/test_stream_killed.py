"""The real stages in a worker that is killed again and again: the records of an undisturbed replay."""

import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bus.embedded import EmbeddedBroker
from streams.app import changelog_topics
from streams.topology import stages
from tests.e2e.commands import environ, read_now, running, wait_until
from tests.e2e.test_replay_through_kafka import trace
from tests.faults.oracle import DERIVED, difference, replayed, results
from wire.settings import Settings, load
from wire.topics import TOPICS, full_name

__all__ = ["trace"]  # the fixture
PREFIX = "killed."
KILLS = 2


def live_and_die(env: Mapping[str, str], settings: Settings, log: Path, chance: random.Random) -> None:
    """A worker that is killed at some moment after it has sent its first windows."""
    before = windows(settings)
    with log.open("wb") as out:
        command = [sys.executable, "-m", "dutycycle", "stream"]
        worker = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: windows(settings) > before, log.read_text)
        time.sleep(chance.uniform(0, 1))  # any moment of its work
    finally:
        worker.kill()
        worker.wait()


def windows(settings: Settings) -> int:
    return sum(map(len, read_now(settings, ["window-aggregates"]).values()))


def test_kills_change_nothing(trace: Path, tmp_path: Path) -> None:
    expected = replayed(trace, tmp_path)
    names = [full_name(PREFIX, name) for name in TOPICS]
    bare = load({}, {"topic_prefix": PREFIX})
    with EmbeddedBroker(dict.fromkeys([*names, *changelog_topics(bare, stages(bare))], 4)) as broker:
        settings = load({}, {"broker": broker.url, "topic_prefix": PREFIX})
        env = environ(broker=broker.url, topic_prefix=PREFIX, snapshot_interval="500ms", partitions="4")
        # 130 s of trace in 43: it goes on while workers come and go.
        command = [
            sys.executable,
            "-m",
            "dutycycle",
            "replay",
            str(trace),
            "--broker",
            broker.url,
            "--speed",
            "3",
        ]
        feeding = subprocess.Popen(command, env=env)
        chance = random.Random(4)  # noqa: S311 - moments, no secrets
        for life in range(KILLS):
            live_and_die(env, settings, tmp_path / f"worker-{life}.log", chance)
        with running("stream", env=env, log=tmp_path / "worker-last.log"):
            assert feeding.wait(120) == 0
            wait_until(
                lambda: results(read_now(settings, DERIVED)) == expected,
                lambda: difference(expected, results(read_now(settings, DERIVED))),
            )
