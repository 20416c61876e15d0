"""What the sinks write to: a SQLite file, the real PostgreSQL, a fake API server; and a broker to serve."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.fakes.api_server import FakeApi
from tests.support.kafka import all_topics
from tests.support.servers.ports import free_port


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def records_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind; PostgreSQL is started only for the tests that take it."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    folder: Path = request.getfixturevalue("tmp_path")
    return f"sqlite:///{folder}/state/records.db"


@pytest.fixture
def serve_settings() -> Iterator[Settings]:
    """Of ``dutycycle serve``, on an embedded broker with all topics."""
    with EmbeddedBroker(all_topics(2)) as broker:
        yield load(
            {
                "DUTYCYCLE_NODE": "n", "DUTYCYCLE_BROKER": broker.url, "DUTYCYCLE_PARTITIONS": "2",
                "DUTYCYCLE_SERVE_LISTEN": f"127.0.0.1:{free_port()}",
            }
        )  # fmt: skip


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A fake API server without objects."""
    server = FakeApi()
    await server.start()
    yield server
    await server.stop()
