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
It runs until no later phase of the tests wants it (``targets.PHASES``), or the worker ends.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.kafka.broker import OwnBroker, RunningBroker
from tests.support.servers.kube.server import Kube
from tests.support.servers.missing import ServerMissingError, skip_or_fail
from tests.support.servers.postgres import Postgres
from tests.support.servers.prometheus import Prometheus
from tests.support.targets import PHASE, PHASES

_STOPS = pytest.StashKey[list[tuple[int, Callable[[], None]]]]()
"""How to stop each server that was started, by its phase."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
    """Stop servers whose phase is over. A test that wants one after all starts it again."""
    done = yield
    if nextitem is not None:
        stops = item.config.stash.get(_STOPS, [])
        for phase, stop in stops:
            if phase < nextitem.stash[PHASE]:
                stop()
        item.config.stash[_STOPS] = [each for each in stops if each[0] >= nextitem.stash[PHASE]]
    return done


def stop_after(config: pytest.Config, mark: str, stop: Callable[[], None]) -> None:
    """Have a server stopped when the phase of its mark is over."""
    config.stash.setdefault(_STOPS, []).append((PHASES.index(mark), stop))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """A fixture whose server is missing leaves out the test."""
    yield from _left_out_if_missing(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that runs a program which is missing is left out."""
    yield from _left_out_if_missing(item)


def _left_out_if_missing(item: pytest.Item) -> Iterator[None]:
    try:
        yield
    except ServerMissingError as reason:
        if item.get_closest_marker("quick"):
            pytest.fail(f"a test marked quick needs what not every machine has: {reason}", pytrace=False)
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
def kafka_server(pytestconfig: pytest.Config) -> Iterator[RunningBroker]:
    if url := os.environ.get("DUTYCYCLE_TEST_BROKER"):
        yield RunningBroker(url)
        return
    server = OwnBroker()
    stop_after(pytestconfig, "kafka", server.stop)
    yield server
    server.discard()


@pytest.fixture(scope="session")
def secure_kafka_server(pytestconfig: pytest.Config) -> Iterator[RunningBroker]:
    server = OwnBroker(secure=True)
    stop_after(pytestconfig, "kafka", server.stop)
    yield server
    server.discard()


@pytest.fixture
def kafka(kafka_server: RunningBroker) -> RunningBroker:
    """A real Kafka that answers now, whatever the test before did to it."""
    kafka_server.ensure_running()
    return kafka_server


@pytest.fixture
def secure_kafka(secure_kafka_server: RunningBroker) -> RunningBroker:
    """A real Kafka that takes clients by TLS and SCRAM-SHA-256 only."""
    secure_kafka_server.ensure_running()
    return secure_kafka_server


@pytest.fixture
def topic_prefix(kafka_server: RunningBroker) -> Iterator[str]:
    """What this test's topic names begin with, on whichever broker. They go with the test: a broker that is
    killed reads all its partitions again when it starts."""
    prefix = kafka_server.new_prefix()
    yield prefix
    kafka_server.delete_topics(prefix)


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Iterator[Postgres]:
    server = Postgres()
    stop_after(pytestconfig, "postgres", server.stop)
    yield server
    server.discard()


@pytest.fixture
def postgres(postgres_server: Postgres) -> Postgres:
    """A PostgreSQL cluster that answers now, whatever the test before did to it."""
    postgres_server.ensure_running()
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
def kube_server(pytestconfig: pytest.Config) -> Iterator[Kube]:
    server = Kube()
    stop_after(pytestconfig, "kube", server.stop_all)
    yield server
    server.discard()


@pytest.fixture
def kube(kube_server: Kube) -> Kube:
    """A Kubernetes API server that answers now, whatever the test before did to it."""
    kube_server.ensure_running()
    return kube_server


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    """An empty namespace."""
    name = kube.new_namespace()
    yield name
    kube.start()
    kube.empty(name)
