"""Defines what collectors measure: one record per node and tick. Units are the last part of each name."""

from dutycycle.contract.records.base import RecordBase, TickRecord, written
from dutycycle.contract.units import Amount, Celsius, Count, CpuPct, Label, Pct, Uid

UtilBurst = tuple[tuple[int, Pct], ...]
"""The driver's buffered samples since the last tick: pairs of (milliseconds from ``ts_ms``, percent)."""
PowerBurst = tuple[tuple[int, Amount], ...]
"""The same for power: pairs of (milliseconds from ``ts_ms``, watts)."""


class GpuProcess(RecordBase, frozen=True, kw_only=True):
    """Holds one process on one GPU. ``pod_uid`` is absent when the process could not be attributed."""

    pid: Count
    pod_uid: Uid | None = None
    container_id: Uid | None = None
    name: Label | None = None
    gpu_util_pct: Pct | None = None
    mem_copy_util_pct: Pct | None = None
    mem_used_bytes: Amount | None = None


class MigDevice(RecordBase, frozen=True, kw_only=True):
    """Holds one MIG slice of a GPU. ``gpu_util_pct`` is of the slice, and absent before Hopper."""

    uuid: Uid
    profile: Label | None = None
    mem_used_bytes: Amount | None = None
    mem_total_bytes: Amount | None = None
    gpu_util_pct: Pct | None = None
    sm_active_pct: Pct | None = None
    sm_occupancy_pct: Pct | None = None
    tensor_active_pct: Pct | None = None
    dram_active_pct: Pct | None = None
    fp64_active_pct: Pct | None = None
    fp32_active_pct: Pct | None = None
    fp16_active_pct: Pct | None = None
    int_active_pct: Pct | None = None
    tensor_hmma_active_pct: Pct | None = None
    tensor_imma_active_pct: Pct | None = None
    tensor_dfma_active_pct: Pct | None = None
    pcie_rx_bytes_per_s: Amount | None = None
    pcie_tx_bytes_per_s: Amount | None = None
    enc_util_pct: Pct | None = None
    dec_util_pct: Pct | None = None
    jpeg_util_pct: Pct | None = None
    ofa_util_pct: Pct | None = None


class Allocation(RecordBase, frozen=True, kw_only=True):
    """Names a container that was given the GPU, or its slice ``mig``, by the kubelet; whether it uses it is
    another question. ``pod_uid`` is absent while only the pod's name is known, or a ``name_key``; ``shared``:
    others may have been given the same device (time slicing, MPS). ``gpu_util_pct`` and ``mem_used_bytes``
    are what it has of a device that pods share, where a source tells the part of each."""

    pod_uid: Uid | None = None
    namespace: Label
    pod: Label
    container: Label | None = None
    mig: Uid | None = None
    shared: bool | None = None
    gpu_util_pct: Pct | None = None
    mem_used_bytes: Amount | None = None


class Gpu(RecordBase, frozen=True, kw_only=True):
    """Holds one GPU at one tick.

    ``gpu_util_max_pct`` is the largest utilization of the time of which ``gpu_util_pct`` is the mean, where a
    source has both. ``mem_copy_util_pct`` is the memory controller's activity, not memory used. ``energy_j``
    is cumulative since the driver was loaded. ``throttle`` lists what holds the clocks down, empty for
    nothing, absent for unknown. ``allocated`` is empty where nobody was given the GPU, absent where that is
    not known. The list of graphics processes is read every ten ticks while it is empty: the first of them is
    in ``processes`` ten ticks later at most, or as soon as it uses the GPU.
    """

    uuid: Uid
    index: Count
    model: Label | None = None
    gpu_util_pct: Pct | None = None
    gpu_util_max_pct: Pct | None = None
    mem_copy_util_pct: Pct | None = None
    mem_used_bytes: Amount | None = None
    mem_total_bytes: Amount | None = None
    power_w: Amount | None = None
    power_limit_w: Amount | None = None
    energy_j: Amount | None = None
    temp_c: Celsius | None = None
    temp_margin_c: Celsius | None = None
    mem_temp_c: Celsius | None = None
    sm_active_pct: Pct | None = None
    sm_occupancy_pct: Pct | None = None
    tensor_active_pct: Pct | None = None
    dram_active_pct: Pct | None = None
    fp64_active_pct: Pct | None = None
    fp32_active_pct: Pct | None = None
    fp16_active_pct: Pct | None = None
    int_active_pct: Pct | None = None
    tensor_hmma_active_pct: Pct | None = None
    tensor_imma_active_pct: Pct | None = None
    tensor_dfma_active_pct: Pct | None = None
    jpeg_util_pct: Pct | None = None
    ofa_util_pct: Pct | None = None
    enc_util_pct: Pct | None = None
    dec_util_pct: Pct | None = None
    nvlink_rx_bytes_per_s: Amount | None = None
    nvlink_tx_bytes_per_s: Amount | None = None
    nvlink_bytes_per_s: Amount | None = None
    sm_clock_mhz: Amount | None = None
    mem_clock_mhz: Amount | None = None
    pcie_rx_bytes_per_s: Amount | None = None
    pcie_tx_bytes_per_s: Amount | None = None
    pcie_gen: Count | None = None
    pcie_width: Count | None = None
    throttle: tuple[str, ...] | None = None
    sw_power_cap_pct: Pct | None = None
    sw_thermal_pct: Pct | None = None
    hw_thermal_pct: Pct | None = None
    power_brake_pct: Pct | None = None
    thermal_pct: Pct | None = None
    sync_boost_pct: Pct | None = None
    board_limit_pct: Pct | None = None
    low_util_pct: Pct | None = None
    reliability_pct: Pct | None = None
    util_burst: UtilBurst | None = None
    power_burst: PowerBurst | None = None
    mig: tuple[MigDevice, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None
    allocated: tuple[Allocation, ...] | None = None


class NvmlSample(TickRecord, frozen=True, kw_only=True):
    """Every GPU of a node at one tick."""

    gpus: tuple[Gpu, ...]


class Host(RecordBase, frozen=True, kw_only=True):
    """Measures the node itself. Memory used is total less available; rates are over the time that really
    passed."""

    cpu_util_pct: CpuPct | None = None
    cpu_count: Count | None = None
    mem_used_bytes: Amount | None = None
    mem_total_bytes: Amount | None = None
    disk_read_bytes_per_s: Amount | None = None
    disk_write_bytes_per_s: Amount | None = None
    net_rx_bytes_per_s: Amount | None = None
    net_tx_bytes_per_s: Amount | None = None
    net_speed_bytes_per_s: Amount | None = None


class CudaPod(RecordBase, frozen=True, kw_only=True):
    """Holds what the CUDA calls of a pod's processes tell, as an intercept library counts them."""

    uid: Uid
    kernel_launches_per_s: Amount | None = None
    kernel_burst_pct: CpuPct | None = None
    memcpys_per_s: Amount | None = None
    cuda_mem_used_bytes: Amount | None = None


class CudaSample(TickRecord, frozen=True, kw_only=True):
    """Every pod of the node with such a library at one tick."""

    pods: tuple[CudaPod, ...]


class Container(RecordBase, frozen=True, kw_only=True):
    """Measures one container. Memory used is the working set; ``mem_limit_bytes`` is absent without a limit.

    A limit is read every ten ticks, and so is the memory of a container that has used no CPU since the tick
    before: then nothing of it ran that could have taken or given any.
    """

    id: Uid
    cpu_util_pct: CpuPct | None = None
    cpu_throttled_pct: Pct | None = None
    mem_used_bytes: Amount | None = None
    mem_limit_bytes: Amount | None = None
    io_read_bytes_per_s: Amount | None = None
    io_write_bytes_per_s: Amount | None = None


class PodCgroup(RecordBase, frozen=True, kw_only=True):
    """Measures one pod's cgroups. Network is absent for a pod on the host's network."""

    uid: Uid
    qos: Label | None = None
    net_rx_bytes_per_s: Amount | None = None
    net_tx_bytes_per_s: Amount | None = None
    containers: tuple[Container, ...] = written(tuple)


class CgroupSample(TickRecord, frozen=True, kw_only=True):
    """The host and every pod's cgroups at one tick."""

    host: Host
    pods: tuple[PodCgroup, ...]
