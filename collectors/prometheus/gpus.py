"""From dcgm-exporter's metrics to GPUs. Pure.

Units of DCGM's fields (NVIDIA's field identifiers): utilization in percent, framebuffer in MiB, power in
watts, energy in millijoules since the driver was loaded, clocks in MHz, PCIe traffic in bytes per second.

Exporters before 2.0 have the same fields under names of their own (``dcgm_gpu_utilization``), and the label
``uuid``. Where a GPU has both, the newer names count.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from collectors.prometheus.labels import PodIndex, Workload, gpu_workload_of
from collectors.prometheus.series import NewSample, SeriesLabels
from collectors.throttle import throttle_names
from dutycycle.contract.records.samples import Allocation, Gpu, MigDevice

MIB = 1024 * 1024
_BLANKS = frozenset({*range(0x7FFFFFF0, 0x7FFFFFF4), *(2.0**47 + n for n in range(4)), float(2**63 - 16)})
"""What DCGM writes for a value that it does not have, as 32-bit integer, as double, as 64-bit integer."""

_FIELDS: dict[str, tuple[str, Callable[[float], Any]]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_util_pct", lambda value: min(value, 100)),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("mem_copy_util_pct", lambda value: min(value, 100)),
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", float),
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": ("power_limit_w", float),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_j", lambda value: value / 1000),
    "DCGM_FI_DEV_GPU_TEMP": ("temp_c", float),
    "DCGM_FI_DEV_GPU_TEMP_LIMIT": ("temp_margin_c", float),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", float),
    "DCGM_FI_DEV_MEM_CLOCK": ("mem_clock_mhz", float),
    "DCGM_FI_DEV_PCIE_LINK_GEN": ("pcie_gen", round),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": ("pcie_width", round),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_rx_bytes_per_s", round),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_tx_bytes_per_s", round),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("throttle", lambda value: throttle_names(int(value))),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": ("throttle", lambda value: throttle_names(int(value))),
}
_USED, _FREE, _RESERVED = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"
_ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_OLD_NAMES = {
    "dcgm_gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "dcgm_mem_copy_utilization": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "dcgm_power_usage": "DCGM_FI_DEV_POWER_USAGE",
    "dcgm_total_energy_consumption": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "dcgm_gpu_temp": "DCGM_FI_DEV_GPU_TEMP",
    "dcgm_sm_clock": "DCGM_FI_DEV_SM_CLOCK",
    "dcgm_memory_clock": "DCGM_FI_DEV_MEM_CLOCK",
    "dcgm_mem_clock": "DCGM_FI_DEV_MEM_CLOCK",
    "dcgm_fb_used": _USED,
    "dcgm_fb_free": _FREE,
}
GPU_SELECTOR = '{__name__=~"' + "|".join([*_FIELDS, _USED, _FREE, _RESERVED, _ENGINE, *_OLD_NAMES]) + '"}'


def gpus(samples: Iterable[NewSample], pod_index: PodIndex) -> tuple[Gpu, ...]:
    """The GPUs of one node, by index; one without a number is left out."""
    devices: dict[str, list[NewSample]] = defaultdict(list)
    for one in samples:
        uuid = one.labels.get("UUID") or one.labels.get("uuid")
        if uuid and one.value >= 0 and one.value not in _BLANKS:
            devices[uuid].append(one)
    found = [gpu for uuid, of in devices.items() if (gpu := _gpu(uuid, of, pod_index)) is not None]
    return tuple(sorted(found, key=lambda gpu: (gpu.index, gpu.uuid)))


def _gpu(uuid: str, samples: list[NewSample], pod_index: PodIndex) -> Gpu | None:
    index = samples[0].labels.get("gpu", "")
    if not (index.isascii() and index.isdigit()):
        return None
    values = _values(one for one in samples if not one.labels.get("GPU_I_ID"))
    fields = {_FIELDS[name][0]: _FIELDS[name][1](value) for name, value in values.items() if name in _FIELDS}
    used, total = _memory(values)
    return Gpu(
        uuid=uuid, index=int(index), model=samples[0].labels.get("modelName") or None, mem_used_bytes=used,
        mem_total_bytes=total, mig=_slices(uuid, samples), allocated=_holders(uuid, samples, pod_index),
        **fields,
    )  # fmt: skip


def _values(samples: Iterable[NewSample]) -> dict[str, float]:
    """The values by DCGM's names."""
    named = {one.name: one.value for one in samples}
    return {_OLD_NAMES[name]: value for name, value in named.items() if name in _OLD_NAMES} | named


def _memory(mib: Mapping[str, float]) -> tuple[int | None, int | None]:
    """Used and total bytes. What the driver keeps for itself is in the total, where the exporter has it."""
    used = round(mib[_USED] * MIB) if _USED in mib else None
    if used is None or _FREE not in mib:
        return used, None
    return used, used + round((mib[_FREE] + mib.get(_RESERVED, 0)) * MIB)


def _slices(uuid: str, samples: Iterable[NewSample]) -> tuple[MigDevice, ...] | None:
    """MIG slices, by the older form of their names: an exporter has the instance's number, not its uuid."""
    slices: dict[str, list[NewSample]] = defaultdict(list)
    for one in samples:
        if instance := one.labels.get("GPU_I_ID"):
            slices[instance].append(one)
    return tuple(_slice(_slice_name(uuid, instance), slices[instance]) for instance in sorted(slices)) or None


def _slice_name(uuid: str, instance: str) -> str:
    """The older form of a slice's name."""
    return f"MIG-{uuid}/{instance}/0"


def _slice(name: str, samples: list[NewSample]) -> MigDevice:
    values = _values(samples)
    used, total = _memory(values)
    active = values.get(_ENGINE)
    return MigDevice(
        uuid=name, profile=samples[0].labels.get("GPU_I_PROFILE") or None, mem_used_bytes=used,
        mem_total_bytes=total,
        gpu_util_pct=None if active is None else min(100, round(100 * active, 3)),
    )  # fmt: skip


def _holders(uuid: str, samples: Iterable[NewSample], pod_index: PodIndex) -> tuple[Allocation, ...] | None:
    """The containers that the GPU or its slices were given to, as the exporter has it from the kubelet.

    None without any such label: an exporter outside Kubernetes has none, nor has one for a GPU that is free.
    """
    given: dict[tuple[Workload, str | None], SeriesLabels] = {}
    for one in samples:
        if (who := gpu_workload_of(one.labels)) is not None:
            given.setdefault((who, one.labels.get("GPU_I_ID")), one.labels)
    holders = (
        Allocation(
            pod_uid=pod_index.find(who, labels), namespace=who.namespace, pod=who.pod,
            container=who.container or None, mig=_slice_name(uuid, instance) if instance else None,
        )
        for (who, instance), labels in given.items()
    )  # fmt: skip
    return tuple(holders) or None
