"""What explains a figure, by its name on a page or in a report."""

import pytest

from dutycycle.web.about import TERMS, address_of, anchor, metrics, place_of

PLACES = {
    "GPU utilization": "nvml-gpu_util_pct", "GPU use, max": "nvml-gpu_util_pct",
    "GPU util": "nvml-gpu_util_pct", "Utilization mean": "nvml-gpu_util_pct",
    "GPU utilization by rank": "nvml-gpu_util_pct",
    "GPU memory, max of one": "nvml-mem_used_bytes", "GPU mem": "nvml-mem_used_bytes", "memory": "memory",
    "memory, max": "memory", "Host memory of the machine, max": "memory", "Memory max": "memory-max",
    "memory enough": "memory",
    "NVLink, both ways": "nvml-nvlink_bytes_per_s", "sm active": "nvml-sm_active_pct",
    "power of limit": "nvml-power_w", "Max °C": "nvml-temp_c", "Forecast: GPU memory, gpu 1": "forecast",
    "Working, of the busy time": "working", "CPU of the machines": "cgroup-cpu_util_pct", "cycle, s": "cycle",
    "Cost": "cost", "Disk of the machine": "disk", "kWh": "nvml-energy_j", "Duration": "lasted",
    "does; held back by": "does", "age of the figures": "age", "memory of one GPU": "nvml-mem_used_bytes",
    "pod, process": None, "<script>": None,
}  # fmt: skip


@pytest.mark.parametrize(("name", "place"), PLACES.items(), ids=PLACES)
def test_a_figure_leads_to_what_explains_it(name: str, place: str | None) -> None:
    assert place_of(name) == place
    assert address_of(name) == (None if place is None else f"about#{place}")
    assert place in {None, *map(anchor, TERMS), *(metric["id"] for metric in metrics())}
