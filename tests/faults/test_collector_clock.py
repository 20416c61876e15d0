"""A wall clock that jumps hours ahead and back under a collector: times are told as they are, rates are sane.

Also on topics that somebody else made, where Kafka refuses timestamps of more than an hour ahead.
"""

import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from dutycycle.contract.topics import SAMPLE_TOPICS
from tests.support.kafka import settings_of
from tests.support.processes.commands import environ, read_now, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import wait_until

TOPIC = "cgroup-samples"
HOUR_MS = 3_600_000
TICKS = 12
"""From one jump to the next."""
JUMPS_MS = (2 * HOUR_MS, 0, -2 * HOUR_MS, 0)
SHIFTED = (sys.executable, "-m", "tests.support.faults.shifted_collector")
"""The collector with a clock that is off by what a file says."""


def samples(env: Mapping[str, str]) -> list[dict[str, Any]]:
    """What is on the broker, in order."""
    return [orjson.loads(one) for one in read_now(settings_of(env), [TOPIC])[TOPIC, "a"]]


def rates(sample: Mapping[str, Any]) -> dict[str, float]:
    """Every rate of the host and of what runs in the sample's cgroups."""
    found = {f"host.{name}": value for name, value in sample["host"].items()}
    for pod in sample["pods"]:
        for one in pod["containers"]:
            found |= {f"{one['id']}.{name}": value for name, value in one.items() if name != "id"}
    return {name: value for name, value in found.items() if name.endswith(("_pct", "_per_s"))}


def _wait_for_ticks(env: Mapping[str, str], count: int, log: Path) -> None:
    wait_until(lambda: len(samples(env)) >= count, log.read_text)


def check_sane(found: list[dict[str, Any]], shifts: list[int]) -> int:
    """No rate is negative or absurd, and times are those of the ticks by their clock; how many rates."""
    count = 0
    for sample in found:
        cpus = sample["host"]["cpu_count"]
        for name, value in rates(sample).items():
            count += 1
            assert value >= 0, (name, value)
            assert value <= (100.0 * cpus * 1.5 if name.endswith("_pct") else 1e11), (name, value)
    for (one, by), (other, then_by) in pairwise(zip(found, shifts, strict=True)):
        passed_ms = (other["ts_ms"] - then_by) - (one["ts_ms"] - by)
        ticks = other["seq"] - one["seq"]
        assert ticks > 0
        assert 0 < passed_ms < 60_000, "the time of the measurement, by the wall clock of that moment"
    return count


def test_times_are_told_as_they_are_and_rates_stay_sane(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    env = environment(kafka, topic_prefix, tmp_path)
    create(kafka, topic_prefix, ahead_ms=2**63 - 1)
    shift, log = tmp_path / "shift", tmp_path / "collect.log"
    shift.write_text("0")
    began_ms = time.time_ns() // 1_000_000
    with running(str(shift), env=env, log=log, start=SHIFTED):
        _wait_for_ticks(env, TICKS, log)
        for shift_ms in JUMPS_MS:
            shift.write_text(str(shift_ms))
            _wait_for_ticks(env, len(samples(env)) + TICKS, log)
    assert "Traceback" not in log.read_text()
    found = samples(env)
    shifts = [min((0, *JUMPS_MS), key=lambda by, ts=one["ts_ms"]: abs(ts - by - began_ms)) for one in found]  # type: ignore[misc]
    assert list(dict.fromkeys(shifts)) == [0, 2 * HOUR_MS, -2 * HOUR_MS]
    numbers = [one["seq"] for one in found]
    assert numbers == list(range(len(numbers))) or "reason=slow" in (tmp_path / "collect.log").read_text()
    count = check_sane(found, shifts)
    tell(
        f"{len(JUMPS_MS)} jumps of two hours, {len(found)} ticks without a hole, {count} rates: none "
        "negative or absurd"
    )


def test_a_broker_that_refuses_such_times_jams_nothing(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    env = environment(kafka, topic_prefix, tmp_path)
    create(kafka, topic_prefix, ahead_ms=HOUR_MS)
    shift, log = tmp_path / "shift", tmp_path / "collect.log"
    shift.write_text("0")
    with running(str(shift), env=env, log=log, start=SHIFTED):
        _wait_for_ticks(env, TICKS, log)
        shift.write_text(str(2 * HOUR_MS))
        wait_until(lambda: "record_refused" in log.read_text(), log.read_text)
        shift.write_text("0")
        _wait_for_ticks(env, len(samples(env)) + TICKS, log)
    found = samples(env)
    numbers = [one["seq"] for one in found]
    holes = [(one, other) for one, other in pairwise(numbers) if other != one + 1]
    assert numbers == sorted(numbers)
    assert holes, "what was refused is missing, and its numbers tell"
    refused = sum(other - one - 1 for one, other in holes)
    check_sane(found, [0] * len(found))
    tell(f"{refused} ticks refused by the broker, dropped and said; {len(found)} others arrived in order")


def environment(kafka: RunningBroker, prefix: str, folder: Path) -> dict[str, str]:
    return environ(
        broker=kafka.url, node="a", interval="100ms", spool=str(folder / "spool"), kubernetes="off",
        topic_prefix=prefix, containers="all",
    )  # fmt: skip


def create(kafka: RunningBroker, prefix: str, ahead_ms: int) -> None:
    """Topics that take timestamps of so much ahead."""
    topics = {prefix + name: 1 for name in SAMPLE_TOPICS}
    kafka.create_topics(topics, message_timestamp_after_max_ms=str(ahead_ms))
