"""Each fault of a GPU as the driver shows it, and what is told of it. A GPU in order gives no incident."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from collectors.nvml.health.watch import MOST_AT_ONCE
from dutycycle.contract.health.changes import hit_pods
from dutycycle.contract.health.verdict import fold
from dutycycle.contract.records.health import GpuEvent, GpuFacts, HitPod
from dutycycle.contract.records.samples import Allocation, Gpu
from tests.support.fakes.nvml.probe import Answer, Probe
from tests.support.fakes.nvml.scenario import FakeEvent, FakeGpu, FakeMig, FakeProcess, Scenario, Signal

SOON_S = 0.05


def world(*gpus: FakeGpu, **changes: Any) -> Scenario:
    return Scenario(gpus=gpus or [FakeGpu(uuid="GPU-a", **changes)])


def incidents(answers: Sequence[Answer]) -> list[tuple[str, str, int | None, int]]:
    return [
        (event.gpu, event.kind, event.code, event.count)
        for answer in answers
        for event in answer.events
        if event.kind != "state"
    ]


def until_event(probe: Probe, wanted: Callable[[GpuEvent], bool], most_s: float = 120) -> list[Answer]:
    """Ticks until an event comes that is wanted."""
    answers, end_s = [], time.monotonic() + most_s
    while time.monotonic() < end_s:
        answers.append(probe.tick(after_s=0.1))
        if any(wanted(event) for event in answers[-1].events):
            return answers
        time.sleep(SOON_S)
    pytest.fail(f"no such event: {incidents(answers)}")


def test_the_state_is_told_at_the_start_and_again_when_it_is_time(tmp_path: Path) -> None:
    with Probe(tmp_path, world(fields={3: 2, 230: 0})) as probe:
        first, *quiet = [probe.tick() for _ in range(25)]
        later = [probe.tick(after_s=60) for _ in range(11)]
    (event,) = first.events
    assert (event.kind, event.severity, event.pods, event.seq) == ("state", "info", None, 1)
    assert event.facts == GpuFacts(
        model="NVIDIA H200", serial="1653323014211", bus_id="00000000:18:00.0", driver="570.86.15",
        ecc=True, mig=False, persistence=True, compute_mode="default",
    )  # fmt: skip
    counters = event.counters
    assert counters is not None
    assert (counters.ecc_corrected, counters.ecc_uncorrected, counters.recovery_action) == (2, 0, 0)
    assert (counters.nvlinks, counters.nvlinks_active, counters.nvlink_errors) == (18, 18, None)
    assert (counters.fabric_state, counters.fabric_health, counters.pages_retired) == (3, 1, None)
    assert (counters.banks_low, counters.banks_exhausted, counters.ecc_uncorrected_sram) == (0, 0, None)
    assert [one.events for one in quiet] == [[]] * 24
    assert sum(len(one.events) for one in later) == 1


def test_an_xid_in_the_middle_of_a_job_names_its_pod(tmp_path: Path) -> None:
    # What an Xid kills is gone at the tick in which it is heard of.
    job = FakeProcess(pid=7, util=90, until_s=3.0)
    killed = world(processes=[job], events=[FakeEvent(data=31, at_s=3.0)])
    with Probe(tmp_path, killed, pods={7: ("4f0c", "c1")}) as probe:
        answers = until_event(probe, lambda event: event.kind == "xid")
    (event,) = [one for one in answers[-1].events if one.kind == "xid"]
    assert [pod.uid for pod in event.pods or ()] == ["4f0c"]
    assert (event.code, event.severity) == (31, "application")
    assert event.name == "Xid 31: GPU memory page fault"
    assert event.action == "restart the application; it used memory that it did not have"
    assert event.counters is not None


NAMED = Allocation(namespace="ml", pod="bert-0")


@pytest.mark.parametrize(
    ("allocated", "hit"),
    [(None, None), ((), ()), ((NAMED,), None),
     ((NAMED, replace(NAMED, pod_uid="4f0c")), (HitPod(uid="4f0c", namespace="ml", name="bert-0"),))],
    ids=["not told", "nobody", "no uid", "one of two"],
)  # fmt: skip
def test_a_gpu_that_is_given_to_a_pod_without_its_uid_is_not_nobodys(
    allocated: tuple[Allocation, ...] | None, hit: tuple[HitPod, ...] | None
) -> None:
    assert hit_pods(Gpu(uuid="GPU-1", index=0, allocated=allocated)) == hit


PAST = tuple(number / 4 for number in range(240))
"""An event every quarter of a second of a minute: one of them is soon, whenever the library was loaded."""


def test_every_xid_comes_once_with_its_number(tmp_path: Path) -> None:
    gpus = [FakeGpu(uuid=f"GPU-{name}", events=[FakeEvent(data=code, at_s=2.0)] * 3)
            for name, code in (("a", 79), ("b", 13))]  # fmt: skip
    with Probe(tmp_path, world(*gpus)) as probe:
        answers = until_event(probe, lambda event: event.code == 79)
        answers += [probe.tick() for _ in range(3)]
    assert sorted(incidents(answers)) == [("GPU-a", "xid", 79, 3), ("GPU-b", "xid", 13, 3)]


def test_more_events_than_a_tick_takes_come_with_the_next(tmp_path: Path) -> None:
    storm = [FakeEvent(data=13, at_s=2.0)] * (MOST_AT_ONCE + 100)
    fatal = FakeGpu(uuid="GPU-b", events=[FakeEvent(data=79, at_s=2.5)])
    with Probe(tmp_path, world(FakeGpu(uuid="GPU-a", events=storm), fatal)) as probe:
        answers = until_event(probe, lambda event: event.code == 79)
    counts = {code: count for _, _, code, count in incidents(answers[-3:-1])}
    assert sum(count for _, _, code, count in incidents(answers) if code == 13) == MOST_AT_ONCE + 100
    assert max(count for _, _, _, count in incidents(answers)) <= MOST_AT_ONCE, counts


@pytest.mark.parametrize(
    ("data", "code", "name"),
    [
        (0, 0, "Xid 0: Xid that is not in the catalogue"),
        (999, 999, "Xid 999: the driver does not say which"),
        (2.0**64 - 2**12, 999, "Xid 999: the driver does not say which"),  # more than a database holds
    ],
)
def test_an_xid_that_nobody_knows_is_one_to_watch(tmp_path: Path, data: float, code: int, name: str) -> None:
    with Probe(tmp_path, world(events=[FakeEvent(data=data, at_s=2.0)])) as probe:
        answers = until_event(probe, lambda event: event.kind == "xid")
    (event,) = [event for event in answers[-1].events if event.kind == "xid"]
    assert (event.code, event.name, event.severity) == (code, name, "unknown")
    assert fold(None, event).level == "watch"


@pytest.mark.parametrize(
    "broken",
    [
        {"4 type=9": 3},  # a type of value that is newer than the binding
        {"4 type=0": "nan"},
        {"4 type=4": -1},
        {"4": 1.8e19},  # more than a record holds
        {"91": 4e9, "4 type=9": 0},  # links without end
    ],
    ids=["type", "nan", "negative", "huge", "links"],
)
def test_a_counter_that_is_no_number_is_absent_and_the_rest_is_there(
    tmp_path: Path, broken: dict[int | str, Signal]
) -> None:
    with Probe(tmp_path, world(fields={**broken, 143: 2})) as probe:
        answer = probe.tick()
    (event,) = answer.events
    assert event.counters is not None
    assert (event.counters.ecc_uncorrected, event.counters.rows_remapped_uncorrected) == (None, 2)
    assert answer.gpu.power_w == 80


def test_a_sum_of_which_a_part_could_not_be_read_is_no_other_sum(tmp_path: Path) -> None:
    values: dict[int | str, Signal] = {29: 3, 30: 2, 38: 7, 45: 1, 143: 1}
    steady = FakeGpu(uuid="GPU-a", fields=values)
    broken = FakeGpu(
        uuid="GPU-a", fields=values,
        errors={"field:29": "TIMEOUT", "field:38": "TIMEOUT", "field:143": "TIMEOUT"},
    )  # fmt: skip
    grown = FakeGpu(uuid="GPU-a", fields={**values, 30: 3, 143: 2})
    with Probe(tmp_path, world(steady)) as probe:
        told = []
        for gpu in (steady, broken, grown):
            probe.world(world(gpu))
            told.append([probe.tick(after_s=600) for _ in range(6)])
    states = [[event.counters for answer in answers for event in answer.events][-1] for answers in told]
    assert [(state.pages_retired, state.nvlink_errors) for state in states if state] == [
        (5, 8), (None, None), (6, 8),
    ]  # fmt: skip
    assert incidents([answer for answers in told for answer in answers]) == [
        ("GPU-a", "rows_remapped", None, 1), ("GPU-a", "pages_retired", None, 1),
    ]  # fmt: skip


def test_totals_of_links_that_could_not_be_read_once_are_no_other_sum(tmp_path: Path) -> None:
    values: dict[int | str, Signal] = {38: 7, 45: 1, "161 scope=3": 2}
    steady = FakeGpu(uuid="GPU-a", fields=values)
    broken = FakeGpu(uuid="GPU-a", fields=values, errors={"nvmlDeviceGetFieldValues": "TIMEOUT"})
    told = []
    with Probe(tmp_path, world(steady)) as probe:
        for gpu in (steady, broken, steady):
            probe.world(world(gpu))
            told.append([probe.tick(after_s=600) for _ in range(6)])
    states = [[event.counters for answer in answers for event in answer.events][-1] for answers in told]
    assert [state.nvlink_errors for state in states if state] == [8, None, 8]
    assert incidents([answer for answers in told for answer in answers]) == []


def test_what_a_gpu_is_is_read_anew_when_the_library_was_opened_anew(tmp_path: Path) -> None:
    # Such as its mode of ECC, which another one waits for a reset; its handle may be that of before.
    with Probe(tmp_path, world()) as probe:
        probe.tick()
        probe.world(world(errors={"*": "GPU_IS_LOST"}))
        probe.tick()
        probe.world(world(values={"ecc": 0}))
        answers = [probe.tick(after_s=31), probe.tick(after_s=700)]
    facts = [event.facts for answer in answers for event in answer.events if event.facts is not None]
    assert [fact.ecc for fact in facts][-1:] == [False]


def test_an_xid_of_a_slice_names_the_slice(tmp_path: Path) -> None:
    gpu = FakeGpu(uuid="GPU-a", values={"mig_mode": 1}, mig=[FakeMig(index=0, uuid="MIG-1", gi=5)],
                  events=[FakeEvent(data=43, at_s=2.0, gi=5, ci=0)])  # fmt: skip
    with Probe(tmp_path, world(gpu)) as probe:
        answers = until_event(probe, lambda event: event.kind == "xid")
    assert [event.mig for event in answers[-1].events if event.kind == "xid"] == ["MIG-1"]


def test_uncorrectable_errors_are_told_by_where_they_were(tmp_path: Path) -> None:
    errors = world(fields={4: 3, 5: 9, 6: 7}, values={"ecc_sram": 2, "compute_mode": 3})
    with Probe(tmp_path, errors) as probe:
        (event,) = probe.tick(calls=["nvmlDeviceGetMemoryErrorCounter"]).events
    counters, facts = event.counters, event.facts
    assert counters is not None
    assert facts is not None
    assert (counters.ecc_uncorrected_dram, counters.ecc_uncorrected_sram) == (1, 2)
    assert (counters.ecc_lifetime_corrected, counters.ecc_lifetime_uncorrected) == (9, 7)
    assert (counters.ecc_lifetime_uncorrected_dram, counters.ecc_lifetime_uncorrected_sram) == (5, 2)
    assert facts.compute_mode == "exclusive_process"


def test_in_mig_mode_spare_rows_are_the_only_sign(tmp_path: Path) -> None:
    sliced = {"mig_mode": 1, "banks_none": 1, "banks_low": 4}
    refused = {f"field:{number}": "NOT_SUPPORTED" for number in (142, 143, 144, 145)}
    with Probe(tmp_path, world(values=sliced, errors=refused)) as probe:
        (event,) = probe.tick().events
    counters = event.counters
    assert counters is not None
    assert (counters.remap_failed, counters.banks_low, counters.banks_exhausted) == (None, 4, 1)
    health = fold(None, event)
    assert (health.level, health.reason) == (
        "watch", "banks of memory without a row left to replace another: 1"
    )  # fmt: skip


COUNTERS: dict[str, tuple[dict[int | str, Any], list[tuple[str, int | None, int]]]] = {
    "uncorrectable errors": ({4: 3}, [("ecc_uncorrected", None, 3)]),
    "a remapped row, and it waits": (
        {143: 1, 144: 1},
        [("rows_remapped", None, 1), ("remap_pending", None, 1)],
    ),
    "a row that could not be remapped": ({145: 1}, [("remap_failed", None, 1)]),
    "a recovery action": ({230: 2}, [("recovery_action", 2, 1)]),
    "dead links": ({"165 scope=3": 0, "165 scope=7": 0}, [("nvlink_down", None, 2)]),
    "corrected errors": ({3: 500}, []),
    "links that sleep": ({"165 scope=3": 2}, []),
}


@pytest.mark.parametrize(("fields", "expected"), COUNTERS.values(), ids=COUNTERS)
def test_a_counter_that_moves(
    tmp_path: Path, fields: dict[int | str, Any], expected: list[tuple[str, int | None, int]]
) -> None:
    with Probe(tmp_path, world()) as probe:
        before = probe.tick()
        probe.world(world(fields=fields))
        answers = [probe.tick() for _ in range(61)]
    assert incidents([before]) == []
    assert incidents(answers) == [("GPU-a", *one) for one in expected]


@pytest.mark.parametrize("field", [3, 4, 142, 143, 144, 145, 230, 91, 165])
@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "UNKNOWN"])
def test_a_counter_that_fails_is_absent_and_the_others_are_read(
    tmp_path: Path, field: int, code: str
) -> None:
    with Probe(tmp_path, world(fields={4: 1}, errors={f"field:{field}": code})) as probe:
        answers = [probe.tick() for _ in range(12)]
    (event,) = answers[0].events
    counters = event.counters
    assert counters is not None
    assert counters.ecc_uncorrected == (None if field == 4 else 1)
    assert counters.recovery_action == (None if field == 230 else 0)
    assert counters.nvlinks_active == (None if field in (91, 165) else 18)
    assert incidents(answers) == []


@pytest.mark.parametrize("code", ["GPU_IS_LOST", "RESET_REQUIRED"])
@pytest.mark.parametrize("function", ["*", "field:230", "nvmlDeviceGetGpuFabricInfoV"])
def test_a_lost_gpu_is_told_once_and_again_when_it_is_back(tmp_path: Path, code: str, function: str) -> None:
    healthy = [FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")]
    broken = [healthy[0], FakeGpu(uuid="GPU-b", errors={function: code})]
    with Probe(tmp_path, world(*healthy)) as probe:
        probe.tick()
        probe.world(world(*broken))
        lost = [probe.tick() for _ in range(12)]
        probe.world(world(*healthy))
        back = probe.tick(after_s=60)
    kind = ("GPU-b", "xid", 79, 1) if code == "GPU_IS_LOST" else ("GPU-b", "reset_required", None, 1)
    assert incidents(lost) == [kind]
    (event,) = [one for answer in lost for one in answer.events if one.kind != "state"]
    assert (event.inferred, event.index) == (True if code == "GPU_IS_LOST" else None, 1)
    assert incidents([back]) == [("GPU-b", "returned", None, 1)]


def test_a_lost_gpu_is_spoken_of_as_long_as_it_is_there(tmp_path: Path) -> None:
    broken = [FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b", errors={"*": "GPU_IS_LOST"})]
    with Probe(tmp_path, world(FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b"))) as probe:
        probe.tick()
        probe.world(world(*broken))
        answers = [probe.tick(after_s=60) for _ in range(12)]
    states = [one.gpu for answer in answers for one in answer.events if one.kind == "state"]
    assert states == ["GPU-a", "GPU-b"]
    assert incidents(answers) == [("GPU-b", "xid", 79, 1)]


def test_a_gpu_that_is_dead_at_the_start_is_told_by_its_index(tmp_path: Path) -> None:
    dead = FakeGpu(uuid="GPU-b", errors={"nvmlDeviceGetHandleByIndex_v2": "GPU_IS_LOST"})
    with Probe(tmp_path, world(FakeGpu(uuid="GPU-a"), dead)) as probe:
        answers = [probe.tick() for _ in range(3)]
    assert incidents(answers) == [("GPU 1", "xid", 79, 1)]


def test_an_xid_79_of_the_driver_is_not_told_again_where_the_gpu_is_lost(tmp_path: Path) -> None:
    gpu = FakeGpu(uuid="GPU-a", events=[FakeEvent(data=79, at_s=2.0)], errors={"*": "GPU_IS_LOST from=2.0"})
    with Probe(tmp_path, world(gpu, FakeGpu(uuid="GPU-b"))) as probe:
        answers = until_event(probe, lambda event: event.code == 79)
        answers += [probe.tick() for _ in range(5)]
    assert incidents(answers) == [("GPU-a", "xid", 79, 1)]


def test_a_driver_that_says_79_after_the_gpu_was_lost_says_nothing_new(tmp_path: Path) -> None:
    gpu = FakeGpu(
        uuid="GPU-a",
        events=[FakeEvent(data=79, at_s=3.0), FakeEvent(data=13, at_s=3.0)],
        errors={"*": "GPU_IS_LOST from=2.0"},
    )
    with Probe(tmp_path, world(gpu, FakeGpu(uuid="GPU-b"))) as probe:
        answers = until_event(probe, lambda event: event.code == 13)
    assert incidents(answers) == [("GPU-a", "xid", 79, 1), ("GPU-a", "xid", 13, 1)]


def test_a_gpu_that_is_pulled_out_is_missing(tmp_path: Path) -> None:
    both = [FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")]
    with Probe(tmp_path, Scenario(gpus=both, live=True)) as probe:
        probe.tick()
        probe.world(Scenario(gpus=both[:1], live=True))
        answers = [probe.tick() for _ in range(3)]
    assert incidents(answers) == [("GPU-b", "missing", None, 1)]


@pytest.mark.parametrize(
    "without",
    [
        ["nvmlEventSetCreate"],
        ["nvmlDeviceGetSupportedEventTypes"],
        ["nvmlEventSetWait_v2"],
        ["nvmlDeviceGetFieldValues"],
        ["nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetSerial", "nvmlDeviceGetPciInfo_v3"],
    ],
)
def test_an_old_driver_says_once_what_it_lacks_and_the_rest_is_read(
    tmp_path: Path, without: list[str]
) -> None:
    with Probe(tmp_path, world(), without=without) as probe:
        answers = [probe.tick() for _ in range(12)]
    assert all(answer.gpu.power_w == 80 for answer in answers)
    assert incidents(answers) == []
    counted = [
        n for (name, labels), n in answers[-1].counts.items() if labels[:1] in (("events",), ("health",))
    ]
    assert set(counted) <= {1} or "nvmlEventSetWait_v2" in without


def test_a_driver_without_a_summary_of_the_fabric(tmp_path: Path) -> None:
    with Probe(tmp_path, world(values={"fabric_version": 2})) as probe:
        (event,) = probe.tick().events
    assert event.counters is not None
    assert (event.counters.fabric_state, event.counters.fabric_health) == (3, None)


def test_types_of_events_that_are_not_supported_are_not_registered(tmp_path: Path) -> None:
    gpu = FakeGpu(uuid="GPU-a", values={"event_types": 8}, events=[FakeEvent(data=48, at_s=2.0)])
    with Probe(tmp_path, world(gpu)) as probe:
        answers = until_event(probe, lambda event: event.code == 48)
    assert incidents(answers) == [("GPU-a", "xid", 48, 1)]
    assert not any(labels[:1] == ("events",) for _, labels in answers[-1].counts)


def test_events_go_on_after_the_wait_has_failed(tmp_path: Path) -> None:
    events = [FakeEvent(data=48, at_s=at) for at in PAST]
    failing = Scenario(gpus=[FakeGpu(uuid="GPU-a")], errors={"nvmlEventSetWait_v2": "UNKNOWN"})
    with Probe(tmp_path, failing) as probe:
        failed = probe.tick()
        probe.world(world(events=events))
        answers = until_event(probe, lambda event: event.code == 48)
    assert failed.counts["not_measured", ("events", "unknown_error")] == 1
    assert failed.gpu.power_w == 80
    assert incidents(answers)


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    calls = ["nvmlEventSetCreate", "nvmlEventSetWait_v2", "nvmlDeviceGetGpuFabricInfoV"]
    with Probe(tmp_path, world(fields={4: 9}), health=False) as probe:
        answers = [probe.tick(calls=calls) for _ in range(12)]
    assert [one.events for one in answers] == [[]] * 12
    assert set(answers[-1].calls.values()) == {0}


def test_what_it_costs_in_calls(tmp_path: Path) -> None:
    calls = ["nvmlEventSetWait_v2", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetFieldValues"]
    gpus = [FakeGpu(uuid=f"GPU-{number}") for number in range(8)]
    with Probe(tmp_path, world(*gpus)) as probe:
        probe.tick()
        before = probe.tick(calls=calls).calls
        after = [probe.tick(calls=calls).calls for _ in range(60)][-1]
    made = {name: after[name] - before[name] for name in calls}
    # One look at the events a tick; a GPU's counters in six ticks once, its links in sixty.
    assert made == {
        "nvmlEventSetWait_v2": 60,
        "nvmlDeviceGetGpuFabricInfoV": 80,
        "nvmlDeviceGetFieldValues": 60 * 8 + 80 + 8,
    }
