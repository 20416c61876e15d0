"""MIG: slices with gaps, their memory and profiles, utilization by GPM where there is GPM."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.nvml.mig import profile_of
from collectors.nvml.types import MigSize
from dutycycle.contract.records.samples import MigDevice
from tests.support.fakes.nvml.probe import Answer, Probe
from tests.support.fakes.nvml.scenario import FakeGpu, FakeMig, FakeProcess, Scenario, Signal

ONE = FakeMig(index=0, uuid="MIG-1", gi=7, profile="1g.18gb", mem_total=18e9, mem_used=1e9, util=40)
TWO = FakeMig(index=3, uuid="MIG-2", gi=2, profile="2g.35gb", mem_total=35e9, mem_used=2e9, util=70)
GIB = 2**30


def world(
    *mig: FakeMig,
    values: dict[str, Signal] | None = None,
    processes: Sequence[FakeProcess] = (),
    broken: str | None = None,
) -> Scenario:
    shown: dict[str, Signal] = {"mig_mode": 1, "util": 50, **(values or {})}
    errors = {} if broken is None else {broken: "TIMEOUT"}
    return Scenario(gpus=[FakeGpu(uuid="GPU-a", values=shown, mig=mig, processes=processes, errors=errors)])


def later(probe: Probe, pause_s: float = 0.3) -> Answer:
    """A tick after the time that GPM needs between two samples."""
    time.sleep(pause_s)
    return probe.tick()


def busy(answer: Answer) -> dict[str, float | None]:
    percents = {one.uuid: one.gpu_util_pct for one in answer.gpu.mig or ()}
    return {uuid: None if percent is None else round(percent, 2) for uuid, percent in percents.items()}


def failures(answer: Answer) -> set[str]:
    """What was asked of GPM and went wrong."""
    return {labels[1] for (_, labels) in answer.counts if labels[0] == "gpm_sample"}


def test_every_field_of_every_slice(tmp_path: Path) -> None:
    with Probe(tmp_path, world(ONE, TWO)) as probe:
        first, second = probe.tick(), later(probe)
    assert first.gpu.mig == (
        MigDevice(uuid="MIG-1", profile="1g.18gb", mem_used_bytes=10**9, mem_total_bytes=18 * 10**9),
        MigDevice(uuid="MIG-2", profile="2g.35gb", mem_used_bytes=2 * 10**9, mem_total_bytes=35 * 10**9),
    )
    assert busy(second) == {"MIG-1": 40, "MIG-2": 70}
    assert (second.gpu.gpu_util_pct, second.gpu.power_w) == (None, 80)


def test_a_slice_has_no_more_memory_than_any_gpu(tmp_path: Path) -> None:
    odd = FakeMig(index=2, uuid="MIG-3", gi=3, profile="1g.18gb", mem_total=1.5e19)
    with Probe(tmp_path, world(ONE, odd)) as probe:
        slices = {mig.uuid: mig.mem_total_bytes for mig in probe.tick().gpu.mig or ()}
    assert slices == {"MIG-1": 18 * 10**9, "MIG-3": None}


def test_samples_too_close_together_are_not_compared(tmp_path: Path) -> None:
    with Probe(tmp_path, world(ONE)) as probe:
        probe.tick()
        answer = probe.tick(calls=["nvmlGpmMigSampleGet", "nvmlGpmMetricsGet"])
    # On a slow machine even these may be 100 ms apart: then they are.
    assert answer.calls["nvmlGpmMetricsGet"] == answer.calls["nvmlGpmMigSampleGet"] - 1
    assert answer.calls["nvmlGpmMetricsGet"] or busy(answer) == {"MIG-1": None}
    assert failures(answer) == set()


def test_before_hopper_slices_have_memory_and_no_utilization(tmp_path: Path) -> None:
    with Probe(tmp_path, world(ONE, values={"gpm": 0})) as probe:
        probe.tick()
        answer = later(probe)
    assert busy(answer) == {"MIG-1": None}
    assert answer.counts["not_measured", ("mig_util", "not_supported")] == 1
    (only,) = answer.gpu.mig or ()
    assert only.mem_used_bytes == 10**9


def test_a_driver_without_gpm(tmp_path: Path) -> None:
    with Probe(tmp_path, world(ONE), without=["nvmlGpmQueryDeviceSupport"]) as probe:
        answer = probe.tick()
    assert busy(answer) == {"MIG-1": None}
    assert answer.counts["not_measured", ("mig_util", "driver_too_old")] == 1


def test_compute_instances_that_share_a_gpu_instance_cannot_be_told_apart(tmp_path: Path) -> None:
    pair = [FakeMig(index=n, uuid=f"MIG-{n}", gi=1, ci=n, util=30) for n in (0, 1)]
    with Probe(tmp_path, world(*pair, TWO)) as probe:
        probe.tick()
        time.sleep(0.3)
        answer = probe.tick(calls=["nvmlGpmMigSampleGet"])
    assert busy(answer) == {"MIG-0": None, "MIG-1": None, "MIG-2": 70}
    assert answer.calls["nvmlGpmMigSampleGet"] == 2


def test_slices_that_are_made_anew_start_anew(tmp_path: Path) -> None:
    again = FakeMig(index=0, uuid="MIG-9", gi=7, profile="1g.18gb", util=10)
    with Probe(tmp_path, world(ONE, TWO)) as probe:
        probe.tick()
        probe.world(world(again))
        first, second = later(probe), later(probe)
        probe.world(world())
        none = probe.tick(calls=["nvmlGpmSampleAlloc", "nvmlGpmSampleFree"])
    # The same GPU instance id is not the same instance: its counters are not compared with the old one's.
    assert [busy(first), busy(second)] == [{"MIG-9": None}, {"MIG-9": 10}]
    assert failures(none) == set()
    assert none.gpu.mig == ()
    assert none.calls == {"nvmlGpmSampleAlloc": 4, "nvmlGpmSampleFree": 4}


def test_a_gpu_that_is_divided_and_put_together_again(tmp_path: Path) -> None:
    whole = world(values={"mig_mode": 0})
    with Probe(tmp_path, whole) as probe:
        before = probe.tick()
        probe.world(world(ONE))
        divided = probe.tick()
        probe.world(whole)
        after = probe.tick()
    assert [a.gpu.gpu_util_pct for a in (before, divided, after)] == [50, None, 50]
    assert [a.gpu.mig is None for a in (before, divided, after)] == [True, False, True]


@pytest.mark.parametrize("function", ["nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount"])
def test_a_gpu_whose_slices_are_not_told_once_is_not_put_together(tmp_path: Path, function: str) -> None:
    with Probe(tmp_path, world(ONE, TWO)) as probe:
        probe.tick()
        probe.world(world(ONE, TWO, broken=function))
        answers = [later(probe)]
        probe.world(world(ONE, TWO))
        answers.append(later(probe))
    known = {"MIG-1": 40, "MIG-2": 70}
    assert [busy(answer) for answer in answers] == [{} if "Count" in function else known, known]
    assert answers[0].gpu.mig != ()


def test_a_slice_that_is_not_told_once_is_unknown_and_not_gone(tmp_path: Path) -> None:
    with Probe(tmp_path, world(ONE, TWO)) as probe:
        probe.tick()
        probe.world(world(ONE, replace(TWO, hidden=1)))
        hidden = later(probe)
        probe.world(world(ONE, TWO))
        after = later(probe)
        probe.world(world(ONE))
        gone = later(probe)
    assert (hidden.gpu.mig or ())[1] == MigDevice(
        uuid="MIG-2", profile="2g.35gb", mem_total_bytes=35 * 10**9
    ), "without it, the other would be the whole GPU"
    assert hidden.counts["not_measured", ("mig_devices", "timeout")] == 1
    answers = [busy(answer) for answer in (hidden, after, gone)]
    assert answers == [{"MIG-1": 40, "MIG-2": None}, {"MIG-1": 40, "MIG-2": 70}, {"MIG-1": 40}]


def test_a_slice_that_was_never_told_or_is_made_anew_elsewhere_stands_there_once(tmp_path: Path) -> None:
    with Probe(tmp_path, world(ONE, replace(TWO, hidden=1))) as probe:
        first = probe.tick()
        probe.world(world(ONE, TWO))
        probe.tick()
        probe.world(world(replace(ONE, hidden=1), replace(ONE, index=1), TWO))
        moved = probe.tick()
    assert [[one.uuid for one in answer.gpu.mig or ()] for answer in (first, moved)] == [
        ["MIG-1"],
        ["MIG-1", "MIG-2"],
    ]


def test_processes_of_all_slices_are_the_gpus(tmp_path: Path) -> None:
    processes = [FakeProcess(pid=1, mem=1e9, gi=7, ci=0), FakeProcess(pid=2, mem=2e9, gi=2, ci=0)]
    with Probe(tmp_path, world(ONE, TWO, processes=processes)) as probe:
        found = probe.tick().gpu.processes or ()
    assert [(p.pid, p.mem_used_bytes, p.gpu_util_pct) for p in found] == [
        (1, 10**9, None),
        (2, 2 * 10**9, None),
    ]


def test_a_profile_by_size_where_the_name_has_none(tmp_path: Path) -> None:
    slice_ = FakeMig(index=0, uuid="MIG-1", gi=1, slices=3, compute_slices=1, mem_total=70 * GIB)
    with Probe(tmp_path, world(slice_, values={"mem_total": 140 * GIB})) as probe:
        (only,) = probe.tick().gpu.mig or ()
    assert only.profile == "1c.3g.70gb"


@pytest.mark.parametrize(
    ("size", "total_bytes", "profile"),
    [
        (MigSize(1, 1, 4864), 40 * GIB - 2**27, "1g.5gb"),
        (MigSize(1, 1, 9856), 40 * GIB - 2**27, "1g.10gb"),
        (MigSize(2, 2, 9856), 40 * GIB - 2**27, "2g.10gb"),
        (MigSize(3, 3, 19968), 40 * GIB - 2**27, "3g.20gb"),
        (MigSize(3, 1, 19968), 40 * GIB - 2**27, "1c.3g.20gb"),
        (MigSize(7, 7, 40192), 40 * GIB - 2**27, "7g.40gb"),
    ],
)
def test_profiles_by_size(size: MigSize, total_bytes: int, profile: str) -> None:
    assert profile_of(size, total_bytes) == profile
