"""Peak records by batch, on the real databases: outages, refusals, repeats, and what may be acknowledged."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.contract.units import END_OF_TIME_MS
from sinks.records.query import job_peaks, pod_peaks
from sinks.records.rows import pod_row
from sinks.records.sink import RecordsSink
from sinks.records.store import RecordsStore
from sinks.thread import in_thread
from tests.support.servers.postgres import Postgres
from tests.support.sinks import made
from tests.support.sinks.recording import open_store, read_rows, running
from tests.support.sinks.rig import Rig
from tests.support.waiting import until

PLACE = ("pod-peaks", 0)


async def test_records_arrive_and_only_then_are_acknowledged(records_url: str) -> None:
    async with running(records_url) as work:
        pods = [made.pod_peaks(f"uid-{i:04}") for i in range(1200)]
        await work.write(*pods, made.job_peaks())
        assert work.acknowledged() == {PLACE: 1199, ("job-peaks", 0): 0}
        assert pod_peaks(records_url) == pods
        assert job_peaks(records_url) == [made.job_peaks()]


async def test_a_pod_that_changes_often_is_written_with_its_newest(records_url: str) -> None:
    rig = Rig()
    async with running(records_url, rig) as work:
        records = [made.pod_peaks(samples=n, last_ms=10_000 + n) for n in (1, 3, 2, 50, 49)]
        await work.take(*records)
        await work.dispatcher.drain()
        assert rig.port.acknowledged == {PLACE: 4}
        assert pod_peaks(records_url) == [records[3]]


async def test_a_clock_in_a_wrong_year_gives_no_pod_years_of_life(records_url: str) -> None:
    """It is ahead for a minute, and then right again."""
    now_ms = round(1000 * time.time())
    ahead_ms = now_ms + 10 * 365 * 86_400_000
    async with running(records_url) as work:
        await work.write(
            made.pod_peaks(samples=60, first_ms=now_ms - 60_000, last_ms=ahead_ms),
            made.job_peaks(first_ms=ahead_ms, last_ms=ahead_ms),
        )
        await work.write(made.pod_peaks(samples=120, first_ms=now_ms - 60_000, last_ms=now_ms))
    (pod,), (job,) = pod_peaks(records_url), job_peaks(records_url)
    assert (pod.first_ms, job.first_ms // 60_000) == (now_ms - 60_000, job.last_ms // 60_000)
    assert max(pod.last_ms, job.last_ms) < now_ms + 60_000


async def test_an_hour_to_come_makes_the_ledger_no_past(records_url: str) -> None:
    """A node whose clock is in a wrong year, or a stranger's record: what is kept is seen from the newest
    hour."""
    this_hour_ms = round(1000 * time.time()) // HOUR_MS * HOUR_MS
    rig = Rig()

    def usage(hour_ms: int, gpu_s: float) -> UsageHour:
        row = GpuHour(pod_uid="p", gpu="G", gpu_s=gpu_s, known_s=gpu_s, busy_s=0)
        return UsageHour(
            node="a", source="nvml", hour_ms=hour_ms, ts_ms=this_hour_ms + round(gpu_s), gpus=(row,)
        )

    async with running(records_url, rig) as work:
        await work.write(usage(this_hour_ms - HOUR_MS, 3600), usage(this_hour_ms, 60))
        await work.write(usage(this_hour_ms + 10 * 365 * 24 * HOUR_MS, 30), usage(END_OF_TIME_MS, 30))
        await work.write(usage(this_hour_ms, 120), usage(this_hour_ms + 23 * HOUR_MS, 10))
    assert read_rows(records_url, "SELECT gpu_s FROM usage_hours ORDER BY hour") == [(3600,), (120,), (10,)]
    assert [letter["reason"] for letter in rig.port.dead_letters] == ["rejected"] * 2


def test_no_pod_is_seen_before_it_was_started() -> None:
    """The clock of its node was years behind until it knew the time."""
    pod = made.pod(started_ms=1_795_860_000_000)
    row = pod_row(made.pod_peaks(pod=pod, first_ms=1_000, last_ms=1_795_860_060_000))
    assert row.values["first_at"] == row.values["started_at"] == "2026-11-28T10:00:00.000Z"


async def test_nothing_is_lost_while_postgresql_is_away(postgres: Postgres) -> None:
    url = postgres.new_database()
    rig = Rig()
    async with running(url, rig) as work:
        await work.write(made.pod_peaks("uid-0"))
        await asyncio.to_thread(postgres.stop)
        for i in range(1, 30):
            await work.take(made.pod_peaks(f"uid-{i:02}"))
        await until(lambda: rig.count("write_retried") >= 2)
        assert work.acknowledged() == {PLACE: 0}
        assert ("sink_away", "records") in rig.telemetry.conditions
        await work.take(made.pod_peaks("uid-30"))
        await asyncio.to_thread(postgres.start)
        await work.written()
        assert work.acknowledged() == {PLACE: 30}
        assert rig.telemetry.conditions == {}
        assert len(pod_peaks(url)) == 31


async def test_a_locked_file_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.records.engine._BUSY_S", 0.1)
    url = f"sqlite:///{tmp_path}/records.db"
    rig = Rig()
    async with running(url, rig) as work:
        other = sqlite3.connect(tmp_path / "records.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        await work.take(made.pod_peaks())
        await until(lambda: rig.count("write_retried") >= 1)
        assert work.acknowledged() == {}
        other.close()
        await work.written()
        assert pod_peaks(url) == [made.pod_peaks()]


async def test_what_no_database_can_hold_goes_to_the_dead_letters(records_url: str) -> None:
    rig = Rig()
    async with running(records_url, rig) as work:
        await work.take(made.pod_peaks("uid-1"), made.pod_peaks("uid-2", {"images": ("\0",)}))
        await work.take(made.job_peaks(pods_omitted=2**63 - 1), made.pod_peaks("uid-3"))
        await work.dispatcher.drain()
        assert rig.port.acknowledged == {PLACE: 2, ("job-peaks", 0): 0}
        assert [record.pod.uid for record in pod_peaks(records_url)] == ["uid-1", "uid-3"]
        assert [letter["reason"] for letter in rig.port.dead_letters] == ["schema", "rejected"]


async def test_a_row_that_the_database_refuses_is_told_and_the_rest_is_written(postgres_url: str) -> None:
    rig = Rig()
    async with running(postgres_url, rig) as work:
        store = RecordsStore(postgres_url)
        with store._engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE pod_peaks ADD CHECK (node <> 'cursed')")
        store.close()
        for i in range(20):
            fields = {"node": "cursed"} if i == 13 else {}
            await work.take(made.pod_peaks(f"uid-{i:02}", fields))
        await work.dispatcher.drain()
        assert rig.port.acknowledged == {PLACE: 19}
        assert len(pod_peaks(postgres_url)) == 19
        (letter,) = rig.port.dead_letters
        assert (letter["offset"], letter["reason"]) == (13, "rejected")
        assert rig.telemetry.counts["write_rejected", ("records", "value")] == 1


async def test_a_refused_row_whose_dead_letter_fails_is_not_acknowledged(postgres_url: str) -> None:
    rig = Rig()
    rig.port.dead_letters_fail = True
    async with running(postgres_url, rig) as work:
        store = RecordsStore(postgres_url)
        with store._engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE pod_peaks ADD CHECK (node <> 'cursed')")
        store.close()
        await work.take(made.pod_peaks("uid-1"), made.pod_peaks("uid-2", {"node": "cursed"}))
        await work.dispatcher.drain()
        assert rig.port.acknowledged == {}
        assert rig.port.failures


async def test_reading_waits_when_very_much_is_held(tmp_path: Path) -> None:
    most = 300
    url = f"sqlite:///{tmp_path}/records.db"
    rig = Rig()
    store = open_store(url)
    sink = RecordsSink(store, rig.letters, rig.telemetry, most_rows=most)
    dispatcher = rig.dispatcher(sink)
    for i in range(most - 1):
        sink.take(rig.origin("pod-peaks", None), made.pod_peaks(f"uid-{i}"))
    last = asyncio.create_task(dispatcher.process([rig.origin("job-peaks", made.job_peaks())]))
    done, _ = await asyncio.wait([last], timeout=0.2)
    assert not done
    await sink.drain()
    await last
    assert len(pod_peaks(url)) == most - 1
    await sink.close()


async def test_what_is_forgotten_while_it_is_written_is_not_acknowledged(records_url: str) -> None:
    rig = Rig()
    async with running(records_url, rig) as work:
        await work.take(made.pod_peaks())
        await until(lambda: not work.sink._rows)
        work.dispatcher.forget()
        await work.dispatcher.process([rig.origin("pod-peaks", made.pod_peaks("uid-2"), offset=0)])
        await work.written()
        assert work.acknowledged() == {PLACE: 0}


def _boom() -> None:
    raise OSError("no such luck")


CALLS: dict[str, tuple[Callable[[], object], object]] = {
    "a value": (lambda: 5, 5),
    "nothing": (lambda: None, None),
}


@pytest.mark.parametrize(("call", "result"), CALLS.values(), ids=CALLS.keys())
async def test_a_call_in_a_thread_answers(call: Callable[[], object], result: object) -> None:
    assert await in_thread(call) == result


async def test_a_call_in_a_thread_raises_where_it_is_awaited() -> None:
    with pytest.raises(OSError, match="no such luck"):
        await in_thread(_boom)


async def test_a_call_that_hangs_is_left_alone() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await in_thread(lambda: time.sleep(0.5))
