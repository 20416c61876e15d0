"""The pytest plugin that brings the test servers as fixtures.

=================  ===============================================================================
``kafka``          Apache Kafka, running at the start of the test; may be stopped, killed, started
``secure_kafka``   the same behind TLS and SCRAM-SHA-256; ``settings()`` says how to reach it
``topic_prefix``   a topic prefix of the test's own, to share a broker without meeting
``postgres``       a PostgreSQL cluster, running at the start of the test; may be stopped, started
``postgres_url``   the SQLAlchemy URL of an empty database in it
``prometheus``     a function that starts a real Prometheus on a configuration
``kube``           a Kubernetes API server, running at the start of the test; may be stopped, started
``namespace``      the name of an empty namespace in it
=================  ===============================================================================

A server starts when the first test asks for it, and serves all tests of that xdist worker: each has its own.
While no test asks for it, it may be stopped.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.servers.kafka.broker import OwnBroker, RunningBroker
from tests.support.servers.kube.server import Kube
from tests.support.servers.missing import ServerMissingError, skip_or_fail
from tests.support.servers.postgres import Postgres
from tests.support.servers.prometheus import Prometheus
from tests.support.servers.resting import Server, Servers

_MARKS = {
    "kafka_server": "kafka",
    "secure_kafka_server": "kafka",
    "postgres_server": "postgres",
    "prometheus": "prometheus",
    "kube_server": "kube",
}


S = TypeVar("S", bound=Server)
_SERVERS = Servers()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark a test by the servers that it uses, directly or through another fixture."""
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        for fixture in sorted(used & _MARKS.keys()):
            item.add_marker(_MARKS[fixture])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """A fixture whose server is missing leaves out the test. A server that is not used may rest."""
    _SERVERS.before(getattr(item, "fixturenames", ()))
    yield from _left_out_if_missing()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that runs a program which is missing is left out."""
    yield from _left_out_if_missing()


def _left_out_if_missing() -> Iterator[None]:
    try:
        yield
    except ServerMissingError as reason:
        skip_or_fail(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why tests were left out, a line for each reason: most reasons stand for many tests."""
    reasons = Counter(str(one.longrepr[2]) for one in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section("left out on this machine")
    for reason, count in reasons.most_common():
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"{tests}: {reason.removeprefix('Skipped: ')}")


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[RunningBroker]:
    if url := os.environ.get("DUTYCYCLE_TEST_BROKER"):
        yield RunningBroker(url)
        return
    yield from _served("kafka_server", partial(OwnBroker, secure=False))


@pytest.fixture(scope="session")
def secure_kafka_server() -> Iterator[RunningBroker]:
    yield from _served("secure_kafka_server", partial(OwnBroker, secure=True))


@pytest.fixture
def kafka(kafka_server: RunningBroker) -> RunningBroker:
    """A real Kafka that answers now, whatever the test before did to it."""
    kafka_server.ensure_running()
    _SERVERS.used("kafka_server")
    return kafka_server


@pytest.fixture
def secure_kafka(secure_kafka_server: RunningBroker) -> RunningBroker:
    """A real Kafka that takes clients by TLS and SCRAM-SHA-256 only."""
    secure_kafka_server.ensure_running()
    _SERVERS.used("secure_kafka_server")
    return secure_kafka_server


@pytest.fixture
def topic_prefix(kafka_server: RunningBroker) -> str:
    """What this test's topic names begin with, on whichever broker."""
    return kafka_server.new_prefix()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    yield from _served("postgres_server", Postgres)


@pytest.fixture
def postgres(postgres_server: Postgres) -> Postgres:
    """A PostgreSQL cluster that answers now, whatever the test before did to it."""
    postgres_server.ensure_running()
    _SERVERS.used("postgres_server")
    return postgres_server


@pytest.fixture
def postgres_url(postgres: Postgres) -> str:
    """The SQLAlchemy URL of an empty database."""
    return postgres.new_database()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[..., Prometheus]]:
    """Start Prometheus on a configuration: see ``servers.prometheus.scrape``. One for each call."""
    started: list[Prometheus] = []

    def start(config: dict[str, Any], **more: Any) -> Prometheus:
        folder = tmp_path / f"prometheus-{len(started)}"
        folder.mkdir()
        started.append(Prometheus(folder, config, **more))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def kube_server() -> Iterator[Kube]:
    yield from _served("kube_server", Kube)


@pytest.fixture
def kube(kube_server: Kube) -> Kube:
    """A Kubernetes API server that answers now, whatever the test before did to it."""
    kube_server.ensure_running()
    _SERVERS.used("kube_server")
    return kube_server


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    """An empty namespace."""
    name = kube.new_namespace()
    yield name
    kube.start()
    kube.empty(name)


def _served(fixture: str, start: Callable[[], S]) -> Iterator[S]:
    """One server for all tests of a worker, as long as they run."""
    server = start()
    _SERVERS.add(fixture, server)
    yield server
    _SERVERS.remove(fixture)
    server.discard()
