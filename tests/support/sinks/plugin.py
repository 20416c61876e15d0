"""What the sinks write to: a SQLite file and the real PostgreSQL, and a fake API server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.fakes.api_server import FakeApi


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def records_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind; PostgreSQL is started only for the tests that take it."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    folder: Path = request.getfixturevalue("tmp_path")
    return f"sqlite:///{folder}/state/records.db"


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A fake API server without objects."""
    server = FakeApi()
    await server.start()
    yield server
    await server.stop()
