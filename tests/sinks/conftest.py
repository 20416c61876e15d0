"""Databases for the tests of the records: a SQLite file and the real PostgreSQL."""

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def records_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind; PostgreSQL is started only for the tests that take it."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    folder: Path = request.getfixturevalue("tmp_path")
    return f"sqlite:///{folder}/state/records.db"
