"""What every test can use: the real servers as fixtures (see tests/servers)."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.support.servers.plugin", "tests.support.faults.plugin", "tests.support.sinks.plugin")

# On a busy machine an example takes as long as it takes.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

_LONG = ("faults", "e2e", "kube")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The folders whose tests take the longest come first: no worker is left alone with them at the end."""
    items.sort(key=lambda item: item.path.parent.name not in _LONG)


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
