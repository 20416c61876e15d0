"""What every test can use: the real servers as fixtures (see tests/servers)."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.support.servers.plugin", "tests.support.faults.plugin", "tests.support.sinks.plugin")

# On a busy machine an example takes as long as it takes.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

_SERVERS = ("kube_server", "kafka_server", "secure_kafka_server")
_LONG = ("faults", "e2e", "docs", "simulation", "bench", "cli", "runtime")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a server come one after another: it can rest when it has had them.

    They take the longest, and those of some folders: these come first, so that no worker is left alone with
    them at the end.
    """
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[int, bool]:
    used = {*getattr(item, "fixturenames", ())}.intersection(_SERVERS)
    if used == {"kube_server", "kafka_server"}:
        turn = 1  # after those of the one, before those of the other
    else:
        turn = min((2 * _SERVERS.index(one) for one in used), default=2 * len(_SERVERS))
    return turn, item.path.parent.name not in _LONG


@pytest.fixture(autouse=True, scope="session")
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A state folder for this process: collectors of tests side by side report the same node."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def own_log_level() -> None:
    """Commands that are run in this process set the level of our log: here it is as if none had."""
    logging.getLogger("dutycycle").setLevel(logging.NOTSET)
