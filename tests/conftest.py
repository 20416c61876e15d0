"""What every test can use: the real servers as fixtures (see tests/servers)."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.support.servers.plugin", "tests.support.faults.plugin", "tests.support.sinks.plugin")

# On a busy machine an example takes as long as it takes.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

_SERVERS = ("kube_server", "kafka_server", "secure_kafka_server")
_LONG = ("faults", "e2e", "docs", "bench", "cli")
_BUSY = ("simulation", "conformance", "streams")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a server come one after another: it can rest when it has had them.

    They take the longest, and mostly wait. Among them are those that do nothing but compute. Then come the
    folders whose tests are long, so that no worker is left alone with them at the end.
    """
    groups: dict[str, list[pytest.Item]] = {}
    for one in items:
        folder = "served" if _turn(one) else one.path.relative_to(Path(__file__).parent).parts[0]
        if folder == "served" or (folder in _BUSY and not _shares(one)):
            groups.setdefault(folder, []).append(one)
    groups.get("served", []).sort(key=_turn)
    places = {one: place for group in groups.values() for one, place in _spread(group)}
    items[:] = [*places, *(one for one in items if one not in places)]
    items.sort(key=lambda one: places.get(one, 1.0 + (one.path.parent.name not in _LONG)))


def _spread(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, float]]:
    """Each with its place from 0 to 1; those of a file that share something have the place of the first."""
    files: dict[Path, float] = {}
    for number, one in enumerate(items):
        place = number / len(items)
        yield one, files.setdefault(one.path, place) if _shares(one) else place


def _turn(item: pytest.Item) -> int:
    """When a test has its turn that uses a server; 0 for none. Who uses both is between those of the one."""
    used = {*getattr(item, "fixturenames", ())}.intersection(_SERVERS)
    if used == {"kube_server", "kafka_server"}:
        return 2
    return min((2 * _SERVERS.index(one) + 1 for one in used), default=0)


def _shares(item: pytest.Item) -> bool:
    """Whether it has something in common with the other tests of its file, which is made for them once."""
    made = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return any(one[-1].scope in ("module", "class") for one in made)


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
