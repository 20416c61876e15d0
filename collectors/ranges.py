"""What a GPU can have. A value outside was not measured, as drivers and DCGM write garbage at times
(NVIDIA/DCGM#199, NVIDIA/dcgm-exporter#418): it is absent and counted, and not cut to what can be."""

from collections.abc import Mapping

PCT = (0.0, 100.0)
WATTS = (0.0, 20_000.0)
GPU_RANGES: Mapping[str, tuple[float, float]] = {
    "gpu_util_pct": PCT, "mem_copy_util_pct": PCT, "mem_used_bytes": (0, 1e14), "mem_total_bytes": (0, 1e14),
    "power_w": WATTS, "power_limit_w": WATTS, "energy_j": (0, 1e15), "temp_c": (-100, 250),
    "temp_margin_c": (-250, 250), "sm_clock_mhz": (0, 20_000), "mem_clock_mhz": (0, 50_000),
    "pcie_gen": (1, 32), "pcie_width": (1, 64), "pcie_rx_bytes_per_s": (0, 1e13),
    "pcie_tx_bytes_per_s": (0, 1e13),
}  # fmt: skip
"""By field of a ``Gpu``, in its unit."""
