"""SIGKILL of a collector, many times, with the broker there and away: what was on disk arrives, in order.

What SIGKILL may cost is what was neither acknowledged nor on disk: the ticks since the last acknowledgement,
for at most the three seconds after which the broker counts as away; from then on a tick is on disk as soon as
it is taken. So of each start the ticks that arrive are those from 0 on without a hole, up to where it was
killed.
"""

import random
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson
import pytest
import zstandard

from dutycycle.kafka.errors import MissingTopicError
from tests.support.kafka import settings_of
from tests.support.processes.commands import environ, mortal, read_now, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import wait_until

TOPIC = "cgroup-samples"
Named = tuple[str, int]
"""A tick: its collector and its number."""


def arrived(env: Mapping[str, str]) -> list[Named]:
    """The ticks on the broker, in order."""
    return [named(payload) for payload in read_now(settings_of(env), [TOPIC])[TOPIC, "a"]]


def named(payload: bytes) -> Named:
    plain = orjson.loads(payload)
    return plain["collector"], plain["seq"]


def on_disk(spool: Path) -> list[Named]:
    """The ticks in the spool of a collector that is dead."""
    with sqlite3.connect(spool / "spool.db") as database:
        rows = database.execute("SELECT payload FROM record WHERE topic = ? ORDER BY id", (TOPIC,)).fetchall()
    database.close()
    return [named(zstandard.ZstdDecompressor().decompress(payload)) for (payload,) in rows]


def check(kafka: RunningBroker, prefix: str, folder: Path, kills: int) -> str:
    """Of the kills one in two is while the broker is unreachable."""
    chance = random.Random(kills)  # noqa: S311 - moments, no secrets
    env = environ(
        broker=kafka.url, node="a", interval="100ms", spool=str(folder / "spool"), kubernetes="off",
        topic_prefix=prefix, partitions="2",
    )  # fmt: skip
    saved: list[Named] = []
    outages = 0
    for number in range(kills):
        log = folder / f"{number}.log"
        away = number % 2 == 1
        kafka.ensure_running()
        known = starts_arrived(env)
        with mortal("collect", env=env, log=log):
            if away:
                kafka.stop()
                outages += 1
                wait_until(lambda log=log: "spooled" in log.read_text(), log.read_text)  # type: ignore[misc]
            else:
                wait_until(lambda known=known: starts_arrived(env) > known, log.read_text)  # type: ignore[misc]
            time.sleep(chance.uniform(0, 1.0))
        saved += [one for one in on_disk(folder / "spool") if one not in set(saved)]
    kafka.ensure_running()
    known = starts_arrived(env) + sum(one not in _starts(arrived(env)) for one in _starts(saved))
    with running("collect", env=env, log=folder / "last.log"):
        wait_until(
            lambda: set(saved) <= set(found := arrived(env)) and len(_starts(found)) > known,
            lambda: f"{set(saved) - set(arrived(env))} are missing: {(folder / 'last.log').read_text()}",
        )
    found = arrived(env)
    return f"{_judge(found, saved, folder)}, {kills} kills, {outages} outages"


def starts_arrived(env: Mapping[str, str]) -> int:
    """Of how many starts something arrived."""
    try:
        return len(_starts(arrived(env)))
    except MissingTopicError:  # nothing was ever started
        return 0


def _starts(found: list[Named]) -> list[str]:
    return list(dict.fromkeys(collector for collector, _ in found))


def _judge(found: list[Named], saved: list[Named], folder: Path) -> str:
    overloaded = any("reason=slow" in log.read_text() for log in folder.glob("*.log"))
    first_seen = list(dict.fromkeys(found))
    for collector in _starts(found):
        numbers = [seq for one, seq in first_seen if one == collector]
        assert numbers == sorted(numbers), "order holds within a start"
        assert overloaded or numbers == list(range(len(numbers))), f"a hole in {collector}: {numbers}"
    order = [collector for collector, _ in first_seen]
    assert order == sorted(order, key=_starts(found).index), "and among starts: the older first"
    missing = set(saved) - set(found)
    assert not missing, f"{len(missing)} ticks that were on disk never arrived"
    repeats = len(found) - len(first_seen)
    return (
        f"{len(first_seen)} ticks of {len(_starts(found))} starts, each from 0 on without a hole; "
        f"all {len(set(saved))} that were on disk at a kill arrived; {repeats} repeats"
    )


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(4, id="few"),
        pytest.param(40, marks=[pytest.mark.soak, pytest.mark.timeout(1800)], id="many"),
    ],
)
def test_kills_lose_nothing_that_was_on_disk(
    kills: int, kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    tell(check(kafka, topic_prefix, tmp_path, kills))
