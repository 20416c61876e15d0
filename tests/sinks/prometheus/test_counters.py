"""Goal: busy seconds and joules are those of the driver, each once, and the same after a restart."""

from typing import Any

import pytest

from dutycycle.contract.codec import decode, encode, from_plain
from dutycycle.contract.metering import with_means
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.records.usage import NodeUsage
from sinks.prometheus.counters import NodeCounters
from tests.support.data.samples import gpu, nvml

P = [{"pid": 1, "pod_uid": "p", "gpu_util_pct": 50}]
START_MS = 1_700_000_000_000


def sample(seq: int, gpus: list[dict[str, Any]], at_s: float | None = None, **more: Any) -> NvmlSample:
    at_ms = START_MS + round(1000 * (seq if at_s is None else at_s))
    return from_plain(NvmlSample, nvml(seq, gpus, ts_ms=at_ms, **more), "nvml-samples")


def fed(*samples: NvmlSample) -> NodeCounters:
    node = NodeCounters()
    for offset, one in enumerate(samples):
        node.add(one, 0, offset)
    return node


def of_pod(node: NodeCounters, word: str = "measured", uuid: str = "GPU-0") -> Any:
    """Busy seconds and joules."""
    count = node.pods["p", uuid, word]
    return count.busy_s, count.energy_j


def test_utilization_and_energy_over_time() -> None:
    node = fed(*(sample(n, [gpu(gpu_util_pct=50, energy_j=1000 + 300 * n, processes=P)]) for n in range(11)))
    assert node.gpus["GPU-0"].busy_s == pytest.approx(5)
    assert node.gpus["GPU-0"].energy_j == 3000
    assert of_pod(node) == (pytest.approx(5), 3000)


def test_the_drivers_own_samples_count_and_not_the_last_of_them() -> None:
    """The poll sees 0 %: the kernels ran between two polls."""
    burst = [[-750, 100], [-500, 100], [-250, 0], [0, 0]]
    node = fed(*(sample(n, [gpu(gpu_util_pct=0, util_burst=burst, processes=P)]) for n in range(11)))
    assert node.gpus["GPU-0"].busy_s == pytest.approx(5)
    assert of_pod(node) == (pytest.approx(5), None), "and nothing is said of energy that nobody measures"


def test_a_sample_of_the_driver_is_about_a_second_at_most() -> None:
    """Its buffer was empty before, as that of an idle GPU is."""
    ticks = [
        sample(n, [gpu(gpu_util_pct=100, util_burst=[[0, 100]])], 5 * n, interval_ms=5000) for n in range(5)
    ]
    assert fed(*ticks).gpus["GPU-0"].busy_s == 4


def test_without_a_counter_the_power_is_integrated() -> None:
    node = fed(*(sample(n, [gpu(power_w=200, processes=[{"pid": 1, "pod_uid": "p"}])]) for n in range(4)))
    assert of_pod(node) == (None, 600)


def test_a_process_counts_where_the_device_does_not() -> None:
    assert of_pod(fed(*(sample(n, [gpu(processes=P)]) for n in range(5)))) == (2, None)


def test_a_shared_gpu() -> None:
    both = [{"pid": 1, "pod_uid": "p", "gpu_util_pct": 60}, {"pid": 2, "pod_uid": "q", "gpu_util_pct": 20}]
    node = fed(*(sample(n, [gpu(gpu_util_pct=75, energy_j=400 * n, processes=both)]) for n in range(11)))
    assert of_pod(node) == (pytest.approx(6), None)
    assert of_pod(node, "shared") == (None, pytest.approx(3000))
    assert node.gpus["GPU-0"].energy_j == 4000


def test_activity_is_counted_where_it_is_measured_and_absent_elsewhere() -> None:
    def work(seq: int, **fields: Any) -> NvmlSample:
        return sample(seq, [gpu(gpu_util_pct=100, processes=P, **fields), gpu(1, gpu_util_pct=100)])

    node = fed(work(0), *(work(n, sm_active_pct=40) for n in range(1, 11)), work(11))
    again = NodeCounters.of(decode(NodeUsage, encode(node.record("a", 12)), "usage"))
    for one in (node, again):
        assert one.gpus["GPU-0"].sm_s == pytest.approx(4)
        assert one.gpus["GPU-0"].tensor_s is None
        assert (one.gpus["GPU-1"].sm_s, one.gpus["GPU-1"].tensor_s) == (None, None)
        assert one.pods["p", "GPU-0", "measured"].sm_s == pytest.approx(4)
        assert one.pods["p", "GPU-0", "measured"].tensor_s is None


def test_activity_of_a_shared_gpu_is_divided_as_its_energy_is() -> None:
    both = [{"pid": 1, "pod_uid": "p", "gpu_util_pct": 60}, {"pid": 2, "pod_uid": "q", "gpu_util_pct": 20}]
    node = fed(*(sample(n, [gpu(gpu_util_pct=80, tensor_active_pct=40, processes=both)]) for n in range(11)))
    assert node.pods["p", "GPU-0", "shared"].tensor_s == pytest.approx(3)
    assert node.pods["q", "GPU-0", "shared"].tensor_s == pytest.approx(1)
    assert node.gpus["GPU-0"].tensor_s == pytest.approx(4)


def test_slices() -> None:
    mig = [
        {"uuid": "M1", "gpu_util_pct": 90, "mem_total_bytes": 1},
        {"uuid": "M2", "gpu_util_pct": 30, "mem_total_bytes": 1},
    ]
    given = [{"pod_uid": "p", "namespace": "n", "pod": "p", "mig": "M1"}]
    node = fed(*(sample(n, [gpu(energy_j=400 * n, mig=mig, allocated=given)]) for n in range(11)))
    assert of_pod(node, "allocated") == (pytest.approx(9), None)
    assert of_pod(node, "shared") == (None, pytest.approx(3000))


def test_unknown_is_not_zero() -> None:
    given = [{"pod_uid": one, "namespace": "n", "pod": one, "shared": True} for one in ("p", "q")]
    node = fed(*(sample(n, [gpu(gpu_util_pct=9, energy_j=n, allocated=given)]) for n in range(3)))
    assert not node.pods


def test_an_idle_pod_is_zero() -> None:
    given = [{"pod_uid": "p", "namespace": "n", "pod": "p"}]
    node = fed(*(sample(n, [gpu(gpu_util_pct=0, allocated=given)]) for n in range(3)))
    assert of_pod(node, "allocated") == (0, None)


GAPS = {
    "a gap: one interval of work, all of the energy": ([0, 1, 60, 61], 3.0, 6100, 200),
    "the clock goes back": ([0, 1, -50, -49], 3.0, 6100, 200),
    "slow ticks are no gap": ([0, 3, 6, 9], 9.0, 900, 900),
}


@pytest.mark.parametrize("case", GAPS.values(), ids=GAPS.keys())
def test_time_that_nobody_measured(case: tuple[list[float], float, float, float]) -> None:
    times, busy_s, energy_j, of_the_pod = case
    total = {0: 0.0, 1: 100.0, 2: 6000.0, 3: 6100.0} if abs(times[2] - times[1]) > 10 else dict(enumerate(
        [0.0, 300.0, 600.0, 900.0]))  # fmt: skip
    node = fed(*(
        sample(n, [gpu(gpu_util_pct=100, energy_j=total[n], processes=[{**P[0], "gpu_util_pct": 100}])], at_s)
        for n, at_s in enumerate(times)
    ))  # fmt: skip
    device = node.gpus["GPU-0"]
    assert device.busy_s == pytest.approx(busy_s)
    assert device.energy_j == energy_j
    assert of_pod(node) == (pytest.approx(busy_s), of_the_pod)


def test_a_counter_that_begins_anew_adds_nothing() -> None:
    node = fed(*(sample(n, [gpu(energy_j=value, processes=P)]) for n, value in enumerate([900, 1000, 5, 15])))
    assert node.gpus["GPU-0"].energy_j == 110


def test_what_comes_twice_counts_once() -> None:
    ticks = [sample(n, [gpu(gpu_util_pct=100, energy_j=100 * n, processes=P)]) for n in range(5)]
    node = fed(*ticks)
    again = fed(*(one for tick in ticks for one in (tick, tick)), *ticks)  # other offsets, the same ticks
    assert (again.gpus, again.pods) == (node.gpus, node.pods)
    for offset, tick in enumerate(ticks):
        node.add(tick, 0, offset)  # the same offsets
    assert (again.gpus, again.pods) == (node.gpus, node.pods)


def test_a_collector_that_begins_anew_counts_from_its_first_sample() -> None:
    first = [sample(n, [gpu(gpu_util_pct=100)]) for n in range(5)]
    anew = [sample(n, [gpu(gpu_util_pct=100)], n + 5, collector="another") for n in range(5)]
    assert fed(*first, *anew).gpus["GPU-0"].busy_s == pytest.approx(9)


def test_a_restart_changes_no_bit() -> None:
    ticks = [
        sample(
            n,
            [
                gpu(
                    gpu_util_pct=n * 7 % 101,
                    energy_j=0.1 * n,
                    processes=P,
                    util_burst=[[-300, 33.3], [-1, n]],
                )
            ],
        )
        for n in range(40)
    ]
    through, stopped = fed(*ticks), fed(*ticks[:23])
    stopped = NodeCounters.of(decode(NodeUsage, encode(stopped.record("a", 20)), "node-usage"))
    for offset in range(15, 40):  # what is read again does no harm
        stopped.add(ticks[offset], 0, offset)
    assert (stopped.gpus, stopped.pods, stopped.newest) == (through.gpus, through.pods, with_means(ticks[-1]))


def test_what_was_counted_before_a_restart_is_shown_again() -> None:
    ticks = [sample(n, [gpu(gpu_util_pct=50, processes=P)]) for n in range(5)]
    node = NodeCounters.of(fed(*ticks).record("a", 5))
    assert node.newest is None
    for offset in (2, 3, 4):
        node.add(ticks[offset], 0, offset)
    assert node.newest == ticks[4]
    assert node.gpus == fed(*ticks).gpus


def test_a_pod_that_is_gone_is_forgotten() -> None:
    node = fed(sample(0, [gpu(processes=P, gpu_util_pct=1)]), sample(1, [gpu()], 1), sample(2, [gpu()], 700))
    assert not node.pods
