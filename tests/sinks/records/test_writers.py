"""Several writers on the same rows at once, and databases that say no for a while or to one row alone."""

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, exc, text

from dutycycle.contract.records.derived import PodPeaks
from sinks.records.merge import merge
from sinks.records.query import pod_peaks
from sinks.records.rows import in_order, pod_row
from sinks.records.store import RecordsAwayError, RecordsStore
from tests.support.servers.postgres import Postgres
from tests.support.sinks import made
from tests.support.sinks.made import EARLY, LATE
from tests.support.sinks.recording import open_store, running
from tests.support.sinks.rig import Rig
from tests.support.waiting import until

WRITERS = 6
KEYS = 12


def versions(uid: str) -> list[PodPeaks]:
    """Three records of each of two accumulations, of which the first was lost."""
    early = [made.pod_peaks(uid, **EARLY | {"last_ms": 1000 * n, "samples": n}) for n in (4, 7, 10)]
    return early + [
        made.pod_peaks(uid, **LATE | {"last_ms": 90_000 + 1000 * n, "samples": n}) for n in (4, 7, 29)
    ]


def put_until_it_is_written(store: RecordsStore, records: list[PodPeaks]) -> int:
    """Put as the sink does; how often it had to be tried again (a deadlock, a lock that took too long)."""
    for tries in range(100):
        try:
            assert store.put([pod_row(one) for one in records]) == []
        except RecordsAwayError:
            continue
        return tries
    raise AssertionError("never written")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_writers_side_by_side_end_with_the_same(records_url: str, seed: int) -> None:
    every = {f"uid-{i:02}": versions(f"uid-{i:02}") for i in range(KEYS)}
    together = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        chance = random.Random(seed * WRITERS + number)  # noqa: S311 - not a secret
        mine = [one for of_key in every.values() for one in of_key]
        chance.shuffle(mine)
        store = open_store(records_url)
        together.wait(120)
        for start in range(0, len(mine), 9):
            put_until_it_is_written(store, mine[start : start + 9])
        store.close()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    expected = {uid: reduce(merge, map(pod_row, of_key)).values["record"] for uid, of_key in every.items()}
    found = {one.pod.uid: pod_row(one).values["record"] for one in pod_peaks(records_url)}
    assert {uid: in_order(one) for uid, one in found.items()} == {
        uid: in_order(one) for uid, one in expected.items()
    }


def dsn(url: str) -> str:
    """What psycopg itself takes."""
    return url.replace("postgresql+psycopg://", "postgresql://")


def test_a_deadlock_with_somebody_else_is_tried_again(postgres_url: str) -> None:
    store = open_store(postgres_url)
    first, second = made.pod_peaks("uid-1"), made.pod_peaks("uid-2")
    store.put([pod_row(first), pod_row(second)])
    newer = [made.pod_peaks(uid, last_ms=20_000) for uid in ("uid-1", "uid-2")]
    with psycopg.connect(dsn(postgres_url)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SET deadlock_timeout = '60s'")  # so that ours is the one that is ended
        other.execute("SELECT 1 FROM pod_peaks WHERE pod_uid = 'uid-2' FOR UPDATE")
        ours = pool.submit(store.put, [pod_row(one) for one in newer])
        _wait_for_a_lock(postgres_url)
        other.execute("SELECT 1 FROM pod_peaks WHERE pod_uid = 'uid-1' FOR UPDATE")
        with pytest.raises(RecordsAwayError, match="deadlock"):
            ours.result(30)
    assert store.put([pod_row(one) for one in newer]) == []
    store.close()
    assert pod_peaks(postgres_url) == newer


def test_a_writer_that_is_frozen_holds_nobody_up_for_long(postgres_url: str) -> None:
    """Its rows are free again while others still wait for them; what it wrote of them is not kept."""
    frozen, other = RecordsStore(postgres_url), RecordsStore(postgres_url)
    frozen.open()
    other.open()
    frozen.put([pod_row(made.pod_peaks())])
    newer = made.pod_peaks(last_ms=20_000)
    with pytest.raises(exc.DBAPIError, match="idle-in-transaction"), frozen._begin() as connection:  # noqa: PT012 - the end raises
        connection.execute(text("UPDATE pod_peaks SET last_at = '1970-01-01Z'"))
        assert other.put([pod_row(newer)]) == []
        connection.execute(text("SELECT 1"))
    assert pod_peaks(postgres_url) == [newer]
    assert frozen.put([pod_row(made.pod_peaks(last_ms=30_000))]) == []
    frozen.close()
    other.close()


def test_a_serialization_failure_is_tried_again(postgres_url: str) -> None:
    with psycopg.connect(dsn(postgres_url), autocommit=True) as other:
        name = postgres_url.rsplit("/", 1)[1]
        other.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    store = open_store(postgres_url)
    store.put([pod_row(made.pod_peaks())])
    newer = made.pod_peaks(last_ms=20_000)
    with psycopg.connect(dsn(postgres_url)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("UPDATE pod_peaks SET phase = phase")
        ours = pool.submit(store.put, [pod_row(newer)])
        _wait_for_a_lock(postgres_url)
        other.commit()
        with pytest.raises(RecordsAwayError, match="could not serialize"):
            ours.result(30)
    assert store.put([pod_row(newer)]) == []
    store.close()
    assert pod_peaks(postgres_url) == [newer]


def _wait_for_a_lock(url: str) -> None:
    """Until a session of ours waits for another's row."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    query = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = :name")
    with engine.connect() as connection:
        for _ in range(3000):
            if connection.scalar(query, {"name": engine.url.database}):
                break
            threading.Event().wait(0.01)
        else:
            raise AssertionError("nobody waits")
    engine.dispose()


async def test_no_connection_left_is_waited_for(postgres: Postgres) -> None:
    admin = postgres.new_database()
    limited = admin.replace("dutycycle:", "limited:")
    password = limited.split(":")[2].split("@")[0]
    with psycopg.connect(dsn(admin), autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS limited")
        owner.execute(f"CREATE ROLE limited LOGIN PASSWORD '{password}' CONNECTION LIMIT 1")
        owner.execute(f"ALTER DATABASE {admin.rsplit('/', 1)[1]} OWNER TO limited")
        rig = Rig()
        async with running(limited, rig) as work:
            await work.write(made.pod_peaks("uid-0"))
            with psycopg.connect(dsn(admin), autocommit=True) as thief:
                work.sink._store.close()
                await until(lambda: _taken(thief, limited))
                with psycopg.connect(dsn(limited)):
                    await work.take(made.pod_peaks("uid-1"))
                    await until(lambda: rig.count("write_retried") >= 2)
                    assert ("sink_away", "records") in rig.telemetry.conditions
            await work.written()
            assert rig.telemetry.conditions == {}
        assert [one.pod.uid for one in pod_peaks(admin)] == ["uid-0", "uid-1"]
        owner.execute("REASSIGN OWNED BY limited TO dutycycle")
        owner.execute("DROP ROLE limited")


def _taken(connection: "psycopg.Connection[Any]", url: str) -> bool:
    """Whether the role has no session left."""
    found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'limited'").fetchone()
    return found == (0,)


async def test_one_row_that_is_refused_becomes_a_dead_letter_and_those_beside_it_are_stored(
    postgres_url: str,
) -> None:
    rig = Rig()
    async with running(postgres_url, rig) as work:
        with psycopg.connect(dsn(postgres_url), autocommit=True) as owner:
            owner.execute("ALTER TABLE pod_peaks ADD CONSTRAINT short CHECK (length(name) < 20)")
        records = [made.pod_peaks(f"uid-{i}") for i in range(40)]
        records[17] = made.pod_peaks("uid-17", {"name": "a-name-that-is-too-long-for-this-database"})
        for one in records:
            await work.take(one)
        await work.written()
        assert work.acknowledged() == {("pod-peaks", 0): 39}
    assert [(one["offset"], one["reason"]) for one in rig.port.dead_letters] == [(17, "rejected")]
    assert "short" in rig.port.dead_letters[0]["error"]
    assert {one.pod.uid for one in pod_peaks(postgres_url)} == {f"uid-{i}" for i in range(40)} - {"uid-17"}


async def test_a_database_that_accepts_and_says_nothing_is_given_up_and_tried_anew(postgres_url: str) -> None:
    """A session holds the table; ours gets no answer. The one that was given up may still write later."""
    rig = Rig()
    async with running(postgres_url, rig, timeout_s=1.0) as work:
        with psycopg.connect(dsn(postgres_url)) as other:
            other.execute("LOCK TABLE pod_peaks IN ACCESS EXCLUSIVE MODE")
            await work.take(made.pod_peaks())
            await until(lambda: rig.count("write_retried") >= 2)
            assert work.acknowledged() == {}
            await work.take(made.pod_peaks(last_ms=20_000))
        await work.written()
        assert rig.telemetry.conditions == {}
    assert pod_peaks(postgres_url) == [made.pod_peaks(last_ms=20_000)]
    assert await asyncio.to_thread(_settled, postgres_url)


def _settled(url: str) -> bool:
    """What was given up has ended, too, and changed nothing."""
    _wait_until_alone(url)
    return pod_peaks(url) == [made.pod_peaks(last_ms=20_000)]


def _wait_until_alone(url: str) -> None:
    with psycopg.connect(dsn(url), autocommit=True) as watcher:
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND state = 'active' AND pid <> pg_backend_pid()"
        )
        wait: Callable[[float], bool] = threading.Event().wait
        for _ in range(2000):
            if watcher.execute(query).fetchone() == (0,):
                return
            wait(0.01)
    raise AssertionError("a session never ended")
