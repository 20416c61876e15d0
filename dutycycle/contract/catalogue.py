"""Holds the catalogue of metrics: one row each, and the lists that the rest of the program makes of them.

A metric is measured by one source, of one or several kinds of subject. Whoever reads a log, keeps a window, a
peak or a column, serves a series, writes an annotation or draws a chart asks here which metrics there are and
what each is called. So a new metric is a field of a record and a row here.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

MIB = 1024 * 1024
Range = tuple[float, float]
Subject = Literal["gpu", "slice", "node", "container", "pod", "job"]
PCT: Range = (0, 100)
_WATTS: Range = (0, 20_000)
_BYTES: Range = (0, 1e14)
_DEGREES: Range = (-100, 250)


class Unit(NamedTuple):
    """Says how a unit ends a field's name, and what people read."""

    suffix: str
    text: str


UNITS = (
    Unit("_bytes_per_s", "bytes/s"),
    Unit("_per_s", "1/s"),
    Unit("_bytes", "bytes"),
    Unit("_pct", "%"),
    Unit("_w", "W"),
    Unit("_j", "J"),
    Unit("_c", "°C"),
    Unit("_mhz", "MHz"),
)
"""The first that ends a name is its unit."""


def unit_of(name: str) -> Unit:
    """Give the unit of a field by its name; an empty one for a field without a unit."""
    return next((unit for unit in UNITS if name.endswith(unit.suffix)), Unit("", ""))


@dataclass(frozen=True, slots=True)
class GpuSeries:
    """Describes a gauge of a GPU for Prometheus: its name without our prefix, and the factor to its base
    unit."""

    name: str
    factor: float = 1


@dataclass(frozen=True, slots=True)
class Annotation:
    """Says how the maximum is written on Kubernetes objects.

    ``key``: in what a job says of each of its pods. ``max_<key>``: in what a Node says of a GPU, on a pod,
    and in the summary of a job, as far as ``on`` names them. Of several metrics with one key the largest
    counts.
    """

    key: str
    on: frozenset[Subject]
    factor: float = 1
    digits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """Describes a metric.

    ``field``: its name in records, with its unit at the end. ``source``: nvml, cgroup or cuda. ``subjects``:
    what it is of; a job's are those of its pods. ``kind``: a *gauge* has windows and peaks; a *counter* is
    cumulative, and has the increase in a window; a *capacity* says how much there is, and bounds a trend; a
    *setting* is read and shown, and has none of these.

    ``own``: pods and jobs have its peaks, over GPUs and slices that a pod has to itself; no value at a tick.

    ``trend``, ``cycle``: it has one. ``resolution``: of a metric with a trend, the least difference that is
    worth telling, in its unit; the interval of a forecast reaches as far to both sides. ``peak``: its peaks
    have columns in SQL and on a node; ``p95``: with a 95th percentile. ``sum_of``: of a node or pod the sum
    over its GPUs of this metric; a node's other metrics of GPUs are the largest of any, and the mean over
    all.

    ``title``, ``word``: on a chart, and in few letters on the screen. ``meaning``: in the contract's tables.
    ``chart``: the id of its chart in a report; ``bound``: the field whose value is drawn as a line there.
    ``compared``: what two runs are compared by.
    ``limits``: what a device can have. A value outside was not measured, as drivers and DCGM write garbage at
    times (NVIDIA/DCGM#199, NVIDIA/dcgm-exporter#418): it is absent and counted, and not cut to what can be.

    ``nvml``: the call, or the id of the field (``nvmlDeviceGetFieldValues``); ``gpm``: the number of one of
    GPM's metrics (``nvmlGpmMetricsGet``), or those of several engines, of which it is the mean, in percent or
    MiB a second: instead, where the field is refused, and of slices, which no call is for.
    ``before_gpm``: the id of a field that counts the same in KiB, over all links, for GPUs without GPM.
    ``by_name``: it is read only where ``DUTYCYCLE_GPU_ACTIVITY`` names it, as each has its bytes in every
    sample. ``dcgm``: names of
    dcgm-exporter with the factor to our unit, the oldest first. ``smi``: spellings of nvidia-smi and of
    people, as sets of words (``dutycycle.imports.table.spellings``). ``dcgmi``, ``smi_dmon``, ``wandb``:
    names in logs with their unit.
    """

    field: str
    source: str = "nvml"
    subjects: tuple[Subject, ...] = ("gpu",)
    own: bool = False
    kind: Literal["gauge", "counter", "capacity", "setting"] = "gauge"
    trend: bool = False
    resolution: float = math.nan
    cycle: bool = False
    peak: bool = False
    p95: bool = False
    sum_of: str = ""
    title: str = ""
    word: str = ""
    meaning: str = ""
    chart: str = ""
    bound: str = ""
    compared: Literal["", "mean", "max"] = ""
    limits: Range = (0, float("inf"))
    nvml: str | int = ""
    gpm: tuple[int, ...] = ()
    before_gpm: int | None = None
    by_name: bool = False
    dcgm: Mapping[str, float] = dataclasses.field(default_factory=dict)
    smi: str = ""
    dcgmi: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    smi_dmon: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    wandb: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    series: GpuSeries | None = None
    annotation: Annotation | None = None

    @property
    def sentence(self) -> str:
        """Return the meaning as a sentence, for below a chart."""
        return f"{self.meaning[:1].upper()}{self.meaning[1:]}."


_MEGA, _MEGABIT = 1e-6, 8e-6
_DEV, _PROF = "DCGM_FI_DEV_", "DCGM_FI_PROF_"
_HELD, _PCT_OF_NS = f"{_DEV}CLOCKS_EVENT_REASON_", 1e-7
"""Counters of nanoseconds: what they grow by in a second is a share of it. HELP texts of older
exporters call them microseconds, and are wrong (NVIDIA/dcgm-exporter#589)."""
_DCGM_MB = 1024 * 1000
"""DCGM counts KiB, divides by 1,000 and calls it MB/s; it is a rate, though exporters call it a counter
(NVIDIA/dcgm-exporter#658)."""
_ON_GPU: frozenset[Subject] = frozenset({"gpu"})
_ON_GPU_AND_JOB: frozenset[Subject] = frozenset({"gpu", "job"})
_ON_POD_AND_JOB: frozenset[Subject] = frozenset({"pod", "job"})
_ON_ALL: frozenset[Subject] = frozenset({"gpu", "pod", "job"})
_OF_PODS: tuple[Subject, ...] = ("container", "pod", "job")
_NETWORK = Annotation("network_mbps", _ON_POD_AND_JOB, _MEGABIT, 1)
_DISK = Annotation("disk_io", _ON_POD_AND_JOB, _MEGA, 1)

CATALOGUE = (
    MetricRow(
        field="gpu_util_pct", subjects=("gpu", "slice", "node", "pod", "job"), trend=True, resolution=1,
        cycle=True, peak=True, p95=True, chart="gpu-util", compared="mean", title="GPU utilization",
        word="GPU use",
        meaning="share of the time in which a kernel ran", limits=PCT, nvml="nvmlDeviceGetUtilizationRates",
        dcgm={"dcgm_gpu_utilization": 1, f"{_DEV}GPU_UTIL": 1, f"{_DEV}GPU_UTIL_RATIO": 100},
        smi="util|sm util|core util|compute util|load|core load|usage|busy|util rate|volatile util",
        dcgmi={"GPUTL": "%"}, smi_dmon={"sm": "%"}, wandb={"gpu": "%"},
        series=GpuSeries("gpu_utilization_ratio", 0.01), annotation=Annotation("gpu_util", _ON_GPU_AND_JOB),
    ),
    MetricRow(
        field="mem_copy_util_pct", subjects=("gpu", "pod", "job"), cycle=True, peak=True,
        chart="gpu-mem-copy", compared="mean", title="Memory-copy utilization", word="memory copy",
        meaning="share of the time in which the memory controller was busy; not memory in use", limits=PCT,
        nvml="nvmlDeviceGetUtilizationRates",
        dcgm={
            "dcgm_mem_copy_utilization": 1, f"{_DEV}MEM_COPY_UTIL": 1, f"{_DEV}MEM_COPY_UTIL_RATIO": 100,
            f"{_DEV}MEMORY_UTIL_RATIO": 100,
        },
        smi="mem util|mem controller util|mem controller load|mem copy util|mem copy|mem controller",
        dcgmi={"MCUTL": "%"}, smi_dmon={"mem": "%"}, wandb={"memory": "%"},
        series=GpuSeries("gpu_memory_copy_utilization_ratio", 0.01),
        annotation=Annotation("mem_util", _ON_GPU),
    ),
    MetricRow(
        field="gpu_mem_used_bytes", subjects=("node", "pod", "job"), trend=True, resolution=MIB,
        cycle=True, peak=True, p95=True, sum_of="mem_used_bytes", title="GPU memory", word="GPU memory",
        annotation=Annotation("gpu_mem_mb", frozenset({"job"}), _MEGA),
    ),
    MetricRow(field="busiest_gpu_util_pct", subjects=("pod", "job"), title="Busiest GPU", word="busiest GPU"),
    MetricRow(
        field="mem_used_bytes", subjects=("gpu", "slice"), trend=True, resolution=MIB, cycle=True,
        chart="gpu-memory", bound="mem_total_bytes", title="GPU memory",
        word="memory", meaning="memory in use", limits=_BYTES, nvml="nvmlDeviceGetMemoryInfo",
        dcgm={"dcgm_fb_used": MIB, f"{_DEV}FB_USED": MIB, f"{_DEV}FB_USED_BYTES": 1},
        smi="mem used|used|mem usage|mem|mem total used mem", dcgmi={"FBUSD": "MiB"}, smi_dmon={"fb": "MiB"},
        wandb={"memoryAllocatedBytes": "B"}, series=GpuSeries("gpu_memory_used_bytes"),
    ),
    MetricRow(
        field="power_w", trend=True, resolution=0.1, cycle=True, chart="gpu-power",
        bound="power_limit_w", compared="mean", title="GPU power", word="power", meaning="power draw",
        limits=_WATTS, nvml="nvmlDeviceGetPowerUsage",
        dcgm={"dcgm_power_usage": 1, f"{_DEV}POWER_USAGE": 1, f"{_DEV}BOARD_POWER_WATTS": 1},
        smi="power draw|power|power usage|draw|power draw instant|power instant|power draw average"
        "|power average|board power|board power draw|watts|watt|average gr package power"
        "|socket gr package power|socket power",
        dcgmi={"POWER": "W"}, smi_dmon={"pwr": "W"}, wandb={"powerWatts": "W"},
        series=GpuSeries("gpu_power_watts"),
    ),
    MetricRow(
        field="gpu_power_w", subjects=("node",), peak=True, p95=True, sum_of="power_w",
        title="Power of all GPUs", word="GPU power",
    ),
    MetricRow(
        field="power_limit_w", kind="setting", title="Power limit",
        meaning="the enforced power limit; read every ten ticks", limits=(1, _WATTS[1]),
        nvml="nvmlDeviceGetEnforcedPowerLimit",
        dcgm={
            f"{_DEV}POWER_MGMT_LIMIT": 1, f"{_DEV}BOARD_POWER_LIMIT_REQUESTED_WATTS": 1,
            f"{_DEV}ENFORCED_POWER_LIMIT": 1, f"{_DEV}BOARD_POWER_LIMIT_ENFORCED_WATTS": 1,
        },
        smi="enforced power limit|power limit", dcgmi={"PMLMT": "W", "EPLMT": "W"},
        wandb={"enforcedPowerLimitWatts": "W"},
        series=GpuSeries("gpu_power_limit_watts"),
    ),
    MetricRow(
        field="energy_j", kind="counter", title="GPU energy",
        meaning="energy since the driver was loaded; it never decreases", limits=(0, 1e15),
        nvml="nvmlDeviceGetTotalEnergyConsumption",
        dcgm={
            "dcgm_total_energy_consumption": 1e-3, f"{_DEV}TOTAL_ENERGY_CONSUMPTION": 1e-3,
            f"{_DEV}GPU_ENERGY_JOULES_TOTAL": 1,
        },
        smi="energy|total energy usage|total energy|energy usage", dcgmi={"TOTEC": "mJ"},
        wandb={"energyJoules": "J"},
    ),
    MetricRow(
        field="temp_c", chart="gpu-temperature", compared="max", title="GPU temperature", word="heat",
        meaning="temperature of the chip",
        limits=_DEGREES, nvml="nvmlDeviceGetTemperatureV",
        dcgm={"dcgm_gpu_temp": 1, f"{_DEV}GPU_TEMP": 1, f"{_DEV}GPU_TEMP_CELSIUS": 1},
        smi="temp|core temp|temp core", dcgmi={"TMPTR": "C"}, smi_dmon={"gtemp": "C", "temp": "C"},
        wandb={"temp": "C"},
        series=GpuSeries("gpu_temperature_celsius"),
    ),
    MetricRow(
        field="temp_margin_c", kind="setting", title="Temperature margin",
        meaning="degrees from there to where the driver lowers the clocks; read every ten ticks",
        limits=(-250, 250), nvml="nvmlDeviceGetMarginTemperature",
        dcgm={f"{_DEV}GPU_TEMP_LIMIT": 1, f"{_DEV}GPU_TEMP_MARGIN_CELSIUS": 1}, smi="temp tlimit|temp margin",
    ),
    MetricRow(
        field="mem_temp_c", subjects=("gpu", "node"), peak=True, chart="gpu-memory-temperature",
        compared="max", title="Memory temperature", word="memory heat",
        meaning="temperature of the memory (HBM)", limits=_DEGREES, nvml=82,
        dcgm={"dcgm_memory_temp": 1, f"{_DEV}MEMORY_TEMP": 1, f"{_DEV}MEMORY_TEMP_CELSIUS": 1},
        smi="temp mem", dcgmi={"MMTMP": "C"}, smi_dmon={"mtemp": "C"},
        series=GpuSeries("gpu_memory_temperature_celsius"),
        annotation=Annotation("mem_temp_c", _ON_GPU),
    ),
    MetricRow(
        field="sw_power_cap_pct", title="Held by power", word="power cap",
        meaning="share of the time in which the power limit held the clocks down",
        limits=PCT, nvml=74,
        dcgm={f"{_DEV}POWER_VIOLATION": _PCT_OF_NS, f"{_HELD}SW_POWER_CAP_NS": _PCT_OF_NS},
        dcgmi={"PVIOL": "ns", "CLKPCNS": "ns"},
        series=GpuSeries("gpu_power_capped_ratio", 0.01),
    ),
    MetricRow(
        field="sw_thermal_pct", title="Held by heat, driver", word="sw heat",
        meaning="share of the time in which the driver held the clocks down because of heat",
        limits=PCT, nvml=269, dcgm={f"{_HELD}SW_THERM_SLOWDOWN_NS": _PCT_OF_NS},
        dcgmi={"CLKSWTHNS": "ns"},
        series=GpuSeries("gpu_software_thermal_slowdown_ratio", 0.01),
    ),
    MetricRow(
        field="hw_thermal_pct", title="Held by heat, GPU", word="hw heat",
        meaning="share of the time in which the GPU itself held the clocks down because of heat",
        limits=PCT, nvml=270, dcgm={f"{_HELD}HW_THERM_SLOWDOWN_NS": _PCT_OF_NS},
        dcgmi={"CLKHWTHNS": "ns"},
        series=GpuSeries("gpu_hardware_thermal_slowdown_ratio", 0.01),
    ),
    MetricRow(
        field="power_brake_pct", title="Power brake", word="brake",
        meaning="share of the time in which the power supply had the clocks held down",
        limits=PCT, nvml=271, dcgm={f"{_HELD}HW_POWER_BRAKE_SLOWDOWN_NS": _PCT_OF_NS},
        dcgmi={"CLKEPBSNS": "ns"},
        series=GpuSeries("gpu_power_brake_ratio", 0.01),
    ),
    MetricRow(
        field="thermal_pct", kind="setting", title="Held by heat", word="heat",
        meaning="share of the time in which heat held the clocks down, by the driver or by the GPU itself; "
        "of dcgm-exporter and dcgmi", limits=PCT,
        dcgm={f"{_DEV}THERMAL_VIOLATION": _PCT_OF_NS}, dcgmi={"TVIOL": "ns"},
        series=GpuSeries("gpu_thermal_slowdown_ratio", 0.01),
    ),
    MetricRow(
        field="sync_boost_pct", kind="setting", title="Held by sync boost", word="sync boost",
        meaning="share of the time in which another GPU of its sync boost group held the clocks down; the "
        "same", limits=PCT,
        dcgm={f"{_DEV}SYNC_BOOST_VIOLATION": _PCT_OF_NS, f"{_HELD}SYNC_BOOST_NS": _PCT_OF_NS},
        dcgmi={"SBVIO": "ns", "CLKBSTNS": "ns"}, series=GpuSeries("gpu_sync_boost_ratio", 0.01),
    ),
    MetricRow(
        field="board_limit_pct", kind="setting", title="Held by the board", word="board",
        meaning="share of the time in which a limit of the board held the clocks down; the same", limits=PCT,
        dcgm={f"{_DEV}BOARD_LIMIT_VIOLATION": _PCT_OF_NS}, dcgmi={"BLVIO": "ns"},
        series=GpuSeries("gpu_board_limit_ratio", 0.01),
    ),
    MetricRow(
        field="low_util_pct", kind="setting", title="Clocks low for want of work", word="little work",
        meaning="share of the time in which the clocks were low because there was little to do; the same",
        limits=PCT, dcgm={f"{_DEV}LOW_UTIL_VIOLATION": _PCT_OF_NS}, dcgmi={"LUVIO": "ns"},
        series=GpuSeries("gpu_low_utilization_ratio", 0.01),
    ),
    MetricRow(
        field="reliability_pct", kind="setting", title="Held by voltage", word="voltage",
        meaning="share of the time in which the clocks were held down for the sake of reliability; the same",
        limits=PCT, dcgm={f"{_DEV}RELIABILITY_VIOLATION": _PCT_OF_NS}, dcgmi={"RVIOL": "ns"},
        series=GpuSeries("gpu_reliability_ratio", 0.01),
    ),
    MetricRow(
        field="sm_clock_mhz", chart="clock", compared="mean", title="SM clock", word="clock",
        meaning="clock of the multiprocessors",
        limits=(0, 20_000), nvml="nvmlDeviceGetClockInfo",
        dcgm={"dcgm_sm_clock": 1, f"{_DEV}SM_CLOCK": 1, f"{_DEV}SM_CLOCK_HERTZ": 1e-6},
        smi="clock sm|clock|core clock|gr clock", dcgmi={"SMCLK": "MHz"}, smi_dmon={"pclk": "MHz"},
        wandb={"smClock": "MHz", "graphicsClock": "MHz"}, series=GpuSeries("gpu_sm_clock_hertz", 1e6),
    ),
    MetricRow(
        field="mem_clock_mhz", title="Memory clock", meaning="clock of the memory; read every ten ticks",
        limits=(0, 50_000),
        nvml="nvmlDeviceGetClockInfo",
        dcgm={
            "dcgm_memory_clock": 1, "dcgm_mem_clock": 1, f"{_DEV}MEM_CLOCK": 1,
            f"{_DEV}MEMORY_CLOCK_HERTZ": 1e-6, f"{_DEV}MEM_CLOCK_HERTZ": 1e-6,
        },
        smi="clock mem", dcgmi={"MMCLK": "MHz"}, smi_dmon={"mclk": "MHz"}, wandb={"memoryClock": "MHz"},
        series=GpuSeries("gpu_memory_clock_hertz", 1e6),
    ),
    MetricRow(
        field="pcie_rx_bytes_per_s", subjects=("gpu", "slice"), title="PCIe received",
        meaning="received over PCIe", limits=(0, 1e13),
        nvml=198, gpm=(21,), dcgm={f"{_PROF}PCIE_RX_BYTES": 1}, smi="pcie rx|pcie rx rate",
        dcgmi={"PCIRX": "B/s"}, smi_dmon={"rxpci": "MB/s"},
        series=GpuSeries("gpu_pcie_receive_bytes_per_second"),
    ),
    MetricRow(
        field="pcie_tx_bytes_per_s", subjects=("gpu", "slice"), title="PCIe sent",
        meaning="sent over PCIe", limits=(0, 1e13),
        nvml=197, gpm=(20,), dcgm={f"{_PROF}PCIE_TX_BYTES": 1}, smi="pcie tx|pcie tx rate",
        dcgmi={"PCITX": "B/s"}, smi_dmon={"txpci": "MB/s"},
        series=GpuSeries("gpu_pcie_transmit_bytes_per_second"),
    ),
    MetricRow(
        field="sm_active_pct", subjects=("gpu", "slice", "node"), peak=True, own=True, chart="gpu-sm",
        compared="mean", title="SM activity", word="SM",
        meaning="share of the multiprocessors' time with a warp on them, also one that waits; from Hopper on",
        limits=PCT, gpm=(2,), dcgm={f"{_PROF}SM_ACTIVE": 100, f"{_PROF}SM_UTIL_RATIO": 100},
        smi="sm active|sm activity|sm act", dcgmi={"SMACT": "ratio"}, wandb={"smActive": None},
        series=GpuSeries("gpu_sm_active_ratio", 0.01), annotation=Annotation("sm_active", _ON_ALL),
    ),
    MetricRow(
        field="sm_occupancy_pct", subjects=("gpu", "slice"), title="SM occupancy",
        word="occupancy",
        meaning="warps on the multiprocessors, of as many as there could be; from Hopper on", limits=PCT,
        gpm=(3,), dcgm={f"{_PROF}SM_OCCUPANCY": 100, f"{_PROF}SM_OCCUPANCY_RATIO": 100},
        smi="sm occupancy|occupancy", dcgmi={"SMOCC": "ratio"}, wandb={"smOccupancy": None},
        series=GpuSeries("gpu_sm_occupancy_ratio", 0.01),
    ),
    MetricRow(
        field="tensor_active_pct", subjects=("gpu", "slice", "node"), cycle=True, peak=True, own=True,
        chart="gpu-tensor", compared="mean", title="Tensor activity", word="tensor",
        meaning="share of the time in which the tensor cores worked, of all of theirs; from Hopper on",
        limits=PCT, gpm=(5,),
        dcgm={f"{_PROF}PIPE_TENSOR_ACTIVE": 100, f"{_PROF}TENSOR_UTIL_RATIO": 100},
        smi="tensor active|tensor activity|tensor util", dcgmi={"TENSO": "ratio"},
        wandb={"pipeTensorActive": None},
        series=GpuSeries("gpu_tensor_active_ratio", 0.01), annotation=Annotation("tensor_active", _ON_ALL),
    ),
    MetricRow(
        field="dram_active_pct", subjects=("gpu", "slice", "node"), cycle=True, peak=True, own=True,
        chart="gpu-dram", compared="mean", title="DRAM activity", word="DRAM",
        meaning="bandwidth of the GPU's memory that was used; about 80 % can be had; from Hopper on",
        limits=PCT, gpm=(10,), dcgm={f"{_PROF}DRAM_ACTIVE": 100, f"{_PROF}DRAM_UTIL_RATIO": 100},
        smi="dram active|dram activity|dram util", dcgmi={"DRAMA": "ratio"}, wandb={"dramActive": None},
        series=GpuSeries("gpu_dram_active_ratio", 0.01),
    ),
    MetricRow(
        field="fp64_active_pct", subjects=("gpu", "slice"), title="FP64 activity", word="FP64",
        meaning="share of the time in which the pipes for 64-bit numbers worked; from Hopper on", limits=PCT,
        gpm=(11,), dcgm={f"{_PROF}PIPE_FP64_ACTIVE": 100, f"{_PROF}FP64_UTIL_RATIO": 100},
        smi="fp 64 active", dcgmi={"FP64A": "ratio"}, wandb={"pipeFp64Active": None},
        series=GpuSeries("gpu_fp64_active_ratio", 0.01),
    ),
    MetricRow(
        field="fp32_active_pct", subjects=("gpu", "slice"), title="FP32 activity", word="FP32",
        meaning="share of the time in which the pipes for 32-bit numbers worked; from Hopper on", limits=PCT,
        gpm=(12,), dcgm={f"{_PROF}PIPE_FP32_ACTIVE": 100, f"{_PROF}FP32_UTIL_RATIO": 100},
        smi="fp 32 active", dcgmi={"FP32A": "ratio"}, wandb={"pipeFp32Active": None},
        series=GpuSeries("gpu_fp32_active_ratio", 0.01),
    ),
    MetricRow(
        field="fp16_active_pct", subjects=("gpu", "slice"), title="FP16 activity", word="FP16",
        meaning="share of the time in which the pipes for 16-bit numbers worked, tensor cores not counted; "
        "from Hopper on", limits=PCT,
        gpm=(13,), dcgm={f"{_PROF}PIPE_FP16_ACTIVE": 100, f"{_PROF}FP16_UTIL_RATIO": 100},
        smi="fp 16 active", dcgmi={"FP16A": "ratio"}, wandb={"pipeFp16Active": None},
        series=GpuSeries("gpu_fp16_active_ratio", 0.01),
    ),
    MetricRow(
        field="int_active_pct", subjects=("gpu", "slice"), kind="setting",
        title="Integer activity", word="integer",
        meaning="share of the time in which the pipes for integers worked; from Hopper on, where it is asked "
        "for", limits=PCT, gpm=(4,), by_name=True,
        dcgm={f"{_PROF}PIPE_INT_ACTIVE": 100, f"{_PROF}INT_UTIL_RATIO": 100}, dcgmi={"INTAC": "ratio"},
        series=GpuSeries("gpu_integer_active_ratio", 0.01),
    ),
    MetricRow(
        field="tensor_hmma_active_pct", subjects=("gpu", "slice"), kind="setting",
        title="Tensor activity, floats", word="HMMA",
        meaning="the part of tensor activity in 16-bit, 8-bit and TF32 floats; from Hopper on, where it is "
        "asked for", limits=PCT, gpm=(7,), by_name=True,
        dcgm={f"{_PROF}PIPE_TENSOR_HMMA_ACTIVE": 100, f"{_PROF}HMMA_UTIL_RATIO": 100},
        dcgmi={"THMMA": "ratio"}, series=GpuSeries("gpu_tensor_hmma_active_ratio", 0.01),
    ),
    MetricRow(
        field="tensor_imma_active_pct", subjects=("gpu", "slice"), kind="setting",
        title="Tensor activity, integers", word="IMMA",
        meaning="the part in 8-bit integers; the same", limits=PCT, gpm=(9,), by_name=True,
        dcgm={f"{_PROF}PIPE_TENSOR_IMMA_ACTIVE": 100, f"{_PROF}IMMA_UTIL_RATIO": 100},
        dcgmi={"TIMMA": "ratio"}, series=GpuSeries("gpu_tensor_imma_active_ratio", 0.01),
    ),
    MetricRow(
        field="tensor_dfma_active_pct", subjects=("gpu", "slice"), kind="setting",
        title="Tensor activity, FP64", word="DFMA",
        meaning="the part in 64-bit floats; the same", limits=PCT, gpm=(6,), by_name=True,
        dcgm={f"{_PROF}PIPE_TENSOR_DFMA_ACTIVE": 100, f"{_PROF}DFMA_UTIL_RATIO": 100},
        dcgmi={"TDFMA": "ratio"}, series=GpuSeries("gpu_tensor_dfma_active_ratio", 0.01),
    ),
    MetricRow(
        field="jpeg_util_pct", subjects=("gpu", "slice"), kind="setting", title="JPEG utilization",
        word="JPEG", gpm=tuple(range(40, 48)),
        meaning="share of the time in which the JPEG decoder worked; where it is asked for", limits=PCT,
        nvml="nvmlDeviceGetJpgUtilization", by_name=True,
        smi="jpeg util|jpeg utilization|utilization jpeg|jpeg", smi_dmon={"jpg": "%"},
        series=GpuSeries("gpu_jpeg_utilization_ratio", 0.01),
    ),
    MetricRow(
        field="ofa_util_pct", subjects=("gpu", "slice"), kind="setting", title="Optical flow utilization",
        word="optical flow", gpm=(50, 51),
        meaning="share of the time in which the optical flow accelerator worked; where it is asked for",
        limits=PCT, nvml="nvmlDeviceGetOfaUtilization", by_name=True,
        smi="ofa util|ofa utilization|utilization ofa|ofa", smi_dmon={"ofa": "%"},
        series=GpuSeries("gpu_optical_flow_utilization_ratio", 0.01),
    ),
    MetricRow(
        field="enc_util_pct", subjects=("gpu", "slice"), title="Encoder utilization", word="encoder",
        gpm=tuple(range(166, 170)),
        meaning="share of the time in which the video encoder worked; of GPUs before Hopper, and where "
        "it is asked for", limits=PCT, nvml="nvmlDeviceGetEncoderUtilization", by_name=True,
        dcgm={"dcgm_enc_utilization": 1, f"{_DEV}ENC_UTIL": 1, f"{_DEV}ENC_UTIL_RATIO": 100},
        smi="encoder util|enc util|enc|encoder", dcgmi={"ECUTL": "%"}, smi_dmon={"enc": "%"},
        series=GpuSeries("gpu_encoder_utilization_ratio", 0.01),
    ),
    MetricRow(
        field="dec_util_pct", subjects=("gpu", "slice"), title="Decoder utilization", word="decoder",
        gpm=tuple(range(30, 38)),
        meaning="the same of the video decoder", limits=PCT, nvml="nvmlDeviceGetDecoderUtilization",
        by_name=True,
        dcgm={"dcgm_dec_utilization": 1, f"{_DEV}DEC_UTIL": 1, f"{_DEV}DEC_UTIL_RATIO": 100},
        smi="decoder util|dec util|dec|decoder", dcgmi={"DCUTL": "%"}, smi_dmon={"dec": "%"},
        series=GpuSeries("gpu_decoder_utilization_ratio", 0.01),
    ),
    MetricRow(
        field="nvlink_rx_bytes_per_s", title="NVLink received", meaning="received over all NVLinks",
        limits=(0, 1e13), gpm=(60,), before_gpm=139,
        dcgm={
            f"{_DEV}NVLINK_RX_BANDWIDTH_TOTAL": _DCGM_MB, f"{_DEV}NVLINK_RX_THROUGHPUT_TOTAL": _DCGM_MB,
            f"{_PROF}NVLINK_RX_BYTES": 1,
        },
        dcgmi={"NRXBWLT": "1000 KiB/s", "NVLRX": "B/s"},
        smi="nvlink rx", series=GpuSeries("gpu_nvlink_receive_bytes_per_second"),
    ),
    MetricRow(
        field="nvlink_tx_bytes_per_s", title="NVLink sent", meaning="sent over all NVLinks",
        limits=(0, 1e13), gpm=(61,), before_gpm=138,
        dcgm={
            f"{_DEV}NVLINK_TX_BANDWIDTH_TOTAL": _DCGM_MB, f"{_DEV}NVLINK_TX_THROUGHPUT_TOTAL": _DCGM_MB,
            f"{_PROF}NVLINK_TX_BYTES": 1,
        },
        dcgmi={"NTXBWLT": "1000 KiB/s", "NVLTX": "B/s"},
        smi="nvlink tx", series=GpuSeries("gpu_nvlink_transmit_bytes_per_second"),
    ),
    MetricRow(
        field="nvlink_bytes_per_s", title="NVLink, both ways", word="NVLink",
        meaning="received and sent over all NVLinks together; of dcgm-exporter and dcgmi, which tell this "
        "where they do not tell the two apart", limits=(0, 2e13),
        dcgm={f"{_DEV}NVLINK_BANDWIDTH_TOTAL": _DCGM_MB, f"{_DEV}NVLINK_THROUGHPUT_TOTAL": _DCGM_MB},
        dcgmi={"NBWLT": "1000 KiB/s"}, series=GpuSeries("gpu_nvlink_bytes_per_second"),
    ),
    MetricRow(
        field="pcie_gen", kind="setting", title="PCIe generation",
        meaning="generation of the link; read every ten ticks", limits=(1, 32),
        nvml="nvmlDeviceGetCurrPcieLinkGeneration", dcgm={f"{_DEV}PCIE_LINK_GEN": 1},
        smi="pcie link gen|pcie gen", dcgmi={"PCILG": None}, wandb={"pcieLinkGen": None},
    ),
    MetricRow(
        field="pcie_width", kind="setting", title="PCIe lanes",
        meaning="lanes of the link; read every ten ticks",
        limits=(1, 64), nvml="nvmlDeviceGetCurrPcieLinkWidth", dcgm={f"{_DEV}PCIE_LINK_WIDTH": 1},
        smi="pcie link width|pcie width", dcgmi={"PCILW": None}, wandb={"pcieLinkWidth": None},
    ),
    MetricRow(
        field="mem_total_bytes", subjects=("gpu", "slice"), kind="capacity", title="GPU memory in total",
        meaning="memory in total", limits=_BYTES, nvml="nvmlDeviceGetMemoryInfo",
        dcgm={f"{_DEV}FB_TOTAL": MIB, f"{_DEV}FB_CAPACITY_BYTES": 1},
        smi="mem total|total|mem size|mem capacity", dcgmi={"FBTTL": "MiB"},
        series=GpuSeries("gpu_memory_size_bytes"),
    ),
    MetricRow(
        field="cpu_util_pct", source="cgroup", subjects=("node", *_OF_PODS), trend=True, resolution=0.1,
        cycle=True, peak=True, p95=True, title="CPU", word="CPU", meaning="CPU time; 100 is one core",
        annotation=Annotation("cpu_util", _ON_POD_AND_JOB, digits=2),
    ),
    MetricRow(
        field="cpu_throttled_pct", source="cgroup", subjects=_OF_PODS, peak=True, title="CPU throttled",
        word="CPU throttled",
    ),
    MetricRow(
        field="mem_used_bytes", source="cgroup", subjects=("node", *_OF_PODS), trend=True, resolution=MIB,
        cycle=True, peak=True, p95=True, title="Host memory", word="memory",
        annotation=Annotation("cpu_mem_mb", _ON_POD_AND_JOB, _MEGA, 1),
    ),
    MetricRow(
        field="mem_limit_bytes", source="cgroup", subjects=_OF_PODS, kind="capacity", title="Memory limit"
    ),
    MetricRow(
        field="disk_read_bytes_per_s", source="cgroup", subjects=("node",), peak=True, title="Disk read"
    ),
    MetricRow(
        field="disk_write_bytes_per_s", source="cgroup", subjects=("node",), peak=True, title="Disk written"
    ),
    MetricRow(
        field="io_read_bytes_per_s", source="cgroup", subjects=_OF_PODS, peak=True, title="Disk read",
        annotation=_DISK,
    ),
    MetricRow(
        field="io_write_bytes_per_s", source="cgroup", subjects=_OF_PODS, peak=True, title="Disk written",
        annotation=_DISK,
    ),
    MetricRow(
        field="net_rx_bytes_per_s", source="cgroup", subjects=("node", "pod", "job"), peak=True,
        title="Network received", meaning="received from the network", annotation=_NETWORK,
    ),
    MetricRow(
        field="net_tx_bytes_per_s", source="cgroup", subjects=("node", "pod", "job"), peak=True,
        title="Network sent", meaning="sent to the network", annotation=_NETWORK,
    ),
    MetricRow(
        field="mem_total_bytes", source="cgroup", subjects=("node",), kind="capacity",
        title="Host memory in total",
    ),
    MetricRow(
        field="kernel_launches_per_s", source="cuda", subjects=("pod",), cycle=True, title="Kernel launches"
    ),
    MetricRow(
        field="kernel_burst_pct", source="cuda", subjects=("pod",), cycle=True, title="Kernels in bursts"
    ),
    MetricRow(field="memcpys_per_s", source="cuda", subjects=("pod",), title="Memory copies"),
    MetricRow(field="cuda_mem_used_bytes", source="cuda", subjects=("pod",), title="CUDA memory"),
)  # fmt: skip
"""Every metric. Columns, tables, charts and pages have them in this order."""


def names(rows: Iterable[MetricRow]) -> tuple[str, ...]:
    """Give the fields of ``rows``, each once, in their order."""
    return tuple(dict.fromkeys(row.field for row in rows))


def rows_of(source: str, subject: Subject) -> tuple[MetricRow, ...]:
    """Give what ``source`` tells of a ``subject``, in the order of the catalogue."""
    return tuple(row for row in CATALOGUE if row.source == source and subject in row.subjects)


GPU_ROWS = rows_of("nvml", "gpu")
"""What a ``Gpu`` of ``nvml-samples`` has."""
LIMITS = {row.field: row.limits for row in GPU_ROWS}
"""What a GPU can have, by field and in its unit."""
GPU_METRICS = names(row for row in GPU_ROWS if row.kind != "setting")
ACTIVITY_METRICS = names(row for row in GPU_ROWS if row.gpm and not row.nvml)
"""What the driver's performance counters tell of the work of multiprocessors, tensor cores and memory."""
USUAL_ACTIVITY = names(row for row in GPU_ROWS if row.field in ACTIVITY_METRICS and not row.by_name)
"""Those of them that are read where nobody chooses."""
ENGINE_METRICS = names(row for row in GPU_ROWS if row.by_name and row.nvml)
"""What engines for video and pictures do."""
HELD_METRICS = names(row for row in GPU_ROWS if _PCT_OF_NS in row.dcgm.values())
"""Shares of the time in which something held the clocks down; where they come from are counters."""
MIG_METRICS = names(row for row in rows_of("nvml", "slice") if not row.by_name)
"""What slices have windows of, too."""
OWN_GPU_METRICS = names(row for row in GPU_ROWS if row.own)
"""What pods and jobs have peaks of, over GPUs and slices that a pod has to itself."""
POD_GPU_METRICS = names(rows_of("nvml", "pod"))
"""Of a pod at a tick: means over its GPUs, their memory together, and the utilization of the busiest."""
HOST_METRICS = names(rows_of("cgroup", "node"))
CONTAINER_METRICS = names(rows_of("cgroup", "container"))
POD_CGROUP_METRICS = names(rows_of("cgroup", "pod"))
POD_CUDA_METRICS = names(rows_of("cuda", "pod"))
METRICS = tuple(
    sorted({*GPU_METRICS, *POD_GPU_METRICS, *HOST_METRICS, *POD_CGROUP_METRICS, *POD_CUDA_METRICS})
)
"""Every metric of any subject that samples have: what trends, cycles and models may be of."""
CAPACITIES = frozenset(row.field for row in CATALOGUE if row.kind == "capacity")
"""How much there is, not how much is used: such series have no window and no peak, and bound a trend."""
COUNTERS = frozenset(row.field for row in CATALOGUE if row.kind == "counter")
"""Cumulative counters: a window has their increase, and no mean or maximum."""
WINDOW_METRICS = frozenset(METRICS) - CAPACITIES
"""The metrics that windows can be of."""
TREND_METRICS = frozenset(row.field for row in CATALOGUE if row.trend)
RESOLUTIONS = {row.field: row.resolution for row in CATALOGUE if row.trend}
"""The least difference that a forecast tells, by metric and in its unit: whole percents of NVML, MiB of
``nvidia-smi``, tenths of what is measured more finely."""
CYCLE_METRICS = frozenset(row.field for row in CATALOGUE if row.cycle)
P95_METRICS = names(row for row in CATALOGUE if row.p95)
"""The metrics whose peaks have a ``p95``: what pods ask for, and what they should; and the power of nodes."""
NODE_GPU_ROWS = rows_of("nvml", "node")
"""What the peaks of a node have of its GPUs."""
PEAK_COLUMNS = names(row for row in CATALOGUE if row.peak and (row.own or "pod" in row.subjects))
"""The metrics whose peaks have columns of their own, of pods and jobs; every other one is in the JSON."""
NODE_PEAK_COLUMNS = names(row for row in CATALOGUE if row.peak and "node" in row.subjects)
"""The same of nodes."""
NODE_ANNOTATIONS = {
    row.field: f"max_{row.annotation.key}"
    for row in GPU_ROWS
    if row.annotation is not None and "gpu" in row.annotation.on
}
"""What a Node says of the last hour of each of its GPUs, by metric."""
POD_ANNOTATIONS = frozenset(
    f"max_{row.annotation.key}" for row in CATALOGUE if row.annotation and "pod" in row.annotation.on
)
"""What the maxima of a pod are called on it."""
