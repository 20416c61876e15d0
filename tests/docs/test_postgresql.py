"""The queries of docs/postgresql.md on a real PostgreSQL that holds two hours of two teams."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.settings.groups import Settings
from tests.support.data.two_teams import HOUR_MS, two_teams
from tests.support.sinks.recording import derived, write_all

PAGE = (Path(__file__).parents[2] / "docs/postgresql.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\nSELECT (.*?);\n```", PAGE, re.DOTALL)


SETTINGS = Settings(price_gpu_hour=2.0, price_cpu_hour=0.05, price_kwh=0.3)


@pytest.fixture(scope="module")
def records() -> list[ProducerRecord]:
    """What streams make of some hours of last month, and of the last ones."""
    first = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    before_ms = round((first - timedelta(days=10)).timestamp() * 1000)
    now_ms = (time.time_ns() // 1_000_000 // HOUR_MS - 2) * HOUR_MS
    return [*derived(two_teams(before_ms, "old")), *derived(two_teams(now_ms), SETTINGS)]


@pytest.fixture
def database(records: list[ProducerRecord], postgres_url: str) -> Iterator[Engine]:
    """What a replay leaves."""
    write_all(records, postgres_url, SETTINGS)
    engine = create_engine(postgres_url)
    yield engine
    engine.dispose()


def test_each_query_finds_something(database: Engine) -> None:
    assert len(QUERIES) == 11
    with database.connect() as connection:
        for query in QUERIES:
            assert connection.execute(text("SELECT " + query)).all(), query


def test_watts_are_of_the_time_that_was_measured_and_full_is_busy(database: Engine) -> None:
    """The second hour is half over: its watts are those of the first. A node with a mean of half is not full,
    whatever one GPU of it reached."""
    with database.connect() as connection:
        watts = [row.watts for row in connection.execute(text("SELECT " + QUERIES[6]))]
        days = connection.execute(text("SELECT " + QUERIES[7])).all()
    assert len(watts) > 1
    assert watts == pytest.approx([450] * len(watts), rel=0.01)
    assert {row.full_days for row in days} == {0}


def test_what_each_team_used_is_right(database: Engine) -> None:
    with database.connect() as connection:
        rows = {
            row.team: (row.gpu_hours, row.idle_hours, row.kwh)
            for row in connection.execute(text("SELECT " + QUERIES[0]))
        }
    assert rows == {
        "nlp": pytest.approx((2.0, 0.3, 0.5), abs=1e-3),
        "vision": pytest.approx((0.5, 0.45, 0.05), abs=1e-3),
        None: pytest.approx((1.5, 1.5, 0.075), abs=1e-3),
    }
