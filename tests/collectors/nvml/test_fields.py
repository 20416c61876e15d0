"""Every field of a GPU's record, and what is done to a value on the way."""

import time
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.throttle import throttle_names
from dutycycle.contract.catalogue import GPU_ROWS
from tests.support.fakes.nvml.probe import Probe
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario, Signal, ramp

VALUES: dict[str, Signal] = {
    "util": 97, "mem_util": 41, "mem_used": 5_000_000_000, "mem_total": 150_000_000_000,
    "mem_reserved": 700_000_000, "power_w": 612.3, "power_limit_w": 700, "energy_j": 918273.1, "temp_c": 61,
    "slowdown_c": 90, "mem_temp_c": 74, "sm_mhz": 1980, "mem_mhz": 3201, "pcie_rx": 2e9, "pcie_tx": 1e9,
    "pcie_gen": 5, "pcie_width": 16, "throttle": 0x25,
}  # fmt: skip
FIELDS = {
    "uuid": "GPU-a", "index": 0, "model": "NVIDIA H200", "gpu_util_pct": 97, "mem_copy_util_pct": 41,
    "mem_used_bytes": 5_000_000_000, "mem_total_bytes": 150_000_000_000, "power_w": 612.3,
    "power_limit_w": 700, "energy_j": 918273.1, "temp_c": 61, "temp_margin_c": 29, "mem_temp_c": 74,
    "sm_clock_mhz": 1980, "mem_clock_mhz": 3201, "pcie_gen": 5, "pcie_width": 16,
    "throttle": ("sw_power_cap", "sw_thermal_slowdown"), "mig": None, "processes": (),
}  # fmt: skip


def world(**changes: Signal) -> Scenario:
    return Scenario(gpus=[FakeGpu(uuid="GPU-a", values={**VALUES, **changes})])


def test_every_field(tmp_path: Path) -> None:
    with Probe(tmp_path, world()) as probe:
        first, *later = [probe.tick() for _ in range(3)]
    assert {name: getattr(first.gpu, name) for name in FIELDS} == FIELDS
    assert first.gpu.util_burst
    assert first.gpu.power_burst
    assert first.sample
    assert (first.sample.node, first.sample.collector, first.sample.interval_ms) == ("node-a", "probe", 1000)
    # A rate takes two readings.
    assert (first.gpu.pcie_rx_bytes_per_s, first.gpu.pcie_tx_bytes_per_s) == (None, None)
    assert all(one.gpu.pcie_rx_bytes_per_s and one.gpu.pcie_tx_bytes_per_s for one in later)


def test_what_held_the_clocks_down_is_a_share_of_the_time_that_really_passed(tmp_path: Path) -> None:
    half = FakeGpu(uuid="GPU-a", fields={74: ramp(5e9, 5e8), 269: ramp(0, 1e9), 270: ramp(7e9, 0)},
                   errors={"field:271": "NOT_SUPPORTED"})  # fmt: skip
    with Probe(tmp_path, Scenario(gpus=[half])) as probe:
        first = probe.tick().gpu
        gpus = []
        for _ in range(7):
            time.sleep(0.3)
            gpus.append(probe.tick().gpu)
    assert (first.sw_power_cap_pct, first.hw_thermal_pct) == (None, None)
    assert median(gpu.sw_power_cap_pct or 0 for gpu in gpus) == pytest.approx(50, rel=0.1)
    assert median(gpu.sw_thermal_pct or 0 for gpu in gpus) == pytest.approx(100, rel=0.1)
    assert all(0 <= (gpu.sw_thermal_pct or 0) <= 100 for gpu in gpus)
    assert {gpu.hw_thermal_pct for gpu in gpus} == {0}
    assert {gpu.power_brake_pct for gpu in gpus} == {None}


def test_what_hardly_ever_changes_is_read_every_ten_ticks(tmp_path: Path) -> None:
    calls = [
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetCurrPcieLinkWidth",
        "nvmlDeviceGetMemoryInfo_v2",
    ]
    with Probe(tmp_path, world()) as probe:
        before = [probe.tick(calls=calls) for _ in range(5)]
        probe.world(world(power_limit_w=500, pcie_width=8, mem_mhz=1600))
        after = [probe.tick(calls=calls) for _ in range(15)]
    limits = [one.gpu.power_limit_w for one in (*before, *after)]
    assert limits == [700] * 10 + [500] * 10
    assert [one.gpu.pcie_width for one in after] == [16] * 5 + [8] * 10
    assert [one.gpu.mem_clock_mhz == 1600 for one in after] == [False] * 5 + [True] * 10
    assert list(after[-1].calls.values()) == [2, 2, 20]


def test_a_limit_that_could_not_be_read_is_read_in_the_next_tick(tmp_path: Path) -> None:
    broken = Scenario(
        gpus=[FakeGpu(uuid="GPU-a", values=VALUES, errors={"nvmlDeviceGetEnforcedPowerLimit": "TIMEOUT"})]
    )
    with Probe(tmp_path, broken) as probe:
        first = probe.tick()
        probe.world(world())
        second = probe.tick()
    assert (first.gpu.power_limit_w, second.gpu.power_limit_w) == (None, 700)


def test_rates_are_over_the_time_that_really_passed(tmp_path: Path) -> None:
    with Probe(tmp_path, world()) as probe:
        probe.tick()
        gpus = []
        for _ in range(7):
            time.sleep(0.3)
            gpus.append(probe.tick(after_s=60, interval_ms=60_000).gpu)
    # The median: between reading the clock and the counter this process may be kept from running.
    assert median(gpu.pcie_rx_bytes_per_s or 0 for gpu in gpus) == pytest.approx(2e9, rel=0.1)
    assert median(gpu.pcie_tx_bytes_per_s or 0 for gpu in gpus) == pytest.approx(1e9, rel=0.1)


def test_gpus_are_in_the_order_of_their_indexes(tmp_path: Path) -> None:
    with Probe(tmp_path, Scenario(gpus=[FakeGpu(uuid=f"GPU-{name}") for name in "cab"])) as probe:
        sample = probe.tick().sample
    assert sample
    assert [(gpu.index, gpu.uuid) for gpu in sample.gpus] == [(0, "GPU-c"), (1, "GPU-a"), (2, "GPU-b")]


@pytest.mark.parametrize("util", [101, 255, 187_431, 4_294_967_295])
def test_a_value_that_no_gpu_has_is_absent_and_counted(tmp_path: Path, util: int) -> None:
    with Probe(tmp_path, world(util=util, mem_util=util, power_w=21_000, temp_c=300)) as probe:
        answer = probe.tick()
    gpu, counts = answer.gpu, answer.counts
    assert (gpu.gpu_util_pct, gpu.mem_copy_util_pct, gpu.power_w, gpu.temp_c) == (None,) * 4
    assert (gpu.util_burst, gpu.power_burst) == (None, None)
    assert gpu.mem_total_bytes is not None
    odd = {of[0] for (name, of) in counts if name == "not_measured" and of[1] == "out_of_range"}
    assert odd >= {"gpu_util_pct", "mem_copy_util_pct", "power_w", "temp_c"}


def test_a_full_gpu_is_full(tmp_path: Path) -> None:
    with Probe(tmp_path, world(util=100, mem_util=100)) as probe:
        gpu = probe.tick().gpu
    assert (gpu.gpu_util_pct, gpu.mem_copy_util_pct) == (100, 100)
    assert {value for _, value in gpu.util_burst or ()} == {100}


def test_a_counter_of_32_bits_gives_no_rate(tmp_path: Path) -> None:
    others = {f"field:{row.nvml}": "NOT_SUPPORTED" for row in GPU_ROWS if row.nvml not in (197, 198)}
    others |= {"field:83": "NOT_SUPPORTED", "field:185": "NOT_SUPPORTED"}
    narrow = FakeGpu(uuid="GPU-a", values={**VALUES, "pcie_bits": 32}, errors=others)
    with Probe(tmp_path, Scenario(gpus=[narrow]), health=False) as probe:
        answers = [probe.tick(calls=["nvmlDeviceGetFieldValues"]) for _ in range(3)]
    assert [a.gpu.pcie_rx_bytes_per_s for a in answers] == [None, None, None]
    assert answers[-1].calls["nvmlDeviceGetFieldValues"] == 1
    assert answers[-1].counts["not_measured", ("pcie_rx_bytes", "counter_too_narrow")] == 1


def test_a_counter_that_fell_gives_no_rate_once(tmp_path: Path) -> None:
    with Probe(tmp_path, world(pcie_rx=ramp(9e9, 0))) as probe:
        probe.tick()
        probe.world(world(pcie_rx=1e6))
        fallen, after = probe.tick(), probe.tick()
    assert fallen.gpu.pcie_rx_bytes_per_s is None
    assert after.gpu.pcie_rx_bytes_per_s == pytest.approx(1e6, rel=0.1)


def test_a_counter_that_begins_at_0_with_the_driver_gives_rates_of_0(tmp_path: Path) -> None:
    with Probe(tmp_path, world()) as probe:
        probe.tick()
        probe.world(Scenario(errors={"*": "DRIVER_NOT_LOADED"}))
        probe.tick()
        probe.world(Scenario(gpus=[FakeGpu(uuid="GPU-a", fields={197: 0, 269: 0})]))
        gpus = [probe.tick(after_s=60).gpu for _ in range(2)]
    assert [(gpu.pcie_tx_bytes_per_s, gpu.sw_thermal_pct) for gpu in gpus] == [(None, None), (0, 0)]


def test_a_counter_that_could_not_be_read_once_gives_no_rate_when_it_is_back(tmp_path: Path) -> None:
    """Its whole past would be what the GPU did since the tick before."""
    bytes_ns = [(5e11, 3e12), (0, 0), (5e11 + 10, 3e12 + 10), (5e11 + 999, 3e12 + 10)]
    gpus = [FakeGpu(uuid="GPU-a", fields={197: count, 74: count_ns}) for count, count_ns in bytes_ns]
    read = []
    with Probe(tmp_path, Scenario(gpus=gpus[:1])) as probe:
        for gpu in gpus:
            probe.world(Scenario(gpus=[gpu]))
            read.append(probe.tick().gpu)
    assert [gpu.sw_power_cap_pct for gpu in read] == [None, None, None, 0]
    assert [gpu.pcie_tx_bytes_per_s for gpu in read[:3]] == [None, None, None]
    assert read[3].pcie_tx_bytes_per_s


def test_rates_of_a_gpu_that_was_lost_in_a_tick_are_over_the_time_since_it_is_back(tmp_path: Path) -> None:
    lost = FakeGpu(uuid="GPU-a", values=VALUES, errors={"nvmlDeviceGetMemoryInfo_v2": "GPU_IS_LOST"})
    with Probe(tmp_path, world()) as probe:
        probe.tick()
        probe.world(Scenario(gpus=[lost]))
        probe.tick()
        time.sleep(1)
        probe.world(world())
        back = []
        for _ in range(3):
            back.append(probe.tick(after_s=30).gpu.pcie_tx_bytes_per_s)
            time.sleep(0.1)
    assert back[0] is None
    assert back[1:] == pytest.approx([1e9, 1e9], rel=0.2)


def test_energy_is_the_integral_of_power(tmp_path: Path) -> None:
    steady = Scenario(gpus=[FakeGpu(uuid="GPU-a", values={"power_w": 500})])
    with Probe(tmp_path, steady) as probe:
        first, first_over = probe.tick(), time.time()
        time.sleep(0.2)
        second, second_over = probe.tick(), time.time()
    assert first.sample
    assert second.sample
    joules = (second.gpu.energy_j or 0) - (first.gpu.energy_j or 0)
    # Each was read between its tick's ts_ms, cut to a millisecond, and the moment at which it was here.
    assert joules >= 500 * (second.sample.ts_ms / 1000 - first_over)
    assert joules <= 500 * (second_over - first.sample.ts_ms / 1000)
    assert joules >= 500 * 0.19


@pytest.mark.parametrize("leap_j", [9e12, 2e15])
def test_a_counter_of_energy_that_leaps_is_not_measured_until_it_is_back(
    tmp_path: Path, leap_j: float
) -> None:
    def counting(energy_j: float) -> Scenario:
        return Scenario(gpus=[FakeGpu(uuid="GPU-a", values={"energy_j": energy_j})])

    answers = []
    with Probe(tmp_path, counting(1000)) as probe:
        for energy_j in (1000, leap_j, 1010, 5):  # the last began anew
            probe.world(counting(energy_j))
            answers.append(probe.tick())
    assert [answer.gpu.energy_j for answer in answers] == [1000, None, 1010, 5]
    assert answers[-1].counts["not_measured", ("energy_j", "out_of_range")] == 1


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, ()),
        (0x001, ()),
        (0x004, ("sw_power_cap",)),
        (0x009, ("hw_slowdown",)),
        (0x0C0, ("hw_thermal_slowdown", "hw_power_brake_slowdown")),
        (0x112, ("applications_clocks_setting", "sync_boost", "display_clock_setting")),
        (0x600, ("board_limit", "reliability")),
        (0x1800, ("reason_0x800", "reason_0x1000")),
    ],
)
def test_names_of_what_holds_the_clocks(mask: int, names: tuple[str, ...]) -> None:
    assert throttle_names(mask) == names


@given(st.integers(0, 2**64 - 1))
def test_every_bit_but_idle_has_a_name_of_its_own(mask: int) -> None:
    assert len(set(throttle_names(mask))) == (mask & ~1).bit_count()


def test_what_was_refused_is_asked_again_when_the_mig_mode_changes(tmp_path: Path) -> None:
    def divided(mode: int, errors: dict[str, str]) -> Scenario:
        return Scenario(gpus=[FakeGpu(uuid="GPU-a", values={**VALUES, "mig_mode": mode}, errors=errors)])

    with Probe(tmp_path, divided(0, {"field:82": "NOT_SUPPORTED"})) as probe:
        refused = probe.tick().gpu.mem_temp_c
        probe.world(divided(0, {}))
        still = probe.tick().gpu.mem_temp_c
        probe.world(divided(1, {}))
        assert (refused, still, probe.tick().gpu.mem_temp_c) == (None, None, 74)
