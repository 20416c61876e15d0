"""The simulated machine: what it measures is what its workloads do, and is marked as simulated."""

from collections.abc import Iterator

import pytest

from collectors.base import Tick
from collectors.demo.machine import GPUS, IDLE_W, LIMIT_W, DemoMachine
from collectors.demo.workloads import LEAK_LIFE_S, STEP_S, finished_steps, in_checkpoint
from dutycycle.contract.codec import decode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.records.samples import CgroupSample, NvmlSample
from dutycycle.kube.stops import stop_command

START_MS = 1_700_000_000_000
TYPES: dict[str, type[NvmlSample | CgroupSample | Pod | ProcessSample]] = {
    "nvml-samples": NvmlSample,
    "cgroup-samples": CgroupSample,
    "pods": Pod,
    "processes": ProcessSample,
}


def measure(ticks: int, interval_ms: int = 1000, seed: int = 0) -> Iterator[ProducerRecord]:
    machine = DemoMachine(seed)
    for seq in range(ticks):
        yield from machine.collect(
            Tick(
                node="demo", collector="c", seq=seq, ts_ms=START_MS + seq * interval_ms,
                interval_ms=interval_ms, monotonic_s=seq * interval_ms / 1000,
            )
        )  # fmt: skip


def gpu_samples(ticks: int, interval_ms: int = 1000) -> list[NvmlSample]:
    return [
        decode(NvmlSample, record.value or b"", "nvml-samples")
        for record in measure(ticks, interval_ms)
        if record.topic == "nvml-samples"
    ]


def test_every_record_is_one_of_its_topic_and_marked_as_simulated() -> None:
    records = list(measure(120))
    assert {record.topic for record in records} == set(TYPES)
    for record in records:
        decoded = decode(TYPES[record.topic], record.value or b"", record.topic)
        if isinstance(decoded, NvmlSample):
            assert len(decoded.gpus) == GPUS
            assert all("(simulated)" in (gpu.model or "") for gpu in decoded.gpus)
        if isinstance(decoded, Pod):
            assert decoded.uid.startswith("simulated-")


def test_its_owners_are_stopped_as_those_of_a_cluster() -> None:
    pods = [decode(Pod, record.value or b"", "pods") for record in measure(1) if record.topic == "pods"]
    assert {pod.job.kind: stop_command(pod.job, "ml", 0).split()[3] for pod in pods if pod.job} == {
        "PyTorchJob": "delete", "Job": "patch", "Deployment": "scale", "StatefulSet": "scale",
    }  # fmt: skip


def test_the_same_ticks_and_seed_give_the_same_bytes() -> None:
    assert list(measure(60)) == list(measure(60))
    assert list(measure(60)) != list(measure(60, seed=1))


@pytest.mark.parametrize("interval_ms", [100, 1000, 10_000])
def test_energy_is_the_integral_of_power_at_any_interval(interval_ms: int) -> None:
    samples = gpu_samples(60, interval_ms)
    for index in range(GPUS):
        gpus = [sample.gpus[index] for sample in samples]
        drawn_j = sum(
            sum(watts for _, watts in gpu.power_burst or ()) / len(gpu.power_burst or ()) * interval_ms / 1000
            for gpu in gpus[1:]
        )
        assert (gpus[-1].energy_j or 0) - (gpus[0].energy_j or 0) == pytest.approx(drawn_j, rel=1e-6)
        assert all(0.9 * IDLE_W < (gpu.power_w or 0) <= LIMIT_W for gpu in gpus)


def test_a_training_reports_the_steps_that_its_gpus_show() -> None:
    reported = [
        process.loop.steps
        for record in measure(240)
        if record.topic == "processes"
        for process in decode(ProcessSample, record.value or b"", "processes").processes
        if process.loop is not None and process.pid == 4000
    ]
    assert sum(reported) == int(239 / STEP_S)


def test_no_step_advances_in_a_checkpoint() -> None:
    for tick in range(6000):
        before, after = tick / 10, (tick + 1) / 10
        if in_checkpoint(before) == in_checkpoint(after):
            advanced = finished_steps(after) - finished_steps(before)
            assert advanced == pytest.approx(0 if in_checkpoint(before) else 0.1 / STEP_S, abs=1e-6)


@pytest.mark.slow
def test_the_leak_fills_the_gpu_until_its_pod_fails_and_another_one_begins() -> None:
    interval_ms = 30_000
    ticks = int(LEAK_LIFE_S * 1000 / interval_ms) + 2
    used = [sample.gpus[4].mem_used_bytes or 0 for sample in gpu_samples(ticks, interval_ms)]
    total = 80 * 1024**3
    assert 0.97 * total < max(used) <= total
    assert used[-1] < used[0] * 1.05
    pods = [
        decode(Pod, record.value or b"", "pods")
        for record in measure(ticks, interval_ms)
        if record.topic == "pods" and "bert-leak" in record.key
    ]
    assert [(pod.name, pod.phase) for pod in pods] == [
        ("bert-leak-0", "Running"), ("bert-leak-0", "Failed"), ("bert-leak-1", "Running"),
    ]  # fmt: skip


def test_what_a_gpu_does_goes_with_its_utilization_and_power() -> None:
    """A GPU that works hard has tensor cores that work; a notebook's has nothing to do."""
    gpus = [gpu for sample in gpu_samples(90)[1:] for gpu in sample.gpus]
    for gpu in gpus:
        assert gpu.sm_active_pct is not None
        assert gpu.tensor_active_pct is not None
        assert 0 <= gpu.tensor_active_pct <= gpu.sm_active_pct <= 100
    hard = [gpu for gpu in gpus if gpu.power_w and gpu.power_w > 0.8 * LIMIT_W]
    assert hard
    assert all(gpu.tensor_active_pct > 30 for gpu in hard if gpu.tensor_active_pct is not None)
    idle = [gpu for gpu in gpus if not any(util for _, util in gpu.util_burst or ())]
    assert idle
    assert {gpu.sm_active_pct for gpu in idle} == {0}
