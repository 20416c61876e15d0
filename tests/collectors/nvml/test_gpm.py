"""What GPUs and slices really do, by GPM: percent and bytes of the time between two ticks."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from dutycycle.contract.catalogue import USUAL_ACTIVITY
from dutycycle.contract.codec import encode
from tests.support.fakes.nvml.full_node import full_node
from tests.support.fakes.nvml.probe import Answer, Probe
from tests.support.fakes.nvml.scenario import FakeGpu, FakeMig, Scenario, Signal, ramp, square

COUNTERS: Mapping[int, Signal] = {
    2: 95, 3: 40.26, 5: 71, 10: 33, 11: 0, 12: 12.5, 13: 3, 20: 40, 21: 50, 60: 200, 61: 100.5,
}  # fmt: skip
VALUES = {
    "sm_active_pct": 95, "sm_occupancy_pct": 40.3, "tensor_active_pct": 71, "dram_active_pct": 33,
    "fp64_active_pct": 0, "fp32_active_pct": 12.5, "fp16_active_pct": 3,
    "nvlink_rx_bytes_per_s": 200 * 2**20, "nvlink_tx_bytes_per_s": round(100.5 * 2**20),
}  # fmt: skip
NONE = dict.fromkeys(USUAL_ACTIVITY)
ADDED = (*USUAL_ACTIVITY, "sw_power_cap_pct", "sw_thermal_pct", "hw_thermal_pct", "power_brake_pct")
MOST_BYTES = 2500
"""What activity and health may add to a sample, before compression."""


def world(
    counters: Mapping[int, Signal] = COUNTERS,
    errors: Mapping[str, str] | None = None,
    values: Mapping[str, Signal] | None = None,
) -> Scenario:
    gpu = FakeGpu(
        uuid="GPU-a", counters=counters, errors=errors or {}, values={"util": 100, **(values or {})}
    )
    return Scenario(gpus=[gpu])


def activity(answer: Answer) -> dict[str, float | None]:
    return {name: getattr(answer.gpu, name) for name in USUAL_ACTIVITY}


def later(probe: Probe, calls: list[str] | None = None) -> Answer:
    """A tick after the time that GPM needs between two samples."""
    time.sleep(0.3)
    return probe.tick(calls=calls or [])


def test_the_first_tick_is_unknown_and_the_second_has_all_by_one_question(tmp_path: Path) -> None:
    calls = ["nvmlGpmSampleGet", "nvmlGpmMetricsGet", "nvmlGpmSampleAlloc"]
    with Probe(tmp_path, world()) as probe:
        first, second = probe.tick(), later(probe, calls)
    assert activity(first) == NONE
    assert activity(second) == VALUES
    assert second.calls == {"nvmlGpmSampleGet": 2, "nvmlGpmMetricsGet": 1, "nvmlGpmSampleAlloc": 2}


def test_a_value_is_of_all_the_time_between_two_ticks(tmp_path: Path) -> None:
    """A square wave whose period is shorter than the tick: no moment's value, but the mean."""
    with Probe(tmp_path, world({5: square(0.02, 0.25, 0, 80)})) as probe:
        probe.tick()
        found = later(probe).gpu.tensor_active_pct
    assert found == pytest.approx(20, abs=3)


@pytest.mark.parametrize(
    ("of", "fields", "counted"),
    [
        ({"errors": {"gpm:11": "NOT_SUPPORTED"}}, {"fp64_active_pct"}, ("fp64_active_pct", "not_supported")),
        ({"counters": {**COUNTERS, 5: "nan"}}, {"tensor_active_pct"}, None),
        ({"counters": {**COUNTERS, 2: 130}}, {"sm_active_pct"}, ("sm_active_pct", "out_of_range")),
        (
            {"errors": {"gpm:13": "INVALID_ARGUMENT"}},
            {"fp16_active_pct"},
            ("fp16_active_pct", "invalid_argument"),
        ),
        ({"errors": {"gpm:10": "UNKNOWN"}}, {"dram_active_pct"}, ("dram_active_pct", "unknown_error")),
    ],
)  # fmt: skip
def test_a_metric_that_fails_is_absent_and_the_others_are_there(
    of: dict[str, Mapping[str, str]], fields: set[str], counted: tuple[str, str] | None, tmp_path: Path
) -> None:
    with Probe(tmp_path, world(**of)) as probe:  # type: ignore[arg-type]
        probe.tick()
        answer = later(probe)
    assert activity(answer) == VALUES | dict.fromkeys(fields)
    counts = {labels: n for (name, labels), n in answer.counts.items() if name == "not_measured"}
    assert counts == ({counted: 1} if counted else {})


def test_what_is_not_supported_is_asked_once(tmp_path: Path) -> None:
    with Probe(tmp_path, world({2: 50})) as probe:
        probe.tick()
        later(probe)
        answer = later(probe)
    refused = {labels[0]: n for (_, labels), n in answer.counts.items() if labels[1] == "not_supported"}
    assert refused == dict.fromkeys(set(USUAL_ACTIVITY) - {"sm_active_pct"}, 1)
    assert answer.gpu.sm_active_pct == 50


@pytest.mark.parametrize(
    ("of", "without", "reason"),
    [({"gpm": 0}, [], "not_supported"), ({}, ["nvmlGpmQueryDeviceSupport"], "driver_too_old")],
)
def test_a_gpu_without_gpm_is_read_as_before(
    of: dict[str, Signal], without: list[str], reason: str, tmp_path: Path
) -> None:
    with Probe(tmp_path, world(values=of), without=without) as probe:
        probe.tick()
        answer = later(probe)
    assert activity(answer) == NONE
    assert answer.gpu.gpu_util_pct == 100
    assert answer.counts["not_measured", ("gpm", reason)] == 1


def test_no_permission_is_said_once(tmp_path: Path) -> None:
    with Probe(tmp_path, world(errors={"nvmlGpmSampleGet": "NO_PERMISSION"})) as probe:
        probe.tick()
        answer = later(probe, ["nvmlGpmSampleGet"])
    assert activity(answer) == NONE
    assert answer.calls == {"nvmlGpmSampleGet": 1}
    assert answer.counts["not_measured", ("gpm_sample", "no_permission")] == 1


def test_what_was_refused_is_asked_again_when_the_library_is_opened_anew(tmp_path: Path) -> None:
    lost = {"nvmlGpmSampleGet": "NO_PERMISSION"}
    with Probe(tmp_path, world(errors=lost), retry_s=30) as probe:
        assert activity(probe.tick()) == NONE
        probe.world(world(errors={"nvmlDeviceGetUtilizationRates": "DRIVER_NOT_LOADED"}))
        assert probe.tick().sample is None
        probe.world(world())
        probe.monotonic_s += 31
        probe.tick()
        assert activity(later(probe)) == VALUES


def test_slices_have_their_own_and_the_gpu_none(tmp_path: Path) -> None:
    slices = [
        FakeMig(index=0, uuid="MIG-1", gi=7, util=40, counters={2: 30, 5: 12}),
        FakeMig(index=1, uuid="MIG-2", gi=2, util=70, counters={2: 140}),
    ]
    gpu = FakeGpu(uuid="GPU-a", values={"mig_mode": 1}, mig=slices, counters=COUNTERS)
    with Probe(tmp_path, Scenario(gpus=[gpu])) as probe:
        probe.tick()
        answer = later(probe)
    first, second = answer.gpu.mig or ()
    assert (first.gpu_util_pct, first.sm_active_pct, first.tensor_active_pct) == (40, 30, 12)
    assert (second.gpu_util_pct, second.sm_active_pct) == (70, None)
    assert activity(answer) == NONE


def test_a_sample_of_eight_gpus_grows_by_no_more_than_was_promised(tmp_path: Path) -> None:
    with Probe(tmp_path, full_node()) as probe:
        probe.tick()
        time.sleep(0.2)
        sample = probe.tick().sample
    assert sample is not None
    assert [len(sample.gpus), sample.gpus[7].sw_power_cap_pct, sample.gpus[7].fp64_active_pct] == [8, 0, 0]
    assert all(
        gpu.nvlink_rx_bytes_per_s > 1e10 for gpu in sample.gpus if gpu.nvlink_rx_bytes_per_s is not None
    )
    without = dict.fromkeys(ADDED)
    bare = replace(sample, gpus=tuple(replace(gpu, **without) for gpu in sample.gpus))
    assert 2000 < len(encode(sample)) - len(encode(bare)) <= MOST_BYTES


ENGINES = ("enc_util_pct", "dec_util_pct", "jpeg_util_pct", "ofa_util_pct")
BUSY: Mapping[str, Signal] = {"enc": 30, "dec": 80, "jpg": 20, "ofa": 10}


@pytest.mark.parametrize(
    ("values", "activity", "expected"),
    [
        ({"gpm": 0}, USUAL_ACTIVITY, (30, 80, None, None)),
        ({}, USUAL_ACTIVITY, (None, None, None, None)),  # its counters tell more
        ({}, ("sm_active_pct", "dec_util_pct", "ofa_util_pct"), (None, 80, None, 10)),
        ({"gpm": 0}, ("jpeg_util_pct",), (None, None, 20, None)),
        ({"gpm": 0}, ("sm_active_pct",), (None, None, None, None)),
        ({"gpm": 0}, (), (None, None, None, None)),
        ({"gpm": 0, "mig_mode": 1}, USUAL_ACTIVITY, (None, None, None, None)),
    ],
)
def test_engines_are_read_as_asked_for_and_those_for_video_before_hopper(
    tmp_path: Path, values: Mapping[str, Signal], activity: Sequence[str], expected: tuple[float | None, ...]
) -> None:
    gpu = FakeGpu(uuid="GPU-1", values={**BUSY, **values})
    with Probe(tmp_path, Scenario(gpus=[gpu]), activity=activity) as probe:
        probe.tick()
        found = probe.tick().gpu
    assert tuple(getattr(found, name) for name in ENGINES) == expected


def test_pipes_are_read_as_asked_for(tmp_path: Path) -> None:
    counters = {**COUNTERS, 4: 8.25, 6: 1, 7: 55, 9: 2}
    with Probe(tmp_path, world(counters), activity=("int_active_pct", "tensor_hmma_active_pct")) as probe:
        probe.tick()
        found = later(probe).gpu
    assert (found.int_active_pct, found.tensor_hmma_active_pct) == (8.2, 55)
    assert (found.sm_active_pct, found.tensor_imma_active_pct) == (None, None)
    with Probe(tmp_path, world(counters)) as probe:
        probe.tick()
        assert later(probe).gpu.int_active_pct is None


def test_pipes_of_a_slice_are_its_own(tmp_path: Path) -> None:
    pipes = ("int_active_pct", "tensor_hmma_active_pct", "tensor_imma_active_pct", "tensor_dfma_active_pct")
    whole = FakeMig(index=0, uuid="MIG-1", gi=7, util=40, counters={4: 8.25, 6: 1, 7: 55, 9: 2})
    without = FakeMig(index=1, uuid="MIG-2", gi=8, util=40, counters={4: 3})
    gpu = FakeGpu(uuid="GPU-1", values={"mig_mode": 1}, mig=[whole, without])
    with Probe(tmp_path, Scenario(gpus=[gpu]), activity=pipes) as probe:
        probe.tick()
        found = later(probe).gpu
    assert [tuple(getattr(of, name) for name in pipes) for of in (*(found.mig or ()), found)] == [
        (8.2, 55, 2, 1), (3, None, None, None), (None,) * 4,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        # A driver before R555 does not know the fields: R535, for one, which many have.
        ({"field:197": "INVALID_ARGUMENT", "field:198": "INVALID_ARGUMENT"}, (7 * 2**20, 9 * 2**20)),
        ({}, (3e9, 1e9)),
    ],
    ids=["refused", "known"],
)
def test_pcie_comes_from_gpm_where_the_driver_does_not_know_its_fields(
    tmp_path: Path, errors: Mapping[str, str], expected: tuple[float, float]
) -> None:
    told = world({**COUNTERS, 20: 9, 21: 7}, errors, {"pcie_rx": 3e9, "pcie_tx": 1e9})
    with Probe(tmp_path, told) as probe:
        probe.tick()
        found = later(probe).gpu
    assert (found.pcie_rx_bytes_per_s, found.pcie_tx_bytes_per_s) == pytest.approx(expected, rel=0.01)


def test_a_driver_that_refuses_the_encoder_is_asked_for_the_decoder(tmp_path: Path) -> None:
    errors = {"nvmlDeviceGetEncoderUtilization": "NOT_SUPPORTED"}
    gpu = FakeGpu(uuid="GPU-1", values={**BUSY, "gpm": 0}, errors=errors)
    calls = ["nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization"]
    with Probe(tmp_path, Scenario(gpus=[gpu])) as probe:
        answer = [probe.tick(calls=calls) for _ in range(4)][-1]
    assert (answer.gpu.enc_util_pct, answer.gpu.dec_util_pct) == (None, 80)
    assert answer.counts["not_measured", ("enc_util_pct", "not_supported")] == 1
    assert [answer.calls[name] for name in calls] == [1, 4]


ENGINES_BY_GPM: Mapping[int, Signal] = {30: 60, 31: 20, 40: 5, 50: 9, 166: 7, 20: 9, 21: 7}


def test_slices_have_pcie_and_the_engines_that_are_asked_for(tmp_path: Path) -> None:
    """Each slice has engines of its own: what one lacks is asked of the others."""
    slices = [
        FakeMig(index=0, uuid="MIG-1", gi=7, counters={2: 30}),
        FakeMig(index=1, uuid="MIG-2", gi=2, counters={2: 40, **ENGINES_BY_GPM}),
    ]
    gpu = FakeGpu(uuid="GPU-a", values={"mig_mode": 1}, mig=slices)
    asked = (*USUAL_ACTIVITY, *ENGINES)
    with Probe(tmp_path, Scenario(gpus=[gpu]), activity=asked) as probe:
        probe.tick()
        later(probe)
        first, second = later(probe).gpu.mig or ()
    assert [getattr(first, name) for name in ENGINES] == [None] * 4
    assert [getattr(second, name) for name in ENGINES] == [7, 40, 5, 9]  # two decoders at 60 and 20
    assert (first.pcie_rx_bytes_per_s, first.sm_active_pct) == (None, 30)
    assert (second.pcie_rx_bytes_per_s, second.pcie_tx_bytes_per_s) == (7 * 2**20, 9 * 2**20)
    with Probe(tmp_path, Scenario(gpus=[gpu])) as probe:
        probe.tick()
        (_, second) = later(probe).gpu.mig or ()
    assert (second.dec_util_pct, second.pcie_rx_bytes_per_s) == (None, 7 * 2**20)


LINKS: Mapping[int | str, Signal] = {
    "139 scope=4294967295": ramp(5e6, 2e6),
    "138 scope=4294967295": ramp(9e6, 0),
}


@pytest.mark.parametrize(
    ("values", "activity", "expected"),
    [
        ({"gpm": 0}, USUAL_ACTIVITY, (2e6 * 1024, 0)),
        ({"gpm": 0}, ("nvlink_tx_bytes_per_s",), (None, 0)),
        ({"gpm": 0}, (), (None, None)),
        ({"gpm": 0, "mig_mode": 1}, USUAL_ACTIVITY, (None, None)),
        ({}, USUAL_ACTIVITY, (200 * 2**20, 100 * 2**20)),  # its counters tell, and no field is asked for
    ],
)
def test_what_nvlinks_carry_is_told_before_hopper_by_counters_of_bytes(
    tmp_path: Path, values: Mapping[str, Signal], activity: Sequence[str], expected: tuple[float | None, ...]
) -> None:
    gpu = FakeGpu(uuid="GPU-1", values=values, fields=LINKS, counters={60: 200, 61: 100})
    with Probe(tmp_path, Scenario(gpus=[gpu]), activity=activity) as probe:
        first, second = probe.tick().gpu, later(probe).gpu
    assert (first.nvlink_rx_bytes_per_s, first.nvlink_tx_bytes_per_s) == (None, None)
    rates = second.nvlink_rx_bytes_per_s, second.nvlink_tx_bytes_per_s
    assert rates == pytest.approx(expected, rel=0.1)


def test_a_gpu_without_nvlink_is_asked_once(tmp_path: Path) -> None:
    gpu = FakeGpu(uuid="GPU-1", values={"gpm": 0}, errors={"field:138": "NOT_SUPPORTED"}, fields=LINKS)
    with Probe(tmp_path, Scenario(gpus=[gpu])) as probe:
        probe.tick()
        last = [later(probe) for _ in range(2)][-1]
    assert last.gpu.nvlink_rx_bytes_per_s == pytest.approx(2e6 * 1024, rel=0.1)
    assert last.gpu.nvlink_tx_bytes_per_s is None
