"""What each peer computes: mean, min and max of every GPU metric, one value for a node and window.

One value for a node, not one for each GPU: a sample then stays one event, and nothing is partitioned anew.
Both would cost the peers more.
"""

from typing import Any

METRICS = (
    "gpu_util_pct",
    "mem_copy_util_pct",
    "mem_used_bytes",
    "power_w",
    "energy_j",
    "temp_c",
    "sm_clock_mhz",
    "mem_clock_mhz",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
)
Fold = dict[str, dict[str, list[float]]]
"""By GPU and metric: count, sum, min, max."""


def first(sample: dict[str, Any]) -> Fold:
    """The fold of a window's first sample."""
    return {
        gpu["uuid"]: {metric: [1, gpu[metric], gpu[metric], gpu[metric]] for metric in METRICS}
        for gpu in sample["gpus"]
    }


def fold(so_far: Fold, sample: dict[str, Any]) -> Fold:
    """Add a sample, in place."""
    for gpu in sample["gpus"]:
        stats = so_far[gpu["uuid"]]
        for metric in METRICS:
            value, stat = gpu[metric], stats[metric]
            stat[0] += 1
            stat[1] += value
            if value < stat[2]:
                stat[2] = value
            if value > stat[3]:
                stat[3] = value
    return so_far


def result(so_far: Fold) -> dict[str, dict[str, dict[str, float]]]:
    """The record that is sent."""
    return {
        uuid: {
            metric: {"mean": total / count, "min": least, "max": most}
            for metric, (count, total, least, most) in stats.items()
        }
        for uuid, stats in so_far.items()
    }
