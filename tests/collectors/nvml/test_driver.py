"""No driver, no library, a driver that goes and comes back: said once, tried again, noticed."""

from pathlib import Path

import pytest

from tests.support.fakes.nvml.library import NAME, build
from tests.support.fakes.nvml.probe import Probe
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario

GPU = FakeGpu(uuid="GPU-a", values={"util": 50})
WORKS = Scenario(gpus=[GPU])
INIT = "nvmlInitWithFlags"

AT_START = {
    "not loaded": (Scenario(gpus=[GPU], errors={INIT: "DRIVER_NOT_LOADED"}), "driver_not_loaded"),
    "other version": (Scenario(gpus=[GPU], errors={INIT: "LIB_RM_VERSION_MISMATCH"}), "version_mismatch"),
    "not allowed": (Scenario(gpus=[GPU], errors={INIT: "NO_PERMISSION"}), "no_permission"),
    "unknown": (Scenario(gpus=[GPU], errors={INIT: "UNKNOWN"}), "unknown_error"),
    "no GPUs": (Scenario(), "no_devices"),
    "no count": (Scenario(gpus=[GPU], errors={"nvmlDeviceGetCount_v2": "UNKNOWN"}), "unknown_error"),
}
WHILE_RUNNING = {
    "unloaded": ({"*": "DRIVER_NOT_LOADED"}, "driver_not_loaded"),
    "replaced": ({"*": "LIB_RM_VERSION_MISMATCH"}, "version_mismatch"),
    "forgotten": ({"nvmlDeviceGetTemperatureV": "UNINITIALIZED"}, "uninitialized"),
}


@pytest.mark.parametrize("case", AT_START)
def test_a_driver_that_is_not_there_is_said_once_and_noticed_when_it_comes(tmp_path: Path, case: str) -> None:
    broken, reason = AT_START[case]
    with Probe(tmp_path, broken) as probe:
        away = [probe.tick(after_s=10) for _ in range(12)]
        probe.world(WORKS)
        back = probe.tick(after_s=60)
    assert [one.sample for one in away] == [None] * 12
    assert away[-1].conditions == {("gpus_unavailable", reason)}
    assert [reason in line for one in away for line in one.said] == [True]
    assert back.gpu.gpu_util_pct == 50
    assert back.conditions == set()
    assert back.said == [f"gpus_unavailable {reason}: no longer so"]


def test_it_is_tried_again_after_30_then_every_60_seconds(tmp_path: Path) -> None:
    with Probe(tmp_path, AT_START["not loaded"][0]) as probe:
        tried = [probe.tick(after_s=10, calls=[INIT]).calls[INIT] for _ in range(17)]
    assert tried == [1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4]


def test_the_library_is_opened_once_for_many_ticks(tmp_path: Path) -> None:
    with Probe(tmp_path, WORKS) as probe:
        answers = [probe.tick(calls=[INIT, "nvmlShutdown"]) for _ in range(20)]
    assert answers[-1].calls == {INIT: 1, "nvmlShutdown": 0}


@pytest.mark.parametrize("case", WHILE_RUNNING)
def test_a_driver_that_goes_while_it_is_used(tmp_path: Path, case: str) -> None:
    errors, reason = WHILE_RUNNING[case]
    with Probe(tmp_path, WORKS) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[GPU], errors=errors))
        away = [probe.tick(), probe.tick()]
        probe.world(WORKS)
        back = probe.tick(after_s=30)
    assert [one.sample for one in away] == [None, None]
    assert away[1].conditions == {("gpus_unavailable", reason)}
    assert away[1].said == []
    assert back.gpu.gpu_util_pct == 50
    assert back.conditions == set()


def test_another_reason_takes_the_place_of_the_first(tmp_path: Path) -> None:
    with Probe(tmp_path, AT_START["not loaded"][0]) as probe:
        probe.tick()
        probe.world(AT_START["other version"][0])
        answer = probe.tick(after_s=30)
    assert answer.conditions == {("gpus_unavailable", "version_mismatch")}
    assert [line.split()[1] for line in answer.said] == ["driver_not_loaded:", "version_mismatch:"]


def test_another_driver_is_asked_everything_again(tmp_path: Path) -> None:
    errors = {"field:185": "NOT_SUPPORTED", "nvmlDeviceGetPowerUsage": "NOT_SUPPORTED"}
    dumb = FakeGpu(uuid="GPU-a", errors=errors)
    with Probe(tmp_path, Scenario(gpus=[dumb], driver="535.1")) as probe:
        assert probe.tick().gpu.power_w is None
        probe.world(Scenario(gpus=[dumb], errors={"*": "DRIVER_NOT_LOADED"}))
        probe.tick()
        probe.world(Scenario(gpus=[GPU], driver="580.1"))
        assert probe.tick(after_s=30).gpu.power_w == 80


def test_a_library_that_cannot_be_loaded_and_one_that_appears(tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    # An empty file in front: on a machine with a real driver, that one must not be found instead.
    (folder / NAME).write_bytes(b"")
    with Probe(tmp_path, WORKS, library=folder) as probe:
        away = [probe.tick(), probe.tick()]
        (folder / NAME).unlink()
        (folder / NAME).symlink_to(build() / NAME)
        back = probe.tick(after_s=30)
    assert [one.sample for one in away] == [None, None]
    assert away[1].conditions == {("gpus_unavailable", "library_not_found")}
    assert [len(one.said) for one in away] == [1, 0]
    assert back.gpu.gpu_util_pct == 50
    assert back.conditions == set()


def test_a_count_that_fails_once_closes_nothing(tmp_path: Path) -> None:
    with Probe(tmp_path, WORKS) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[GPU], errors={"nvmlDeviceGetCount_v2": "TIMEOUT"}))
        answer = probe.tick(calls=[INIT])
    assert answer.gpu.gpu_util_pct == 50
    assert answer.calls[INIT] == 1
    assert answer.conditions == set()


def test_a_driver_that_goes_again_is_looked_for_as_soon_as_the_first_time(tmp_path: Path) -> None:
    with Probe(tmp_path, AT_START["not loaded"][0]) as probe:
        probe.tick()
        probe.tick(after_s=30)
        probe.world(WORKS)
        assert probe.tick(after_s=60).sample
        probe.world(Scenario(gpus=[GPU], errors=WHILE_RUNNING["unloaded"][0]))
        assert not probe.tick().sample
        probe.world(WORKS)
        assert not probe.tick(after_s=29).sample
        assert probe.tick(after_s=1).sample
