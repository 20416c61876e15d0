"""The PostgreSQL fixtures."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.support.servers.postgres import Postgres


def _written_and_read(url: str) -> object:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table t (name text primary key)"))
        connection.execute(text("insert into t values ('Grüße, 世界')"))
    with engine.connect() as connection:
        value = connection.execute(text("select name from t")).scalar_one()
    engine.dispose()
    return value


def test_sql_makes_the_round_trip(postgres_url: str) -> None:
    assert _written_and_read(postgres_url) == "Grüße, 世界"


def test_each_database_is_empty(postgres: Postgres) -> None:
    assert _written_and_read(postgres.new_database()) == _written_and_read(postgres.new_database())


def test_data_outlive_a_restart(postgres: Postgres) -> None:
    url = postgres.new_database()
    _written_and_read(url)
    postgres.stop()
    engine = create_engine(url)
    with pytest.raises(OperationalError):
        engine.connect()
    postgres.start()
    with engine.connect() as connection:
        assert connection.execute(text("select count(*) from t")).scalar_one() == 1
    engine.dispose()
