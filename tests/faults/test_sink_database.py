"""The database away, or hanging, while records keep coming: nothing upstream slows, nothing is lost.

The sink goes on by itself, in the same process, within the same memory; what waits is seen as lag.
"""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.faults.sink_field import SinkField
from tests.support.faults.sink_lives import lives
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.postgres import Postgres
from tests.support.waiting import until

PER_S = 100.0
PODS = 60
MOST_GROWTH_BYTES = 48 * 1024**2
Tell = Callable[[str], None]


def resident_bytes(pid: int) -> int:
    """The memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def outage(field: SinkField, seconds: float, begin: Callable[[], Any], end: Callable[[], Any]) -> str:
    """Take the database away under load for so long; what was seen meanwhile."""
    records = lives(PODS, round(PER_S * (seconds + 20) / PODS), seed=1)
    feed = await field.feed(records, PER_S)
    (worker,) = [await field.worker()]
    await field.until_look(lambda written: written > PODS, "the first records in the database")
    memory = resident_bytes(worker.process.pid)
    await asyncio.to_thread(begin)
    sent, gone = len(feed.stored), time.monotonic()
    await asyncio.sleep(seconds)
    await until(lambda: len(feed.stored) >= sent + round(seconds * PER_S / 2), field.logs)
    stored = sum(one.topic == "pod-peaks" for one in feed.stored)
    lag = stored - await asyncio.to_thread(field.committed)
    grown = resident_bytes(worker.process.pid) - memory
    flowed = (len(feed.stored) - sent) / (time.monotonic() - gone)
    await asyncio.to_thread(end)
    await feed.finish()
    report = await field.judge(records)
    assert worker.failures == [], "it goes on by itself"
    assert "sink_away" in worker.log, "it is said"
    assert lag > seconds * PER_S / 4, f"lag {lag}: offsets are not acknowledged before the write"
    assert grown < MOST_GROWTH_BYTES
    return (
        f"{seconds:g} s: {flowed:.0f} records a second went on, lag {lag}, {grown / 2**20:.1f} MiB more; "
        f"{report}"
    )


class Freezer:
    """Stops every session of the sink where it stands: connections stay open, and nobody answers."""

    def __init__(self, url: str) -> None:
        self._dsn = url.replace("postgresql+psycopg://", "postgresql://")
        self._pids: list[int] = []

    def freeze(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'dutycycle'"
            self._pids = [pid for (pid,) in connection.execute(query)]
        assert self._pids
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._pids = []


class Locker:
    """Another process' transaction on the file of SQLite."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._other: sqlite3.Connection | None = None

    def lock(self) -> None:
        self._other = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
        self._other.execute("BEGIN IMMEDIATE")

    def unlock(self) -> None:
        if self._other:
            self._other.close()
            self._other = None


async def check_stopped(
    kafka: RunningBroker, prefix: str, postgres: Postgres, folder: Path, seconds: float
) -> str:
    async with SinkField(kafka, prefix, postgres.new_database(), folder) as field:
        return await outage(field, seconds, postgres.stop, postgres.start)


async def check_hanging(
    kafka: RunningBroker, prefix: str, postgres: Postgres, folder: Path, seconds: float
) -> str:
    url = postgres.new_database()
    freezer = Freezer(url)
    try:
        async with SinkField(kafka, prefix, url, folder) as field:
            return await outage(field, seconds, freezer.freeze, freezer.thaw)
    finally:
        freezer.thaw()


async def check_locked(
    kafka: RunningBroker, prefix: str, postgres: Postgres, folder: Path, seconds: float
) -> str:
    locker = Locker(folder / "records.db")
    try:
        async with SinkField(kafka, prefix, f"sqlite:///{folder}/records.db", folder) as field:
            return await outage(field, seconds, locker.lock, locker.unlock)
    finally:
        locker.unlock()


FAULTS = [
    pytest.param(check_stopped, 10.0, id="stopped"),
    pytest.param(check_locked, 10.0, id="SQLite locked"),
    pytest.param(check_stopped, 60.0, id="stopped for a minute", marks=pytest.mark.soak),
    pytest.param(check_locked, 60.0, id="SQLite locked for a minute", marks=pytest.mark.soak),
    # That a session hangs is said after 45 s: tests/sinks/records/test_writers.py has it in short.
    pytest.param(check_hanging, 60.0, id="hanging for a minute", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("check", "away_s"), FAULTS)
async def test_a_database_that_is_away_slows_and_loses_nothing(
    check: Callable[..., Awaitable[str]], away_s: float, kafka: RunningBroker, topic_prefix: str,
    postgres: Postgres, tmp_path: Path, tell: Tell,
) -> None:  # fmt: skip
    tell(await check(kafka, topic_prefix, postgres, tmp_path, away_s))
