"""GPUs that fall off the bus, have to be reset, are pulled out and come back, while the others go on."""

from pathlib import Path

import pytest

from tests.support.fakes.nvml.probe import Probe
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario

A, B, C = (FakeGpu(uuid=f"GPU-{name}", values={"util": 50}) for name in "abc")
BOTH = Scenario(gpus=[A, B])
INIT = "nvmlInitWithFlags"


def refusing(gpu: FakeGpu, function: str, code: str) -> FakeGpu:
    return FakeGpu(uuid=gpu.uuid, values=gpu.values, errors={function: code})


@pytest.mark.parametrize(
    ("code", "reason"),
    [("GPU_IS_LOST", "gpu_is_lost"), ("RESET_REQUIRED", "reset_required"), ("28", "gpu_not_found")],
)
@pytest.mark.parametrize("function", ["*", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetSamples"])
def test_a_lost_gpu_is_said_once_and_the_other_goes_on(
    tmp_path: Path, code: str, reason: str, function: str
) -> None:
    with Probe(tmp_path, BOTH) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[A, refusing(B, function, code)]))
        lost = [probe.tick() for _ in range(5)]
        probe.world(BOTH)
        still, back = probe.tick(after_s=20), probe.tick(after_s=10)
    assert [set(one.gpus) for one in lost] == [{"GPU-a"}] * 5
    assert lost[-1].conditions == {("device_lost", "GPU-b")}
    said = [line for answer in lost for line in answer.said if line.startswith("device_lost")]
    assert said == [f"device_lost GPU-b: GPU 1 (GPU-b) is left out: {reason}"]
    assert (set(still.gpus), set(back.gpus)) == ({"GPU-a"}, {"GPU-a", "GPU-b"})
    assert back.conditions == set()
    assert "device_lost GPU-b: answers again" in back.said
    assert back.counts["device_lost", (reason,)] == 1


def test_one_refused_counter_of_a_lost_gpu_is_enough(tmp_path: Path) -> None:
    with Probe(tmp_path, BOTH) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[A, refusing(B, "field:198", "GPU_IS_LOST")]))
        assert set(probe.tick().gpus) == {"GPU-a"}


def test_looking_for_a_lost_gpu_gets_rarer(tmp_path: Path) -> None:
    with Probe(tmp_path, BOTH) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[A, refusing(B, "nvmlDeviceGetTemperatureV", "GPU_IS_LOST")]))
        # It is listed again each time, and each time answers no more than before.
        opened = [probe.tick(after_s=10, calls=[INIT]).calls[INIT] for _ in range(23)]
        probe.world(BOTH)
        probe.tick(after_s=1000)
        probe.world(Scenario(gpus=[A, refusing(B, "nvmlDeviceGetTemperatureV", "GPU_IS_LOST")]))
        again = [probe.tick(after_s=10, calls=[INIT]).calls[INIT] for _ in range(4)]
    assert opened == [1] * 3 + [2] * 6 + [3] * 12 + [4] * 2
    assert again == [5, 5, 5, 6]


def test_a_gpu_that_is_pulled_out_and_plugged_in_again(tmp_path: Path) -> None:
    with Probe(tmp_path, BOTH) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[B]))
        pulled, looked = probe.tick(), probe.tick(after_s=30)
        probe.world(Scenario(gpus=[B, C, A]))
        back = probe.tick(after_s=60)
    assert set(pulled.gpus) == set(looked.gpus) == {"GPU-b"}
    assert looked.conditions == {("device_lost", "GPU-a")}
    assert looked.gpu.index == 0
    assert {uuid: gpu.index for uuid, gpu in back.gpus.items()} == {"GPU-b": 0, "GPU-c": 1, "GPU-a": 2}
    assert back.conditions == set()


def test_a_lost_gpu_that_another_driver_does_not_list_is_still_lost(tmp_path: Path) -> None:
    with Probe(tmp_path, BOTH) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[A, refusing(B, "*", "GPU_IS_LOST")]))
        probe.tick()
        probe.world(Scenario(errors={"*": "DRIVER_NOT_LOADED"}))
        probe.tick()
        probe.world(Scenario(driver="580.1", gpus=[A]))
        looked = [probe.tick(after_s=60) for _ in range(3)]
        probe.world(Scenario(driver="580.1", gpus=[A, B]))
        back = [probe.tick(after_s=600) for _ in range(2)]
    assert [set(answer.gpus) for answer in looked] == [{"GPU-a"}] * 3
    assert looked[-1].conditions == {("device_lost", "GPU-b")}
    kinds = [event.kind for answer in (*looked, *back) for event in answer.events if event.gpu == "GPU-b"]
    assert [kind for kind in kinds if kind != "state"] == ["returned"]
    assert set(back[-1].gpus) == {"GPU-a", "GPU-b"}


def test_what_a_failing_gpu_refused_is_asked_again_when_it_is_back(tmp_path: Path) -> None:
    failing = FakeGpu(uuid=A.uuid, values=A.values, errors={"nvmlDeviceGetUtilizationRates": "NOT_SUPPORTED"})
    with Probe(tmp_path, Scenario(gpus=[A, B])) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[failing, B]))
        refused = probe.tick()
        probe.world(Scenario(gpus=[refusing(A, "*", "GPU_IS_LOST"), B]))
        probe.tick()
        probe.world(BOTH)
        back = probe.tick(after_s=30)
    assert [answer.gpus["GPU-a"].gpu_util_pct for answer in (refused, back)] == [None, 50]


def test_another_driver_is_asked_for_what_the_one_before_refused(tmp_path: Path) -> None:
    errors = {f"nvmlDeviceGetTemperature{version}": "NOT_SUPPORTED" for version in ("V", "")}
    dumb = FakeGpu(uuid=A.uuid, values=A.values, errors=errors)
    with Probe(tmp_path, Scenario(gpus=[dumb])) as probe:
        before = probe.tick().gpu
        probe.world(Scenario(errors={"*": "DRIVER_NOT_LOADED"}))
        probe.tick()
        probe.world(Scenario(driver="580.1", gpus=[FakeGpu(uuid=A.uuid, name="NVIDIA H200 NVL")]))
        after = probe.tick(after_s=60).gpu
    assert before.temp_c is None
    assert after.temp_c is not None
    assert after.model == "NVIDIA H200 NVL"  # which drivers call otherwise


def test_a_driver_that_lists_a_new_gpu_at_once(tmp_path: Path) -> None:
    with Probe(tmp_path, Scenario(gpus=[A], live=True)) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[C, A], live=True))
        answer = probe.tick(calls=[INIT])
    assert {uuid: gpu.index for uuid, gpu in answer.gpus.items()} == {"GPU-c": 0, "GPU-a": 1}
    assert answer.calls[INIT] == 1


def test_a_gpu_that_is_lost_from_the_start_has_no_more_than_an_index(tmp_path: Path) -> None:
    with Probe(tmp_path, Scenario(gpus=[refusing(A, "*", "GPU_IS_LOST"), B]), activity=()) as probe:
        first, second = probe.tick(), probe.tick()
        probe.world(BOTH)
        back = probe.tick(after_s=30)
    assert set(first.gpus) == {"GPU-b"}
    assert first.conditions == {("device_lost", "GPU 0")}
    assert second.said == []
    assert set(back.gpus) == {"GPU-a", "GPU-b"}
    assert back.conditions == set()


def test_all_gpus_lost_is_no_sample(tmp_path: Path) -> None:
    with Probe(tmp_path, BOTH) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[refusing(gpu, "*", "GPU_IS_LOST") for gpu in (A, B)]))
        lost = [probe.tick(), probe.tick(after_s=30)]
        probe.world(BOTH)
        back = probe.tick(after_s=60)
    assert [one.sample for one in lost] == [None, None]
    assert lost[1].conditions == {("device_lost", "GPU-a"), ("device_lost", "GPU-b")}
    assert set(back.gpus) == {"GPU-a", "GPU-b"}


def test_what_a_gpu_refused_is_remembered_while_another_is_looked_for(tmp_path: Path) -> None:
    errors = {"field:185": "NOT_SUPPORTED", "nvmlDeviceGetPowerUsage": "NOT_SUPPORTED"}
    dumb = FakeGpu(uuid=A.uuid, values=A.values, errors=errors)
    with Probe(tmp_path, Scenario(gpus=[dumb, B])) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[dumb]))
        probe.tick()
        answer = probe.tick(after_s=30, calls=["nvmlDeviceGetPowerUsage", INIT])
    assert answer.calls == {"nvmlDeviceGetPowerUsage": 1, INIT: 2}
    assert answer.counts["not_measured", ("power", "not_supported")] == 1


@pytest.mark.parametrize(("uuid", "reason"), [(A.uuid, "same_uuid"), ("", "no_text")])
def test_a_gpu_without_a_uuid_of_its_own_is_said(tmp_path: Path, uuid: str, reason: str) -> None:
    """As clones of a virtual machine may have them: the first is read, and the other one is said. A record
    with an empty one would be refused with all GPUs in it."""
    with Probe(tmp_path, Scenario(gpus=[A, FakeGpu(uuid=uuid, values={"util": 10}), B])) as probe:
        answer = probe.tick()
        probe.world(BOTH)
        right = probe.tick(after_s=30)
    assert {uuid: (gpu.index, gpu.gpu_util_pct) for uuid, gpu in answer.gpus.items()} == {
        "GPU-a": (0, 50), "GPU-b": (2, 50),
    }  # fmt: skip
    assert answer.conditions == {("device_lost", "GPU 1")}
    assert answer.counts["device_lost", (reason,)] == 1
    assert right.conditions == set()
