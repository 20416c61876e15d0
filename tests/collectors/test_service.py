"""Which collectors a setting brings, and where the spool is."""

import subprocess
import sys
from pathlib import Path

import pytest

from collectors.publish.spool import SpoolBusyError
from collectors.service import collectors, open_spool
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.telemetry.events import SPOOL_DROPPED, Telemetry


def load(**values: str) -> Settings:
    return load_settings({f"DUTYCYCLE_{name.upper()}": value for name, value in values.items()})


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"kubernetes": "off"}, ["cgroup", "nvml", "process"]),
        ({"kubernetes": "off", "prometheus": "http://127.0.0.1:9"}, ["prometheus"]),
    ],
)
def test_collectors(values: dict[str, str], names: list[str]) -> None:
    found = list(collectors(load(**values), Telemetry("test"), None))
    assert [one.name for one in found] == names
    for one in found:
        one.close()


def test_where_training_loops_can_report(tmp_path: Path) -> None:
    telemetry = Telemetry("test")
    path = tmp_path / "steps.sock"
    for value, there, conditions in (
        ("off", False, 0),
        (str(path), True, 0),
        (str(tmp_path / "no such folder" / "steps.sock"), False, 1),
        (str(tmp_path / ("x" * 200)), False, 2),  # longer than a socket's name may be
    ):
        found = list(collectors(load(kubernetes="off", steps_socket=value), telemetry, None))
        assert (path.exists(), len(telemetry.conditions)) == (there, conditions), value
        for one in found:
            one.close()
        assert not path.exists()


HEAVY = {
    "aiohttp", "faust", "grpc", "kubernetes", "llvmlite", "numba", "numpy", "prometheus_api_client",
    "pydantic", "requests", "rich", "river", "scipy", "sqlalchemy",
}  # fmt: skip


def test_a_nodes_collector_loads_only_what_it_uses() -> None:
    """It runs on every node: what streams and sinks need, or a setting that is off, costs it no memory."""
    program = "import sys, collectors.service; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


@pytest.mark.parametrize(
    "broker", ["kafka://localhost:9092", "kafka://127.0.0.1:9092", "kafka://another:9092"]
)
def test_a_second_collector_of_a_node_is_refused_until_the_first_is_gone(tmp_path: Path, broker: str) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    with open_spool(load(node="n", broker="kafka://localhost:9092"), Telemetry("test"), environ) as one:
        one.append([ProducerRecord(topic="pods", key="a", value=b"left", ts_ms=1)])
        with pytest.raises(
            SpoolBusyError, match=rf"{tmp_path}/dutycycle/spool/n is in use .*DUTYCYCLE_SPOOL"
        ):
            open_spool(load(node="n", broker=broker), Telemetry("test"), environ)
        for other in (load(node="b"), load(node="n", topic_prefix="b."), load(spool=str(tmp_path / "own"))):
            with open_spool(other, Telemetry("test"), environ) as free:
                assert len(free) == 0
    with open_spool(load(node="n", broker=broker), Telemetry("test"), environ) as again:
        assert len(again) == 1


def test_records_for_topics_of_another_prefix_are_left_alone(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    staging = load(node="n", topic_prefix="staging.", broker="kafka://k:9092")
    with open_spool(staging, Telemetry("test"), environ) as one:
        one.append([ProducerRecord(topic="pods", key="a", value=b"left", ts_ms=1)])
    for other in (load(node="n", topic_prefix="prod."), load(node="n")):
        with open_spool(other, Telemetry("test"), environ) as one:
            assert len(one) == 0
    moved = load(node="n", topic_prefix="staging.", broker="kafka://another:9092")
    with open_spool(moved, Telemetry("test"), environ) as one:
        assert len(one) == 1


def test_a_folder_that_was_asked_for_is_not_replaced_by_another(tmp_path: Path) -> None:
    settings = load(spool=str(tmp_path))
    with open_spool(settings, Telemetry("test"), {}), pytest.raises(SpoolBusyError, match=str(tmp_path)):
        open_spool(settings, Telemetry("test"), {})


def test_a_damaged_spool_is_said(tmp_path: Path) -> None:
    (tmp_path / "spool.db").write_text("no database, whatever it was before")
    telemetry = Telemetry("test")
    with open_spool(load(spool=str(tmp_path)), telemetry, {}):
        assert telemetry.count(SPOOL_DROPPED) == 1
