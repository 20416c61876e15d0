"""What a driver does not support is absent, logged once and never asked again; what failed is asked again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from collectors.nvml.gate import nvml_error
from collectors.nvml.types import (
    DeviceLostError,
    DriverUnavailableError,
    NoDataError,
    NvmlError,
    TransientError,
    UnsupportedError,
)
from dutycycle.contract.catalogue import GPU_ROWS
from tests.support.fakes.nvml.probe import Answer, Probe
from tests.support.fakes.nvml.scenario import FakeGpu, FakeMig, FakeProcess, Scenario

FIELDS_OF = {
    "nvmlDeviceGetName": ("model", ["model"]),
    "nvmlDeviceGetUtilizationRates": ("gpu_util", ["gpu_util_pct", "mem_copy_util_pct"]),
    "nvmlDeviceGetPowerUsage": ("power", ["power_w"]),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit", ["power_limit_w"]),
    "nvmlDeviceGetTotalEnergyConsumption": ("energy", ["energy_j"]),
    "nvmlDeviceGetFieldValues": ("fields", ["pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"]),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie_gen", ["pcie_gen"]),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie_width", ["pcie_width"]),
    "nvmlDeviceGetClockInfo": ("sm_clock", ["sm_clock_mhz", "mem_clock_mhz"]),
    "nvmlDeviceGetSamples": ("util_burst", ["util_burst", "power_burst"]),
}
"""What is lost with one function, by its name in telemetry and by the record's fields."""
EVERY_FIELD = {"throttle"}.union(*(fields for _, fields in FIELDS_OF.values()))
REMEMBERED = {
    "NOT_SUPPORTED": "not_supported",
    "NO_PERMISSION": "no_permission",
    "25": "driver_too_old",
    "26": "withdrawn",
}
ASKED_AGAIN = {
    "TIMEOUT": "timeout",
    "UNKNOWN": "unknown_error",
    "INVALID_ARGUMENT": "invalid_argument",
    "IRQ_ISSUE": "other_error",
}


BY_CALLS = {"field:83": "NOT_SUPPORTED", "field:185": "NOT_SUPPORTED"}
"""A GPU that tells power and energy by calls of their own alone."""


def world(**errors: str) -> Scenario:
    process = FakeProcess(pid=11, util=5)
    gpu = FakeGpu(
        uuid="GPU-a", values={"util": 50, "power_w": 80}, processes=[process], errors=BY_CALLS | errors
    )
    return Scenario(gpus=[gpu])


def present(answers: Iterable[Answer]) -> set[str]:
    """The fields that any tick had: the first has no rates yet, and one right after it has no bursts."""
    return {field for one in answers for field in EVERY_FIELD if getattr(one.gpu, field) is not None}


@pytest.mark.parametrize("function", FIELDS_OF)
def test_what_a_device_does_not_support_is_absent_alone_and_asked_once(tmp_path: Path, function: str) -> None:
    what, lost = FIELDS_OF[function]
    with Probe(tmp_path, world(**{function: "NOT_SUPPORTED"})) as probe:
        answers = [probe.tick(calls=[function]) for _ in range(4)]
    assert present(answers) == EVERY_FIELD - set(lost)
    assert answers[0].calls[function] == answers[-1].calls[function]
    assert answers[-1].counts["not_measured", (what, "not_supported")] == 1
    assert sum(f"what={what} " in line for answer in answers for line in answer.said) == 1


@pytest.mark.parametrize(
    ("field", "name", "value"), [("field:185", "power_w", 321.5), ("field:83", "energy_j", 7.25)]
)
def test_power_and_energy_come_with_the_fields_or_else_by_a_call(
    tmp_path: Path, field: str, name: str, value: float
) -> None:
    """Whether the driver refuses the field for good or fails for once, the value is there."""
    values = {"power_w": 321.5, "energy_j": 7.25}
    counts = {}
    for code in ("", "NOT_SUPPORTED", "TIMEOUT"):
        errors = {field: code} if code else {}
        world = Scenario(gpus=[FakeGpu(uuid="GPU-a", values=values, errors=errors)])
        with Probe(tmp_path, world, health=False, activity=()) as probe:
            answer = [probe.tick(calls=list(CALL_OF.values())) for _ in range(3)][-1]
        assert getattr(answer.gpu, name) == value
        assert not [count for count in answer.counts if count[0] == "not_measured"]
        counts[code] = answer.calls
    others = set(CALL_OF.values()) - {CALL_OF[field]}
    assert [counts[code][CALL_OF[field]] for code in counts] == [0, 3, 3]
    assert {counts[code][call] for code in counts for call in others} == {0}


CALL_OF = {"field:185": "nvmlDeviceGetPowerUsage", "field:83": "nvmlDeviceGetTotalEnergyConsumption"}


@pytest.mark.parametrize("code", REMEMBERED)
def test_errors_that_last(tmp_path: Path, code: str) -> None:
    with Probe(tmp_path, world(nvmlDeviceGetPowerUsage=code)) as probe:
        probe.tick()
        probe.world(world())
        answer = probe.tick(calls=["nvmlDeviceGetPowerUsage"])
    assert (answer.gpu.power_w, answer.calls["nvmlDeviceGetPowerUsage"]) == (None, 1)
    assert answer.counts["not_measured", ("power", REMEMBERED[code])] == 1


@pytest.mark.parametrize("code", ASKED_AGAIN)
def test_errors_that_pass(tmp_path: Path, code: str) -> None:
    with Probe(tmp_path, world(nvmlDeviceGetPowerUsage=code)) as probe:
        failed = [probe.tick(), probe.tick()]
        probe.world(world())
        answer = probe.tick()
    assert [one.gpu.power_w for one in failed] == [None, None]
    assert answer.gpu.power_w == 80
    assert answer.counts["not_measured", ("power", ASKED_AGAIN[code])] == 2
    assert present(failed) == EVERY_FIELD - {"power_w"}


@pytest.mark.parametrize(
    ("missing", "field", "value"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", "mem_used_bytes", 600_000_000),
        ("nvmlDeviceGetTemperatureV", "temp_c", 40),
        ("nvmlDeviceGetMarginTemperature", "temp_margin_c", 47),
        ("nvmlDeviceGetCurrentClocksEventReasons", "throttle", ()),
    ],
)
def test_an_older_driver_is_asked_the_older_way(
    tmp_path: Path, missing: str, field: str, value: object
) -> None:
    with Probe(tmp_path, world(), without=[missing]) as probe:
        answer = probe.tick()
    assert getattr(answer.gpu, field) == value
    assert not [name for name, _ in answer.counts if name == "not_measured"]


EVENT_REASONS = ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"]


@pytest.mark.parametrize(
    ("missing", "fields"),
    [
        (["nvmlDeviceGetTotalEnergyConsumption"], ["energy_j"]),
        (["nvmlDeviceGetFieldValues"], ["pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"]),
        (["nvmlDeviceGetSamples"], ["util_burst", "power_burst"]),
        (["nvmlDeviceGetMigMode", "nvmlDeviceGetProcessUtilization"], []),
        (EVENT_REASONS, ["throttle"]),
    ],
)
def test_a_function_that_the_driver_lacks(tmp_path: Path, missing: list[str], fields: list[str]) -> None:
    with Probe(tmp_path, world(), without=missing, activity=()) as probe:  # asked anew after 100 ms
        answers = [probe.tick(), probe.tick()]
    assert present(answers) == EVERY_FIELD - set(fields)
    assert {labels[1] for name, labels in answers[1].counts if name == "not_measured"} == {"driver_too_old"}


@pytest.mark.parametrize(("field", "lost", "kept"), [(197, "tx", "rx"), (198, "rx", "tx")])
def test_each_counter_of_one_call_has_its_own_answer(
    tmp_path: Path, field: int, lost: str, kept: str
) -> None:
    with Probe(tmp_path, world(**{f"field:{field}": "NOT_SUPPORTED"}), health=False) as probe:
        probe.tick()
        answer = probe.tick(calls=["nvmlDeviceGetFieldValues"])
    assert getattr(answer.gpu, f"pcie_{lost}_bytes_per_s") is None
    assert getattr(answer.gpu, f"pcie_{kept}_bytes_per_s") is not None
    assert answer.calls["nvmlDeviceGetFieldValues"] == 2
    assert answer.counts["not_measured", (f"pcie_{lost}_bytes", "not_supported")] == 1


@pytest.mark.parametrize(("code", "calls"), [("INVALID_ARGUMENT", 1), ("NO_PERMISSION", 1), ("TIMEOUT", 3)])
def test_a_counter_that_the_driver_does_not_know_is_not_asked_again(
    tmp_path: Path, code: str, calls: int
) -> None:
    fields = {f"field:{row.nvml}": code for row in GPU_ROWS if isinstance(row.nvml, int)}
    with Probe(tmp_path, world(**fields), health=False) as probe:
        answers = [probe.tick(calls=["nvmlDeviceGetFieldValues"]) for _ in range(3)]
    assert answers[-1].calls["nvmlDeviceGetFieldValues"] == calls
    assert answers[-1].counts["not_measured", ("pcie_rx_bytes", {**REMEMBERED, **ASKED_AGAIN}[code])] == calls


def test_what_one_gpu_refuses_the_other_still_answers(tmp_path: Path) -> None:
    errors = {**BY_CALLS, "nvmlDeviceGetPowerUsage": "NOT_SUPPORTED"}
    gpus = [FakeGpu(uuid="GPU-a", errors=errors), FakeGpu(uuid="GPU-b")]
    with Probe(tmp_path, Scenario(gpus=gpus)) as probe:
        answer = probe.tick()
    assert {uuid: gpu.power_w for uuid, gpu in answer.gpus.items()} == {"GPU-a": None, "GPU-b": 80}


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (0, NoDataError, "empty"),
        (1, DriverUnavailableError, "uninitialized"),
        (3, UnsupportedError, "not_supported"),
        (4, UnsupportedError, "no_permission"),
        (6, NoDataError, "not_found"),
        (9, DriverUnavailableError, "driver_not_loaded"),
        (12, DriverUnavailableError, "library_not_found"),
        (13, UnsupportedError, "driver_too_old"),
        (15, DeviceLostError, "gpu_is_lost"),
        (16, DeviceLostError, "reset_required"),
        (18, DriverUnavailableError, "version_mismatch"),
        (27, TransientError, "other_error"),
        (999, TransientError, "unknown_error"),
        (123456, TransientError, "other_error"),
    ],
)
def test_what_follows_from_a_return_code(code: int, kind: type[NvmlError], reason: str) -> None:
    error = nvml_error(code)
    assert (type(error), error.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("used", "total", "known"),
    [(0, 0, (None, None)), (9e9, 8e9, (None, 8e9)), (8e9, 8e9, (8e9, 8e9)), (0, 8e9, (0, 8e9))],
)
def test_memory_that_no_gpu_has(
    used: float, total: float, known: tuple[float | None, float | None], tmp_path: Path
) -> None:
    """Nor a slice: 0 of 0 bytes is how a device says that it has none of its own."""
    sizes: dict[str, Any] = {"mem_used": used, "mem_total": total}
    divided = FakeGpu(
        uuid="GPU-m",
        values={"mig_mode": 1},
        mig=[FakeMig(index=0, uuid="MIG-1", gi=1, profile="1g", **sizes)],
    )
    with Probe(tmp_path, Scenario(gpus=[FakeGpu(uuid="GPU-a", values=sizes), divided])) as probe:
        answer = probe.tick()
    (part,) = answer.gpus["GPU-m"].mig or ()
    for device in (answer.gpus["GPU-a"], part):
        assert (device.mem_used_bytes, device.mem_total_bytes) == known
    counted = {
        name: answer.counts.get(("not_measured", (name, "out_of_range"))) for name in ("memory", "mig_memory")
    }
    assert counted == dict.fromkeys(counted, None if known == (used, total) else 1)


@pytest.mark.parametrize("code", ["UNKNOWN", "NOT_SUPPORTED"])
def test_a_driver_that_does_not_tell_its_version_is_read(tmp_path: Path, code: str) -> None:
    scenario = Scenario(
        gpus=[FakeGpu(uuid="GPU-a", values={"util": 50})], errors={"nvmlSystemGetDriverVersion": code}
    )
    with Probe(tmp_path, scenario) as probe:
        answer = probe.tick()
    assert (answer.gpu.gpu_util_pct, answer.conditions) == (50, set())
