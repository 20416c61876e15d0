"""The hour of a node's GPUs: who has how much of which, and its energy."""

from itertools import pairwise
from typing import Any

import orjson
import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.hours import GpuHour, UsageHour
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.records.samples import NvmlSample
from streams.operators.columns.block import TickBlock
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.usage.bank import UsageBank
from streams.operators.usage.table import HourTable
from tests.support.data.samples import gpu, nvml, process, record

CONFIG = NodeConfig(topic="nvml-samples", source="nvml")
H = 3_600_000


def hours(samples: list[dict[str, Any]], *, restart_at: int | None = None) -> list[UsageHour]:
    """The usage of node ``a``, all that is written of it."""
    operator = NodeOperator(CONFIG, "a", NvmlReader("a"))
    outs: list[Any] = []
    for offset, sample in enumerate(samples):
        if offset == restart_at:
            snapshot = operator.snapshot()
            operator = NodeOperator(CONFIG, "a", NvmlReader("a"))
            operator.restore(snapshot)
        outs += operator.update(record("nvml-samples", "a", sample, offset))
    outs += operator.close()
    written = [one for one in outs if isinstance(one, ProducerRecord) and one.topic == "usage"]
    return [decode(UsageHour, one.value or b"", "usage") for one in written]


def newest(samples: list[dict[str, Any]]) -> dict[tuple[int, str | None, str], GpuHour]:
    """The last row of each hour, pod and GPU."""
    return {(one.hour_ms, row.pod_uid, row.gpu): row for one in hours(samples) for row in one.gpus}


def runs(gpus: list[dict[str, Any]], seconds: int = 100, begin: int = 0) -> list[dict[str, Any]]:
    """A sample a second of the same GPUs, whose ``energy_j`` grows by that much each second."""
    return [
        nvml(
            at,
            [{**one, "energy_j": 1000 + at * one["energy_j"]} if "energy_j" in one else one for one in gpus],
        )
        for at in range(begin, begin + seconds)
    ]


def given(*uids: str, **fields: Any) -> list[dict[str, Any]]:
    """What the kubelet gave the GPU to."""
    return [{"pod_uid": uid, "namespace": "n", "pod": uid, **fields} for uid in uids]


A, B = process(1, "A", 60), process(2, "B", 20)
DEVICE = gpu(0, gpu_util_pct=50, energy_j=10, processes=[A])
SLICES = [{"uuid": "m1", "mem_total_bytes": 30, "gpu_util_pct": 50}, {"uuid": "m2", "mem_total_bytes": 10}]
HALF = [{"uuid": "m1", "mem_total_bytes": 30, "gpu_util_pct": 50},
        {"uuid": "m2", "mem_total_bytes": 10, "gpu_util_pct": 50}]  # fmt: skip
CASES: dict[str, tuple[dict[str, Any], dict[str | None, tuple[float, ...]]]] = {
    # name: (GPU, {pod: (GPU seconds, of which known, busy, joules)}) of 100 s at 9.9 W on average
    "nobody": ({}, {None: (100, 100, 80, 990)}),
    "alone, its processes are seen": ({"processes": [A]}, {"A": (100, 100, 80, 990)}),
    "alone, it was given": ({"allocated": given("A")}, {"A": (100, 100, 80, 990)}),
    "two: busy by use, idle evenly": (
        {"processes": [A, B]},
        {"A": (70, 70, 60, 742.5), "B": (30, 30, 20, 247.5)},
    ),
    "two, of which one has no process": (
        {"processes": [A], "allocated": given("A", "B", shared=True)},
        {"A": (90, 90, 80, 990), "B": (10, 10, 0, 0)},
    ),
    "two, of which one has no process, and the driver saw none compute": (
        {"processes": [process(1, "A", 0)], "allocated": given("A", "B", shared=True)},
        {"A": (90, 90, 80, 990), "B": (10, 10, 0, 0)},
    ),
    "two were given it, one of them is known by name alone": (
        {"allocated": [*given("A"), {"namespace": "n", "pod": "b"}]},
        {"A": (50, 0, 0, 495), None: (50, 0, 0, 495)},
    ),
    "a pod and a process of nobody": (
        {"processes": [A, process(3, None, 20)]},
        {"A": (70, 70, 60, 742.5), None: (30, 30, 20, 247.5)},
    ),
    "processes that do more than their GPU, and one of nobody": (
        {"gpu_util_pct": 50, "processes": [A, process(3, None, 20)]},
        {"A": (75, 75, 50, 990), None: (25, 25, 0, 0)},
    ),
    "two, and nothing tells what each does": (
        {"allocated": given("A", "B")},
        {"A": (50, 0, 0, 495), "B": (50, 0, 0, 495)},
    ),
    "two, whose use the driver does not tell": (
        {"processes": [process(1, "A"), process(2, "B")]},
        {"A": (50, 0, 0, 495), "B": (50, 0, 0, 495)},
    ),
    "two that do nothing": (
        {"gpu_util_pct": 0, "processes": [process(1, "A", 0), process(2, "B", 0)]},
        {"A": (50, 50, 0, 495), "B": (50, 50, 0, 495)},
    ),
    "utilization is not known": (
        {"gpu_util_pct": None, "processes": [process(1, "A")]},
        {"A": (100, 0, 0, 990)},
    ),
    "a slice, the other is nobody's": (
        {"gpu_util_pct": None, "mig": HALF, "allocated": given("A", mig="m1")},
        {"A": (75, 75, 37.5, 742.5), None: (25, 25, 12.5, 247.5)},
    ),
    "two were given it, the one without a process is known by name alone": (
        {"processes": [process(1, "A", 30)], "allocated": [*given("A"), {"namespace": "n", "pod": "b"}]},
        {"A": (90, 90, 80, 990), None: (10, 10, 0, 0)},
    ),
    "two were given it, both are known by name alone, and one by its process too": (
        {"processes": [process(1, "A", 30)], "allocated": [{"namespace": "n", "pod": pod} for pod in "ab"]},
        {"A": (90, 90, 80, 990), None: (10, 10, 0, 0)},
    ),
    "one was given it, known by name alone, and has a process": (
        {"processes": [process(1, "A", 30)], "allocated": [{"namespace": "n", "pod": "a"}] * 2},
        {"A": (100, 100, 80, 990)},
    ),
    "two were given a slice, one of them is known by name alone": (
        {"gpu_util_pct": None, "mig": HALF,
         "allocated": [*given("A", mig="m1"), {"namespace": "n", "pod": "b", "mig": "m1"}]},
        {"A": (37.5, 0, 0, 371.25), None: (62.5, 25, 12.5, 618.75)},
    ),
    "slices, of one nothing is known": (
        {"gpu_util_pct": None, "mig": SLICES, "allocated": given("A", mig="m1") + given("B", mig="m2")},
        {"A": (75, 75, 37.5, 742.5), "B": (25, 0, 0, 247.5)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_gpus_time_and_energy_are_divided(case: str) -> None:
    fields, wanted = CASES[case]
    fields = {"gpu_util_pct": 80, "energy_j": 10} | fields
    rows = newest(runs([gpu(0, **{name: value for name, value in fields.items() if value is not None})]))
    found = {pod: (one.gpu_s, one.known_s, one.busy_s, one.energy_j) for (_, pod, _), one in rows.items()}
    assert set(found) == set(wanted)
    for pod, figures in wanted.items():
        assert found[pod] == pytest.approx(figures), pod


ACTIVE = {"sm_active_pct": 40, "tensor_active_pct": 10}
ACTIVITY: dict[str, tuple[dict[str, Any], dict[str | None, tuple[float | None, ...]]]] = {
    # name: (GPU, {pod: (SM-seconds, of so many, tensor-seconds, of so many)}) of 100 s
    "no counters": ({"processes": [A]}, {"A": (None, None, None, None)}),
    "nobody": (ACTIVE, {None: (40, 100, 10, 100)}),
    "alone": (ACTIVE | {"processes": [A]}, {"A": (40, 100, 10, 100)}),
    "idle is 0, and known": (
        {"gpu_util_pct": 0, "sm_active_pct": 0, "processes": [A]},
        {"A": (0, 100, None, None)},
    ),
    "utilization is not known": (
        ACTIVE | {"gpu_util_pct": None, "processes": [process(1, "A")]},
        {"A": (40, 100, 10, 100)},
    ),
    "two: by use": (
        {"tensor_active_pct": 10, "processes": [A, B]},
        {"A": (None, None, 7.5, 70), "B": (None, None, 2.5, 30)},
    ),
    "two, and nothing tells what each does": (
        ACTIVE | {"allocated": given("A", "B")},
        {"A": (None, None, None, None), "B": (None, None, None, None)},
    ),
    "slices": (
        {
            "gpu_util_pct": None, "allocated": given("A", mig="m1") + given("B", mig="m2"),
            "mig": [HALF[0] | ACTIVE, HALF[1]],
        },
        {"A": (30, 75, 7.5, 75), "B": (None, None, None, None)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ACTIVITY)
def test_what_multiprocessors_and_tensor_cores_did_is_divided_and_else_not_known(case: str) -> None:
    fields, wanted = ACTIVITY[case]
    fields = {"gpu_util_pct": 80} | fields
    rows = newest(runs([gpu(0, **{name: value for name, value in fields.items() if value is not None})]))
    found = {
        pod: (one.sm_s, one.sm_known_s, one.tensor_s, one.tensor_known_s) for (_, pod, _), one in rows.items()
    }
    assert set(found) == set(wanted)
    for pod, figures in wanted.items():
        assert found[pod] == pytest.approx(figures), pod


BUSY = {"gpu_util_pct": 100, "processes": [A], "power_limit_w": 700}
WORKING: dict[str, tuple[dict[str, Any], dict[str | None, tuple[float | None, float | None]]]] = {
    # name: (what is measured for 100 s, {pod: working seconds, of how many they are known})
    "at two thirds of its power": (BUSY | {"power_w": 460}, {"A": (100, 100)}),
    "spins at a fifth of its power": (BUSY | {"power_w": 140}, {"A": (0, 100)}),
    "a fifth of the time, at little power": (
        BUSY | {"gpu_util_pct": 20, "power_w": 120}, {"A": (20, 100)},
    ),
    "a fifth of the time, at what it draws at rest": (
        BUSY | {"gpu_util_pct": 20, "power_w": 72}, {"A": (0, 100)},
    ),
    "at a fifth of its power on all multiprocessors": (
        BUSY | {"power_w": 140, "sm_active_pct": 90}, {"A": (100, 100)},
    ),
    "without a limit, few multiprocessors": (
        {"gpu_util_pct": 100, "processes": [A], "sm_active_pct": 12}, {"A": (0, 100)},
    ),
    "nothing says it": ({"gpu_util_pct": 100, "processes": [A], "power_w": 460}, {"A": (None, None)}),
    "two: by use, as busy time": (
        BUSY | {"gpu_util_pct": 80, "power_w": 460, "processes": [A, B]}, {"A": (60, 70), "B": (20, 30)},
    ),
    "slices: power is that of all": (
        {
            "power_w": 460, "power_limit_w": 700, "allocated": given("A", mig="m1") + given("B", mig="m2"),
            "mig": [HALF[0] | ACTIVE, HALF[1]],
        },
        {"A": (37.5, 75), "B": (None, None)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WORKING)
def test_busy_time_in_which_a_gpu_only_waits_is_no_work(case: str) -> None:
    fields, wanted = WORKING[case]
    rows = newest(runs([gpu(0, **fields)]))
    found = {pod: (row.working_s, row.working_known_s) for (_, pod, _), row in rows.items() if row.gpu_s}
    assert set(found) == set(wanted)
    for pod, figures in wanted.items():
        assert found[pod] == pytest.approx(figures), pod


def test_a_part_of_the_hour_that_nobody_counted_is_no_time_at_rest() -> None:
    [row] = newest(
        runs([gpu(0, gpu_util_pct=80)], 30) + runs([gpu(0, gpu_util_pct=80, sm_active_pct=50)], 10, 30)
    ).values()
    assert (row.known_s, row.sm_s, row.sm_known_s) == (40, 5, 10)


def test_an_hour_ends_where_the_clocks_does_and_each_row_says_all_of_it() -> None:
    begin = H // 1000 - 100  # the node's own moment is 36.7 s after the full minute
    samples = runs([gpu(0, gpu_util_pct=100, processes=[A])], 200, begin)
    rows = [(one.hour_ms, row.gpu_s) for one in hours(samples) for row in one.gpus]
    assert rows == [(0, 17), (0, 77), (0, 100), (H, 37), (H, 97), (H, 100)]


def test_what_changed_is_written_and_nothing_else() -> None:
    first = runs([gpu(0, gpu_util_pct=5, processes=[A]), gpu(1, gpu_util_pct=5)], 37)
    then = runs([gpu(1, gpu_util_pct=5)], 60, 37)
    assert [[row.gpu for row in one.gpus] for one in hours(first + then)] == [["GPU-1", "GPU-0"], ["GPU-1"]]


def test_a_node_that_goes_silent_loses_nothing_and_asking_changes_nothing() -> None:
    """A state that is stored brings what the ledger has not written, whenever that is."""
    samples = runs([gpu(0, gpu_util_pct=50, energy_j=7, processes=[A])], 150)
    asked, quiet = (NodeOperator(CONFIG, "a", NvmlReader("a")) for _ in range(2))
    for offset, sample in enumerate(samples):
        source = record("nvml-samples", "a", sample, offset)
        assert asked.update(source) == quiet.update(source)
        told = [decode(UsageHour, one.value or b"", "usage") for one in asked.unwritten()
                if isinstance(one, ProducerRecord) and one.topic == "usage"]  # fmt: skip
        assert [row.gpu_s for one in told for row in one.gpus] == [offset + 1]
    assert asked.snapshot() == quiet.snapshot()
    topics = [one.topic for one in asked.unwritten() if isinstance(one, ProducerRecord)]
    assert topics == ["usage", "node-peaks"]


def test_time_that_nobody_measured_is_not_guessed_and_its_energy_is_nobodys() -> None:
    device = gpu(0, gpu_util_pct=100, energy_j=10, processes=[A])
    rows = newest(runs([device], 10) + runs([device], 10, 100))
    assert rows[0, "A", "GPU-0"].gpu_s == 20
    assert rows[0, "A", "GPU-0"].energy_j == 180
    assert rows[0, None, "GPU-0"].energy_j == 910
    assert rows[0, None, "GPU-0"].gpu_s == 0


SILENT = {"is not in the samples": None, "has neither counter nor power": gpu(1, processes=[A])}


@pytest.mark.parametrize("restart_at", [None, 105])
@pytest.mark.parametrize("silent", SILENT.values(), ids=SILENT)
def test_the_energy_that_nobody_read_of_one_gpu_while_others_went_on_is_nobodys(
    silent: dict[str, Any] | None, restart_at: int | None
) -> None:
    other = gpu(0, gpu_util_pct=50, energy_j=300)
    samples = runs([other, gpu(1, energy_j=300, processes=[A])], 100)
    samples += runs([other] if silent is None else [other, silent], 1000, 100)
    samples += runs([other, gpu(1, energy_j=300, processes=[B])], 100, 1100)
    written = hours(samples, restart_at=restart_at)
    joules = {row.pod_uid: row.energy_j for one in written for row in one.gpus if row.gpu == "GPU-1"}
    assert joules == {"A": 99 * 300, "B": 99 * 300, None: 1001 * 300}


def test_after_a_gap_power_times_time_is_the_pods() -> None:
    """It is of the time of the tick alone."""
    device = gpu(0, power_w=300, processes=[A])
    rows = newest(runs([device], 10) + runs([device], 10, 100))
    assert {pod: row.energy_j for (_, pod, _), row in rows.items() if row.gpu_s} == {"A": 20 * 300}


def test_a_counter_that_is_back_after_a_gap_of_power_too_leaves_the_gap_to_nobody() -> None:
    def at(second: int, uid: str, **fields: Any) -> dict[str, Any]:
        return nvml(second, [gpu(0, processes=[process(1, uid, 1)], **fields)])

    samples = [at(0, "A", energy_j=1000), at(1, "A", energy_j=1300)]
    samples += [at(second, "A") for second in range(2, 100)]
    samples += [at(100, "B", power_w=300), at(101, "B", energy_j=31_300), at(102, "B", energy_j=31_600)]
    rows = newest(samples)
    assert {pod: row.energy_j for (_, pod, _), row in rows.items()} == {"A": 300, "B": 600, None: 29_700}


def test_a_counter_that_begins_anew_takes_nothing_away() -> None:
    joules = [5000, 5010, 20, 30]
    rows = newest([nvml(at, [gpu(0, energy_j=now)]) for at, now in enumerate(joules)])
    assert rows[0, None, "GPU-0"].energy_j == 20


FALLS = {
    "by half": [200_000],
    "by little": [400_299],
    "twice in a row": [200_000, 100_000],
    "and reads 0": [200_000, 0],
    "and fails": [200_000, None],
    "and stands still": [200_000, 200_000],
}


@pytest.mark.parametrize("power_w", [None, 300])
@pytest.mark.parametrize("fallen", FALLS.values(), ids=FALLS)
def test_a_counter_that_falls_and_comes_back_has_not_grown_twice(
    fallen: list[int | None], power_w: int | None
) -> None:
    back = 400_300 + 300 * (len(fallen) + 1)
    joules = [400_000, 400_300, *fallen, back, back + 300]
    power = {} if power_w is None else {"power_w": power_w}
    devices = [gpu(0, **power, **({} if now is None else {"energy_j": now})) for now in joules]
    rows = newest([nvml(at, [device]) for at, device in enumerate(devices)])
    assert rows[0, None, "GPU-0"].energy_j == back + 300 - 400_000


def test_without_a_counter_energy_is_that_of_the_power() -> None:
    assert newest(runs([gpu(0, power_w=300)], 10))[0, None, "GPU-0"].energy_j == 3000


def test_a_late_or_repeated_sample_adds_no_time() -> None:
    samples = runs([gpu(0, gpu_util_pct=100)], 20)
    disorder = [*samples[:5], samples[6], samples[5], samples[6], *samples[7:]]
    assert newest(disorder)[0, None, "GPU-0"].gpu_s == 20


def test_a_restart_changes_nothing() -> None:
    samples = runs([gpu(0, gpu_util_pct=37, energy_j=7, processes=[A, B])], 200)
    assert hours(samples, restart_at=77) == hours(samples)


Totals = dict[str, Any]
NO_USE = gpu(0, gpu_util_pct=80, energy_j=10)
ALL = {"gpu_busy_s": 80, "energy_j": 990}
TOLD: dict[str, tuple[list[dict[str, Any]], Totals, dict[tuple[str, str], Totals]]] = {
    # name: (samples, the GPU's totals, {(pod, how that is known): its totals on the GPU}) after 100 s
    "nobody": (runs([NO_USE]), ALL, {}),
    "alone": (
        runs([NO_USE | ACTIVE | {"processes": [A]}]),
        ALL | {"gpu_sm_s": 40, "gpu_tensor_s": 10, "gpu_working_s": 80},
        {("A", "measured"): ALL | {"gpu_s": 100, "gpu_sm_s": 40, "gpu_tensor_s": 10, "gpu_working_s": 80}},
    ),
    "two: by use, as in the hour": (
        runs([NO_USE | {"processes": [A, B]}]),
        ALL,
        {("A", "measured"): {"gpu_s": 70, "gpu_busy_s": 60, "energy_j": 742.5},
         ("B", "measured"): {"gpu_s": 30, "gpu_busy_s": 20, "energy_j": 247.5}},
    ),
    "nothing tells what each of two does, but what their GPU does": (
        runs([NO_USE | {"allocated": given("A", "B")}]),
        ALL,
        {(uid, "unknown"): {"gpu_s": 50, "energy_j": 495} for uid in "AB"},
    ),
    "slices, of which the driver tells nothing of the whole": (
        runs([gpu(0, energy_j=10, mig=HALF, allocated=given("A", mig="m1"))]),
        {"gpu_busy_s": 50, "energy_j": 990},
        {("A", "allocated"): {"gpu_s": 75, "gpu_busy_s": 37.5, "energy_j": 742.5}},
    ),
    "slices and the whole: no second counts twice": (
        runs([gpu(0, gpu_util_pct=50, energy_j=10, mig=HALF, allocated=given("A", mig="m1"))]),
        {"gpu_busy_s": 50, "energy_j": 990},
        {("A", "allocated"): {"gpu_s": 75, "gpu_busy_s": 37.5, "energy_j": 742.5}},
    ),
    "nothing is known but who has it": (
        runs([gpu(0, allocated=given("A"))]), {}, {("A", "allocated"): {"gpu_s": 100}},
    ),
    "idle is 0": (
        runs([gpu(0, gpu_util_pct=0, power_w=0, processes=[process(1, "A", 0)])]),
        {"gpu_busy_s": 0, "energy_j": 0},
        {("A", "measured"): {"gpu_s": 100, "gpu_busy_s": 0, "energy_j": 0}},
    ),
    "over the end of an hour": (
        runs([NO_USE | {"processes": [A]}], begin=H // 1000 - 50),
        ALL, {("A", "measured"): ALL | {"gpu_s": 100}},
    ),
    "given first, and seen then: its figure is partly the GPU's": (
        runs([NO_USE | {"allocated": given("A")}], 50, H // 1000 - 50)
        + runs([NO_USE | {"allocated": given("A"), "processes": [A]}], 50, H // 1000),
        ALL, {("A", "allocated"): ALL | {"gpu_s": 100}},
    ),
    "a gap: one tick of work, and its energy is the GPU's alone": (
        runs([NO_USE | {"processes": [A]}], 50) + runs([NO_USE | {"processes": [A]}], 50, 150),
        {"gpu_busy_s": 80, "energy_j": 1990},
        {("A", "measured"): {"gpu_s": 100, "gpu_busy_s": 80, "energy_j": 980}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("case", TOLD)
def test_what_the_series_count_is_in_the_nodes_part(case: str, restarted: bool) -> None:
    samples, of_gpu, of_pods = TOLD[case]
    operator = NodeOperator(CONFIG, "a", NvmlReader("a"))
    outs: list[Any] = []
    for offset, sample in enumerate(samples):
        if restarted and offset in (33, 50, 77):
            snapshot, operator = operator.snapshot(), NodeOperator(CONFIG, "a", NvmlReader("a"))
            operator.restore(snapshot)
        outs += operator.update(record("nvml-samples", "a", sample, offset)) + operator.flush()
    parts = [decode(NodePart, one.value or b"", one.topic) for one in outs + operator.close()
             if isinstance(one, ProducerRecord) and one.topic == "node-parts"]  # fmt: skip
    assert parts[-1].totals["GPU-0"] == pytest.approx(of_gpu)
    told = {(one.pod_uid, one.attribution): one.totals for one in parts[-1].pods}
    assert told.keys() == of_pods.keys()
    assert all(told[pod] == pytest.approx(totals) for pod, totals in of_pods.items())
    assert len({part.since_ms for part in parts}) == 1
    for before, after in pairwise(parts):
        assert all(after.totals["GPU-0"][name] >= amount for name, amount in before.totals["GPU-0"].items())


def test_totals_are_of_a_whole_life_and_begin_anew_after_a_pod_was_forgotten() -> None:
    bank, reader = UsageBank("a", "nvml"), NvmlReader("a")

    def feed(seconds: range) -> None:
        for at in seconds:
            tick = reader.read(decode(NvmlSample, orjson.dumps(runs([DEVICE], 1, at)[0]), "nvml-samples"))
            bank.advance(tick.ts_ms)
            bank.extend(TickBlock([tick]))

    feed(range(3500, 3700))  # over the end of an hour
    assert bank.totals()["A"] == pytest.approx({"gpu_s": 200, "gpu_busy_s": 100, "energy_j": 1990})
    bank.forget(["A"])
    assert bank.of_pods_on_gpus() == ()
    assert bank.totals()["A"] == pytest.approx({"gpu_s": 0, "gpu_busy_s": 0, "energy_j": 0})
    feed(range(3700, 3710))
    other = UsageBank("a", "nvml")
    other.restore(bank.snapshot())
    used = {"gpu_s": 10, "gpu_busy_s": 5, "energy_j": 100}
    assert other.totals()["A"] == pytest.approx(used)
    assert {one.pod_uid: one.totals for one in other.of_pods_on_gpus()}["A"] == pytest.approx(used)
    assert other.of_gpus()["GPU-0"] == pytest.approx({"gpu_busy_s": 105, "energy_j": 2090})


IDLE = {"gpu_util_pct": 0}
UNTOUCHED: dict[str, tuple[dict[str, Any], dict[str | None, float | None]]] = {
    # name: (GPU, {pod: seconds, of 100, in which it held the GPU without a process})
    "given, and never touched": ({**IDLE, "processes": [], "allocated": given("A")}, {"A": 100}),
    "given, where processes are not seen": ({**IDLE, "allocated": given("A")}, {"A": None}),
    "given, and a process waits": ({**IDLE, "processes": [A], "allocated": given("A")}, {"A": None}),
    "it works, though no process is seen": (
        {"gpu_util_pct": 30, "processes": [], "allocated": given("A")}, {"A": None},
    ),
    "whose process it is is not seen": (
        {**IDLE, "processes": [process(3, None, 0)], "allocated": given("A")}, {"A": None},
    ),
    "shared, and one has no process": (
        {"processes": [A], "allocated": given("A", "B", shared=True)}, {"A": None, "B": 10},
    ),
    "its utilization is not known": (
        {"gpu_util_pct": None, "processes": [], "allocated": given("A")}, {"A": None},
    ),
    "nobody has it": ({**IDLE, "processes": []}, {None: None}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_is_held_and_not_touched_is_a_class_of_its_own(
    fields: dict[str, Any], expected: dict[str | None, float | None]
) -> None:
    rows = newest(runs([{**gpu(0, gpu_util_pct=80, energy_j=10), **fields}]))
    found = {uid: row.untouched_s for (_, uid, _), row in rows.items() if row.gpu_s}
    assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("restart_at", [None, 60])
def test_it_counts_until_the_first_process_comes(restart_at: int | None) -> None:
    held = {**gpu(0, gpu_util_pct=0), "allocated": given("A")}
    samples = runs([{**held, "processes": []}], 40) + runs([{**held, "processes": [A]}], 60, 40)
    row = hours(samples, restart_at=restart_at)[-1].gpus[0]
    assert (row.gpu_s, row.untouched_s) == (100, 40)


def test_an_hour_of_an_earlier_release_which_knew_fewer_figures_is_refused() -> None:
    before = HourTable(9)
    before.rows([("A", "G")])
    with pytest.raises(ValueError, match="reshape"):
        HourTable(10).restore(before.snapshot())
