"""Goal: dcgm-exporter's metrics become a GPU's fields; what DCGM does not know is absent."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.collector import PrometheusCollector
from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.identity.pods import PodIndex
from collectors.prometheus.series import NewSample, ScrapedSeries, samples_after
from collectors.service import collectors
from dutycycle.contract.errors import SettingError
from dutycycle.contract.records.samples import Allocation, Gpu, MigDevice
from dutycycle.contract.settings.groups import PrometheusSettings
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import Telemetry
from tests.support.data.prometheus_samples import IN_POD, OTHER_UID, UID, dcgm, pod_info, sample

GPU_SELECTOR = Vocabulary().selector


def gpus(
    samples: Iterable[NewSample], pod_index: PodIndex, reader: AnswerReader | None = None
) -> tuple[Gpu, ...]:
    """The GPUs of what an exporter shows at one moment."""
    reader = reader or AnswerReader()
    series = [ScrapedSeries(one.labels, ((one.ts_ms, one.value),)) for one in samples]
    read = reader.read({"gpus": series})["gpus"]
    return reader.gpus.gpus(
        [NewSample(one.labels, ts_ms, value) for one in read for ts_ms, value in one.points], pod_index
    )


def gpu(**fields: Any) -> Gpu:
    return Gpu(uuid="GPU-1", index=0, model="NVIDIA H200", **fields)


@pytest.mark.parametrize(
    ("setting", "absent"),
    [
        ("on", set()),
        ("off", {"sm_active_pct", "tensor_active_pct", "enc_util_pct"}),
        ("-sm_active_pct", {"sm_active_pct", "enc_util_pct"}),
        ("tensor_active_pct,enc_util_pct", {"sm_active_pct"}),
    ],
)
def test_what_the_setting_leaves_out_is_not_asked_for(setting: str, absent: set[str]) -> None:
    told = {
        "sm_active_pct": ("PROF_SM_ACTIVE", 0.12), "enc_util_pct": ("DEV_ENC_UTIL", 3),
        "tensor_active_pct": ("PROF_TENSOR_UTIL_RATIO", 0.04),
        "gpu_util_pct": ("DEV_GPU_UTIL", 100),
    }  # fmt: skip
    settings = load({}, {"prometheus": "http://127.0.0.1:1", "gpu_activity": setting})
    (collector,) = collectors(settings, Telemetry("test"), None)
    assert isinstance(collector, PrometheusCollector)
    reader = collector._reader
    (found,) = gpus([dcgm(name, value) for name, value in told.values()], PodIndex(), reader)
    assert {field for field in told if getattr(found, field) is None} == absent
    assert {
        field for field, (name, _) in told.items() if f"_{name}|" not in f"{reader.vocabulary.selector}|"
    } == absent


@pytest.mark.parametrize(
    ("name", "value", "fields"),
    [
        ("DEV_GPU_UTIL", 97, {"gpu_util_pct": 97}),
        ("DEV_GPU_UTIL", 0, {"gpu_util_pct": 0}),
        ("DEV_FB_TOTAL", 1000, {"mem_total_bytes": 1_048_576_000}),
        ("DEV_ENFORCED_POWER_LIMIT", 700, {"power_limit_w": 700}),
        ("DEV_GPU_UTIL_RATIO", 0.97, {"gpu_util_pct": 97}),
        ("DEV_GPU_UTIL_RATIO", 1, {"gpu_util_pct": 100}),
        ("DEV_GPU_UTIL_RATIO", 97, {"gpu_util_pct": 97}),
        ("DEV_MEMORY_UTIL_RATIO", 0.41, {"mem_copy_util_pct": 41}),
        ("DEV_BOARD_POWER_WATTS", 612.3, {"power_w": 612.3}),
        ("DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", 700, {"power_limit_w": 700}),
        ("DEV_GPU_ENERGY_JOULES_TOTAL", 918_273, {"energy_j": 918_273}),
        ("DEV_FB_USED_BYTES", 1_048_576_000, {"mem_used_bytes": 1_048_576_000}),
        ("DEV_FB_CAPACITY_BYTES", 85_899_345_920, {"mem_total_bytes": 85_899_345_920}),
        ("DEV_SM_CLOCK_HERTZ", 1_980_000_000, {"sm_clock_mhz": 1980}),
        ("DEV_MEMORY_CLOCK_HERTZ", 3_201_000_000, {"mem_clock_mhz": 3201}),
        ("DEV_GPU_TEMP_CELSIUS", 61, {"temp_c": 61}),
        ("DEV_GPU_TEMP_MARGIN_CELSIUS", 20, {"temp_margin_c": 20}),
        ("DEV_MEM_COPY_UTIL", 41, {"mem_copy_util_pct": 41}),
        ("DEV_FB_USED", 1000, {"mem_used_bytes": 1_048_576_000}),
        ("DEV_POWER_USAGE", 612.3, {"power_w": 612.3}),
        ("DEV_POWER_MGMT_LIMIT", 700, {"power_limit_w": 700}),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", 918_273_100, {"energy_j": 918_273.1}),
        ("DEV_GPU_TEMP", 61, {"temp_c": 61}),
        ("DEV_SM_CLOCK", 1980, {"sm_clock_mhz": 1980}),
        ("DEV_MEM_CLOCK", 3201, {"mem_clock_mhz": 3201}),
        ("DEV_PCIE_LINK_GEN", 5, {"pcie_gen": 5}),
        ("DEV_PCIE_LINK_WIDTH", 16, {"pcie_width": 16}),
        ("PROF_PCIE_RX_BYTES", 1e9, {"pcie_rx_bytes_per_s": 10**9}),
        ("PROF_PCIE_TX_BYTES", 0, {"pcie_tx_bytes_per_s": 0}),
        ("DEV_NVLINK_BANDWIDTH_TOTAL", 204_000, {"nvlink_bytes_per_s": 208_896_000_000}),
        ("DEV_NVLINK_THROUGHPUT_TOTAL", 0, {"nvlink_bytes_per_s": 0}),
        ("DEV_NVLINK_RX_BANDWIDTH_TOTAL", 1000, {"nvlink_rx_bytes_per_s": 1_024_000_000}),
        ("DEV_NVLINK_RX_THROUGHPUT_TOTAL", 1000, {"nvlink_rx_bytes_per_s": 1_024_000_000}),
        ("DEV_NVLINK_TX_BANDWIDTH_TOTAL", 1000, {"nvlink_tx_bytes_per_s": 1_024_000_000}),
        ("DEV_NVLINK_TX_THROUGHPUT_TOTAL", 1000, {"nvlink_tx_bytes_per_s": 1_024_000_000}),
        ("DEV_CLOCK_THROTTLE_REASONS", 4, {"throttle": ("sw_power_cap",)}),
        ("DEV_CLOCKS_EVENT_REASONS", 0, {"throttle": ()}),
    ],
)
def test_a_field_of_dcgm(name: str, value: float, fields: dict[str, Any]) -> None:
    assert gpus([dcgm(name, value)], PodIndex()) == (gpu(**fields),)
    assert f"DCGM_FI_{name}" in GPU_SELECTOR


@pytest.mark.parametrize(
    ("per_s", "pct"),
    [(None, None), (0.0, 0), (2.5e8, 25), (1.03e9, 100)],
    ids=["first", "not", "part", "all"],
)
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "sw_power_cap_pct"),
        ("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "sw_thermal_pct"),
        ("CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "hw_thermal_pct"),
        ("CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "power_brake_pct"),
        ("CLOCKS_EVENT_REASON_SYNC_BOOST_NS", "sync_boost_pct"),
        ("POWER_VIOLATION", "sw_power_cap_pct"),
        ("THERMAL_VIOLATION", "thermal_pct"),
        ("SYNC_BOOST_VIOLATION", "sync_boost_pct"),
        ("BOARD_LIMIT_VIOLATION", "board_limit_pct"),
        ("LOW_UTIL_VIOLATION", "low_util_pct"),
        ("RELIABILITY_VIOLATION", "reliability_pct"),
    ],
)
def test_a_counter_of_nanoseconds_is_a_share_of_the_time(
    name: str, field: str, per_s: float | None, pct: float | None
) -> None:
    counted = dcgm(f"DEV_{name}", 7.3e12)
    samples = [replace(counted, per_s=per_s), dcgm("DEV_GPU_UTIL", 97)]
    (found,) = AnswerReader().gpus.gpus(samples, PodIndex())
    assert getattr(found, field) == pct


@pytest.mark.parametrize(
    ("name", "value", "fields"),
    [
        ("dcgm_gpu_utilization", 97, {"gpu_util_pct": 97}),
        ("dcgm_mem_copy_utilization", 41, {"mem_copy_util_pct": 41}),
        ("dcgm_power_usage", 31.7, {"power_w": 31.7}),
        ("dcgm_total_energy_consumption", 7000, {"energy_j": 7}),
        ("dcgm_gpu_temp", 34, {"temp_c": 34}),
        ("dcgm_sm_clock", 135, {"sm_clock_mhz": 135}),
        ("dcgm_memory_clock", 405, {"mem_clock_mhz": 405}),
        ("dcgm_mem_clock", 405, {"mem_clock_mhz": 405}),
        ("dcgm_fb_used", 1000, {"mem_used_bytes": 1_048_576_000}),
    ],
)
def test_a_field_of_an_old_exporter(name: str, value: float, fields: dict[str, Any]) -> None:
    old = sample(name, value, gpu="0", uuid="GPU-1", modelName="NVIDIA H200")
    assert gpus([old], PodIndex()) == (gpu(**fields),)
    assert name in re.split(r"[\"|]", GPU_SELECTOR)


def test_where_a_gpu_has_both_names_the_newer_ones_count() -> None:
    old = [
        sample("dcgm_gpu_temp", 1, gpu="0", uuid="GPU-1"),
        sample("dcgm_fb_used", 1, gpu="0", uuid="GPU-1"),
    ]
    assert gpus([dcgm("DEV_GPU_TEMP", 2), *old], PodIndex()) == (gpu(temp_c=2, mem_used_bytes=2**20),)


@pytest.mark.parametrize("blank", [2147483632, 2147483635, 140737488355328, 2.0**63])
@pytest.mark.parametrize("name", ["DEV_GPU_UTIL", "DEV_FB_USED", "DEV_POWER_USAGE", "DEV_GPU_TEMP"])
def test_a_value_that_dcgm_does_not_have_is_absent(name: str, blank: float) -> None:
    reader = AnswerReader()
    assert gpus([dcgm(name, blank), dcgm("DEV_SM_CLOCK", 1)], PodIndex(), reader) == (gpu(sm_clock_mhz=1),)
    assert gpus([dcgm(name, blank)], PodIndex(), reader) == ()
    assert reader.gpus.impossible == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEV_GPU_UTIL", 101), ("DEV_GPU_UTIL", 187_431), ("DEV_GPU_UTIL", 4_294_967_295),
        ("DEV_GPU_UTIL", -1), ("DEV_MEM_COPY_UTIL", 4_294_967_295), ("DEV_GPU_UTIL_RATIO", 4_294_967_295),
        ("PROF_GR_ENGINE_ACTIVE", 1.02), ("DEV_POWER_USAGE", 4_294_967.295), ("DEV_GPU_TEMP", 4_294_967_295),
        ("DEV_FB_USED", 4_294_967_295), ("DEV_SM_CLOCK", 4_294_967_295), ("DEV_PCIE_LINK_GEN", 0),
    ],
)  # fmt: skip
def test_a_value_that_no_gpu_has_is_absent_and_counted(name: str, value: float) -> None:
    reader = AnswerReader()
    found = gpus([dcgm(name, value), dcgm("DEV_MEM_CLOCK", 1)], PodIndex(), reader)
    assert found == (gpu(mem_clock_mhz=1),)
    assert reader.gpus.impossible == {(f"DCGM_FI_{name}", value): 1}


@pytest.mark.parametrize(
    ("mib", "used", "total"),
    [
        ({"FB_USED": 1, "FB_FREE": 3}, 1, 4),
        ({"FB_USED": 1, "FB_FREE": 3, "FB_RESERVED": 1}, 1, 5),
        ({"FB_USED": 1}, 1, None),
        ({"FB_FREE": 3}, None, None),
        ({"FB_USED": 1, "FB_FREE": 3, "FB_CAPACITY_BYTES": 6 * 2**20}, 1, 6),
        ({"FB_USED_BYTES": 2**20, "FB_FREE_BYTES": 3 * 2**20, "FB_RESERVED_BYTES": 2**20}, 1, 5),
    ],
)
def test_memory(mib: dict[str, int], used: int | None, total: int | None) -> None:
    (found,) = gpus([dcgm(f"DEV_{name}", value) for name, value in mib.items()], PodIndex())
    assert found.mem_used_bytes == (None if used is None else used * 2**20)
    assert found.mem_total_bytes == (None if total is None else total * 2**20)


def test_gpus_are_ordered_by_index_and_one_without_a_number_is_left_out() -> None:
    found = gpus(
        [
            dcgm("DEV_GPU_UTIL", 1, gpu="10", UUID="GPU-10"),
            dcgm("DEV_GPU_UTIL", 2, gpu="2", UUID="GPU-2"),
            dcgm("DEV_GPU_UTIL", 3, gpu="x", UUID="GPU-x"),
            dcgm("DEV_GPU_UTIL", 3, gpu="3", UUID=""),
        ],
        PodIndex(),
    )
    assert [(one.index, one.uuid, one.gpu_util_pct) for one in found] == [(2, "GPU-2", 2), (10, "GPU-10", 1)]


MIG = {"GPU_I_ID": "7", "GPU_I_PROFILE": "1g.18gb"}


def test_mig_slices_do_not_speak_for_their_gpu() -> None:
    (found,) = gpus(
        [
            dcgm("DEV_FB_USED", 100),
            dcgm("DEV_FB_USED", 3, **MIG),
            dcgm("DEV_FB_FREE", 5, **MIG),
            dcgm("PROF_GR_ENGINE_ACTIVE", 0.5, **MIG),
        ],
        PodIndex(),
    )
    piece = MigDevice(
        uuid="MIG-GPU-1/7/0", profile="1g.18gb", mem_used_bytes=3 * 2**20, mem_total_bytes=8 * 2**20,
        gpu_util_pct=50,
    )  # fmt: skip
    assert found == gpu(mem_used_bytes=100 * 2**20, mig=(piece,))


@pytest.mark.parametrize(
    ("values", "tensor"),
    [
        ({"PROF_SM_ACTIVE": 0, "DEV_POWER_USAGE": 350}, None),
        ({"PROF_DRAM_ACTIVE": 0, "DEV_POWER_USAGE": 350}, None),
        ({"PROF_DRAM_ACTIVE": 0, "DEV_POWER_USAGE": 349}, 0),  # at rest
        ({"PROF_DRAM_ACTIVE": 0.001, "DEV_POWER_USAGE": 690}, 0),  # 32-bit floats
        ({"DEV_POWER_USAGE": 690}, 0),  # it may compute without tensor cores
        ({"PROF_SM_ACTIVE": 0}, 0),
    ],
)
def test_zeros_of_activity_that_power_contradicts_are_absent(
    values: dict[str, float], tensor: float | None
) -> None:
    zeros = {"PROF_PIPE_TENSOR_ACTIVE": 0, "PROF_NVLINK_RX_BYTES": 0, "DEV_ENFORCED_POWER_LIMIT": 700}
    (found,) = gpus([dcgm(name, value) for name, value in (zeros | values).items()], PodIndex())
    assert (found.tensor_active_pct, found.nvlink_rx_bytes_per_s) == (tensor, tensor)
    assert found.power_limit_w == 700


def test_what_a_mig_slice_does_is_its_own() -> None:
    """And nothing of it is said of the GPU."""
    shares = {"PROF_SM_ACTIVE": 0.5, "PROF_PIPE_TENSOR_ACTIVE": 0.25, "PROF_PIPE_FP16_ACTIVE": 0.125}
    (whole,) = gpus([dcgm(name, share, **MIG) for name, share in shares.items()], PodIndex())
    shares = {"PROF_INT_UTIL_RATIO": 0.07, "PROF_PIPE_TENSOR_HMMA_ACTIVE": 0.2, "PROF_IMMA_UTIL_RATIO": 0.05}
    (kinds,) = gpus([dcgm(name, share, **MIG) for name, share in shares.items()], PodIndex())[0].mig or ()
    assert (kinds.int_active_pct, kinds.tensor_hmma_active_pct, kinds.tensor_imma_active_pct) == (7, 20, 5)
    (piece,) = whole.mig or ()
    assert (piece.sm_active_pct, piece.tensor_active_pct) == (50, 25)
    assert (whole.sm_active_pct, whole.tensor_active_pct, whole.fp16_active_pct) == (None, None, None)


def test_what_is_of_the_whole_device_comes_from_the_row_of_any_slice() -> None:
    whole = {
        "DEV_POWER_USAGE": 300, "DEV_TOTAL_ENERGY_CONSUMPTION": 5000, "DEV_GPU_TEMP": 60,
        "DEV_SM_CLOCK": 1980, "DEV_MEM_CLOCK": 3201, "DEV_CLOCKS_EVENT_REASONS": 4, "DEV_GPU_UTIL": 7,
        "DEV_POWER_MGMT_LIMIT": 700,
    }  # fmt: skip
    rows = [dcgm(name, value, **MIG | {"GPU_I_ID": at}) for name, value in whole.items() for at in "12"]
    (found,) = gpus(rows, PodIndex())
    assert found == gpu(
        power_w=300, energy_j=5, temp_c=60, sm_clock_mhz=1980, mem_clock_mhz=3201, power_limit_w=700,
        throttle=("sw_power_cap",),
        mig=tuple(MigDevice(uuid=f"MIG-GPU-1/{at}/0", profile="1g.18gb") for at in "12"),
    )  # fmt: skip


def by_pod(name: str, *values: float) -> list[NewSample]:
    """A row for each pod that shares the GPU."""
    return [
        dcgm(name, value, namespace="team", pod=f"p-{at}", vgpu=str(at)) for at, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("rows", "util", "used_mib"),
    [
        (by_pod("DEV_GPU_UTIL", 30, 20, 0) + by_pod("DEV_FB_USED", 10, 20, 40), 50, 70),
        (by_pod("DEV_GPU_UTIL", 71, 71, 71) + by_pod("DEV_FB_USED", 10, 10, 10), 71, 10),
        (by_pod("DEV_GPU_UTIL", 30, 30) + by_pod("DEV_FB_USED", 10, 20), 60, 30),
        ([dcgm("DEV_GPU_UTIL", 55), *by_pod("DEV_GPU_UTIL", 30, 20)], 55, None),
        (by_pod("DEV_GPU_UTIL", 60, 41), 100, None),
        (by_pod("DEV_GPU_UTIL", 90, 80) + by_pod("DEV_FB_USED", 10, 20), None, 30),
    ],
    ids=["parts", "repeated", "equal parts", "the device has a row", "rounded", "more than all"],
)
def test_a_gpu_that_pods_share_has_the_sum(
    rows: list[NewSample], util: float | None, used_mib: int | None
) -> None:
    free = by_pod("DEV_FB_FREE", 100, 100) if used_mib else []
    power = by_pod("DEV_POWER_USAGE", 300, 300)
    (found,) = gpus([*rows, *free, *power], PodIndex())
    assert (found.gpu_util_pct, found.power_w) == (util, 300)
    assert found.mem_used_bytes == (None if used_mib is None else used_mib * 2**20)
    assert found.mem_total_bytes == (None if used_mib is None else (used_mib + 100) * 2**20)


def test_each_pod_on_a_shared_gpu_has_its_part() -> None:
    """Also at a moment when all are equal, once an exporter is known to divide its GPUs."""
    reader, index = AnswerReader(), PodIndex()
    gpus(by_pod("DEV_GPU_UTIL", 30, 20), index, reader)
    for again in (reader, AnswerReader()):
        again.restore(reader.snapshot())
        rows = by_pod("DEV_GPU_UTIL", 25, 25) + by_pod("DEV_FB_USED", 10, 10)
        (shared,) = gpus([replace(row, ts_ms=row.ts_ms + 1000) for row in rows], index, again)
        assert (shared.gpu_util_pct, shared.mem_used_bytes) == (50, 20 * 2**20)
        assert [(part.pod, part.gpu_util_pct, part.mem_used_bytes) for part in shared.allocated or ()] == [
            ("p-0", 25, 10 * 2**20), ("p-1", 25, 10 * 2**20)
        ]  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [
        by_pod("DEV_GPU_UTIL", 71, 71) + by_pod("DEV_FB_USED", 10, 10),
        by_pod("DEV_GPU_UTIL", 90, 80),
        by_pod("DEV_GPU_UTIL", 71)
        + [replace(row, ts_ms=row.ts_ms + 15_000) for row in by_pod("DEV_GPU_UTIL", 30)],
    ],
    ids=["repeated", "more than the device", "one after the other"],
)
def test_no_pod_has_a_part_that_no_row_tells(rows: list[NewSample]) -> None:
    (shared,) = gpus(rows, PodIndex())
    assert {part.gpu_util_pct for part in shared.allocated or ()} == {None}


def given(pod: str, container: str | None = None, **more: Any) -> Allocation:
    uid = {"bert-0": UID, "bert-1": OTHER_UID}.get(pod)
    return Allocation(pod_uid=uid, namespace="team", pod=pod, container=container, **more)


IN_MAIN = {"namespace": "team", "pod": "bert-0", "container": "main"}
EXPORTER = {
    "namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x", "container": "nvidia-dcgm-exporter"
}  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([{}], None),
        ([IN_MAIN], (given("bert-0", "main"),)),
        ([IN_MAIN, IN_MAIN], (given("bert-0", "main"),)),
        ([IN_MAIN | {"GPU_I_ID": "7"}], (given("bert-0", "main", mig="MIG-GPU-1/7/0"),)),
        (
            [{f"exported_{key}": value for key, value in IN_MAIN.items()} | EXPORTER],
            (given("bert-0", "main"),),
        ),
        ([EXPORTER | {"container": "exporter"}], None),
        (
            [{"namespace": "team", "pod": "bert-0"}, {"namespace": "team", "pod": "bert-1"}],
            (given("bert-0"), given("bert-1")),
        ),
        ([{"namespace": "team", "pod": "stranger"}], (given("stranger"),)),
    ],
)
def test_the_containers_that_a_gpu_was_given_to(
    labels: list[dict[str, str]], expected: tuple[Allocation, ...] | None
) -> None:
    pod_index = PodIndex()
    pod_index.learn_pods([pod_info("bert-0", UID), pod_info("bert-1", OTHER_UID)])
    pod_index.learn_containers([sample("container_memory_working_set_bytes", 1, **IN_POD)])
    (found,) = gpus([dcgm("DEV_GPU_UTIL", 5, **one) for one in labels], pod_index)
    assert found.allocated == expected
    assert found.processes is None


@pytest.mark.parametrize(
    ("labels", "known", "holder"),
    [
        ({"pod": "bert-0"}, ["bert-0"], "bert-0"),
        ({"pod": " bert-0 ", "namespace": " "}, ["bert-0", "other"], "bert-0"),
        ({"pod": "bert-0"}, [], None),
        ({"pod": "bert-0", "namespace": ""}, ["bert-0", "elsewhere/bert-0"], None),
        ({"pod": " ", "namespace": "team"}, ["bert-0"], ""),
    ],
)
def test_a_pod_without_its_namespace(labels: dict[str, str], known: list[str], holder: str | None) -> None:
    """It is the only one of its name, or said; the GPU's figures are there all the same."""
    reader, pod_index = AnswerReader(), PodIndex()
    pods = [pod_info(name.rpartition("/")[2], f"uid-{name}") for name in known]
    pod_index.learn_pods(
        replace(pod, labels={**pod.labels, "namespace": name.rpartition("/")[0] or "ml"})
        for pod, name in zip(pods, known, strict=True)
    )
    (found,) = gpus([dcgm("DEV_GPU_UTIL", 50, **labels)], pod_index, reader)
    assert found.gpu_util_pct == 50
    given = Allocation(pod_uid=f"uid-{holder}", namespace="ml", pod=holder) if holder else None
    assert found.allocated == ((given,) if given else None)
    assert [
        left.detail.startswith("1 samples that name a pod that nobody") for left in reader.left_out()
    ] == ([True] if holder is None else [])


@pytest.mark.parametrize(
    ("name", "texts", "before", "value", "pct"),
    [
        ("DEV_GPU_UTIL_RATIO", [], [], 1, 100),
        ("DEV_GPU_UTIL_RATIO", ["GPU utilization ratio (0.0-1.0)."], [], 1, 100),
        ("DEV_GPU_UTIL_RATIO", ["GPU utilization (in %)."], [], 1, 1),
        ("DEV_GPU_UTIL_RATIO", ["GPU utilization (in %).", "A ratio."], [], 1, 100),
        ("DEV_GPU_UTIL_RATIO", ["A ratio."], [97], 1, 1),
        ("DEV_GPU_UTIL_RATIO", [], [4_294_967_295], 1, 100),
        ("DEV_GPU_UTIL", [], [], 1, 1),
        ("DEV_GPU_UTIL", ["GPU utilization (in %)."], [], 1, 1),
        ("DEV_GPU_UTIL", ["Ratio of time a kernel ran."], [], 1, 100),
        ("DEV_GPU_UTIL", [], [0.5], 1, 100),
        ("DEV_GPU_UTIL", [], [0.5, 40], 1, 1),
    ],
)
def test_percent_or_ratio_is_what_the_help_says_or_a_value_shows(
    name: str, texts: list[str], before: list[float], value: float, pct: float
) -> None:
    reader = AnswerReader()
    series = [ScrapedSeries(dcgm(name, 0).labels, ())]
    assert reader.vocabulary.without_help(series) == [f"DCGM_FI_{name}"]
    reader.vocabulary.learn_help({f"DCGM_FI_{name}": texts})
    assert reader.vocabulary.without_help(series) == []
    for earlier in before:
        gpus([dcgm(name, earlier)], PodIndex(), reader)
    assert gpus([dcgm(name, value)], PodIndex(), reader) == (gpu(gpu_util_pct=pct),)
    again = AnswerReader()
    again.restore(reader.snapshot())
    again.vocabulary.learn_help({f"DCGM_FI_{name}": texts})
    assert gpus([dcgm(name, value)], PodIndex(), again) == (gpu(gpu_util_pct=pct),)


ENERGY, ENERGY_J = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"


@pytest.mark.parametrize(
    ("name", "unit_j", "factor"),
    [
        (ENERGY, 1e-3, 1e-3), (ENERGY, 1.0, 1.0), (ENERGY, 3.6e6, 3.6e6), (ENERGY, 2.5e-3, 1e-3),
        (ENERGY_J, 1.0, 1.0), (ENERGY_J, 1e-3, 1e-3), (ENERGY_J, 3600.0, 3600.0), (ENERGY_J, 30.0, None),
    ],
)  # fmt: skip
def test_a_counter_of_energy_grows_as_the_power_says(name: str, unit_j: float, factor: float | None) -> None:
    """Else it is in the unit that fits, or in none that is known: then it is left out, and that is said."""
    labels = {**dcgm("DEV_POWER_USAGE", 0).labels, "job": "dcgm", "instance": "a:9400"}
    times = [15_000 * at for at in range(20)]
    series = [
        ScrapedSeries(
            labels | {"__name__": "DCGM_FI_DEV_POWER_USAGE"},
            tuple((ms, 300.0 if ms != 30_000 else 4_294_967.295) for ms in times),
        ),
        ScrapedSeries(labels | {"__name__": name}, tuple((ms, (1e6 + 0.3 * ms) / unit_j) for ms in times)),
    ]
    reader, again = AnswerReader(), AnswerReader()
    reader.read({"gpus": series[1:]})
    value = 1e6 / unit_j
    usual = reader.vocabulary.read(series[1].labels, value)
    assert usual is not None
    by_name = value * (1.0 if name == ENERGY_J else 1e-3)
    assert usual.value == pytest.approx(by_name, abs=1e-6), "no power, no doubt"
    reader.read({"gpus": series})
    again.restore(reader.snapshot())
    for one in (reader, again):
        reading = one.vocabulary.read(series[1].labels, value)
        assert (None if reading is None else reading.value / value) == (factor and pytest.approx(factor))
    said = [left_out.detail for left_out in reader.left_out()]
    assert said == ([] if factor else [
        f"{name} of dcgm of a:9400 grows by 2.85e+03 where the power says 8.55e+04 J: it is in a unit that "
        "is not known, and is taken as not measured"
    ])  # fmt: skip
    assert not list(reader.left_out())


@pytest.mark.parametrize("factor", [1000, 1e-3, 1e7])
@pytest.mark.parametrize("gpus", [3, 8])
def test_of_a_gpu_whose_energy_is_odd_the_others_keep_theirs(factor: float, gpus: int) -> None:
    times = [15_000 * at for at in range(20)]
    labels = [
        {**dcgm("DEV_POWER_USAGE", 0).labels, "job": "dcgm", "instance": "a:9400", "UUID": f"GPU-{n}"}
        for n in range(gpus)
    ]
    power = [ScrapedSeries(of_gpu, tuple((ms, 300.0) for ms in times)) for of_gpu in labels]
    energy = [
        ScrapedSeries(
            of_gpu | {"__name__": ENERGY_J}, tuple((ms, 0.3 * ms * (factor if n == 1 else 1)) for ms in times)
        )
        for n, of_gpu in enumerate(labels)
    ]
    reader, again = AnswerReader(), AnswerReader()
    reader.read({"gpus": [*power, *energy]})
    (left_out,) = reader.left_out()
    assert "of dcgm of a:9400 of GPU-1 grows by" in left_out.detail
    again.restore(reader.snapshot())
    again.read({"gpus": [*power, *energy]})
    for one in (reader, again):
        readings = [one.vocabulary.read(series.labels, 5e6) for series in energy]
        assert [None if reading is None else reading.value for reading in readings] == [
            None if n == 1 else 5e6 for n in range(gpus)
        ]


@pytest.mark.parametrize("spike_at", [3, 9])
def test_a_counter_of_energy_that_leaps_is_absent_there_and_keeps_its_unit(spike_at: int) -> None:
    """By as much as no GPU draws, and it is back at the next scrape; the ledger took it for energy."""
    labels = {**dcgm("DEV_POWER_USAGE", 0).labels, "job": "dcgm", "instance": "a:9400"}
    times = [15_000 * at for at in range(12)]
    values = [9e15 if at == spike_at else 1e9 + 300.0 * ms for at, ms in enumerate(times)]
    energy = ScrapedSeries(labels | {"__name__": ENERGY}, tuple(zip(times, values, strict=True)))
    reader = AnswerReader()
    reader.read({"gpus": [ScrapedSeries(labels, tuple((ms, 300.0) for ms in times)), energy]})
    read = [
        found.energy_j
        for one in samples_after(energy, -1, 60_000)
        for found in reader.gpus.gpus([one, dcgm("DEV_GPU_TEMP", 60)], PodIndex())
    ]
    assert read == [None if at == spike_at else 1e6 + 0.3 * ms for at, ms in enumerate(times)]
    assert reader.gpus.impossible == {(ENERGY, 9e15): 1}
    assert not [left_out for left_out in reader.left_out() if left_out.what == "energy_j"]


def test_a_power_of_0_says_nothing_of_the_energy() -> None:
    labels = {**dcgm("DEV_POWER_USAGE", 0).labels, "job": "dcgm", "instance": "a:9400"}
    times = [15_000 * at for at in range(20)]
    energy = ScrapedSeries(labels | {"__name__": ENERGY_J}, tuple((ms, 0.3 * ms) for ms in times))
    reader = AnswerReader()
    reader.read({"gpus": [ScrapedSeries(labels, tuple((ms, 0.0) for ms in times)), energy]})
    reading = reader.vocabulary.read(energy.labels, 5e6)
    assert reading is not None
    assert reading.value == 5e6


def test_each_target_has_its_own_unit() -> None:
    """While exporters are upgraded, some write the new name in percent and some as a ratio."""
    found = gpus(
        [
            dcgm("DEV_GPU_UTIL_RATIO", 55, instance="a:9400"),
            dcgm("DEV_GPU_UTIL_RATIO", 0.55, gpu="1", UUID="GPU-2", instance="b:9400"),
            dcgm("DEV_GPU_UTIL", 55, gpu="2", UUID="GPU-3", instance="c:9400"),
        ],
        PodIndex(),
    )
    assert [one.gpu_util_pct for one in found] == [55, 55, 55]


def test_later_exporters_write_other_labels() -> None:
    labels = {"gpu": "0", "uuid": "GPU-1", "model_name": "NVIDIA H200", "hostname": "a", "gpu_i_id": "7",
              "gpu_i_profile": "1g.18gb"}  # fmt: skip
    (found,) = gpus([sample("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.5, **labels)], PodIndex())
    assert found == gpu(mig=(MigDevice(uuid="MIG-GPU-1/7/0", profile="1g.18gb", gpu_util_pct=50),))


def test_names_that_nobody_knows_yet_are_a_setting() -> None:
    names = (("acme_busy", "DCGM_FI_DEV_GPU_UTIL_RATIO"), ("acme_watts", "power_w"), ("acme_id", "UUID"))
    reader = AnswerReader(PrometheusSettings(prometheus_names=names))
    assert "|acme_busy|acme_watts" in reader.vocabulary.selector
    labels = {"gpu": "0", "acme_id": "GPU-1", "modelName": "NVIDIA H200"}
    found = gpus(
        [sample("acme_busy", 0.25, **labels), sample("acme_watts", 300, **labels)], PodIndex(), reader
    )
    assert found == (gpu(gpu_util_pct=25, power_w=300),)


def test_a_name_that_stands_for_nothing_is_refused() -> None:
    with pytest.raises(SettingError, match=r"x=DCGM_FI_DEV_GPU_UTL: .* did you mean DCGM_FI_DEV_GPU_UTIL\?"):
        AnswerReader(PrometheusSettings(prometheus_names=(("x", "DCGM_FI_DEV_GPU_UTL"),)))


@pytest.mark.parametrize("text", ["7", "nvidia7", "cuda:7", "GPU 7", "/dev/nvidia7"])
def test_a_number_within_a_name_is_the_index(text: str) -> None:
    (read,) = gpus([dcgm("DEV_GPU_UTIL", 50, gpu=text)], PodIndex())
    assert read.index == 7


@pytest.mark.parametrize(
    ("label", "text", "why"),
    [
        ("UUID", "", "do not say of which GPU they are"),
        ("gpu", "", "have no index of their GPU, by which peaks and annotations name it"),
        ("gpu", "none", "have no index of their GPU"),
    ],
)
def test_a_sample_that_does_not_say_of_which_gpu_it_is_is_told(label: str, text: str, why: str) -> None:
    reader = AnswerReader()
    bad, good = dcgm("DEV_GPU_UTIL", 50), dcgm("DEV_GPU_UTIL", 60, gpu="1", UUID="GPU-2")
    read = gpus([replace(bad, labels={**bad.labels, label: text}), good], PodIndex(), reader)
    assert [(one.uuid, one.gpu_util_pct) for one in read] == [("GPU-2", 60)]
    (left_out,) = reader.left_out()
    assert (left_out.samples, left_out.what, left_out.reason) == (1, "gpu", "no_name")
    assert f"1 samples that {why}" in left_out.detail
    assert ("metric_relabel_configs" in left_out.detail) == (label == "gpu")
    assert f"DCGM_FI_DEV_GPU_UTIL without a usable label {label}" in left_out.detail
    assert f"DUTYCYCLE_PROMETHEUS_NAMES=its_label={label}" in left_out.detail
    assert list(reader.left_out()) == []
