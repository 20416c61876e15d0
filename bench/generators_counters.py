"""What the counters of a Hopper say of seeded pods: activity of multiprocessors, tensor cores and memory.

Each figure follows from the pod's utilization: nothing works inside of a GPU that is not in use. Shares are
those of NVIDIA's guide to DCGM's profiling metrics and of published runs: a large training has 35 to 75 % on
its tensor cores, decoding of a language model 60 to 80 % of the memory's bandwidth, and kernels that only
spin touch neither. A second is missing now and then, and figures jitter as means of a second do.
"""

from dataclasses import dataclass, replace

import numpy as np

from bench.generators import Floats, Rng
from bench.generators_jobs import Pod
from bench.generators_jobs import pod as make_pod
from dutycycle.contract.metering import FalseZeros
from dutycycle.contract.records.samples import Gpu

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Inside:
    """Ranges that a pod's level is drawn from. ``sm`` and ``dram`` are shares of utilization, ``tensor``,
    ``fp32`` and ``occupancy`` of SM activity. ``nvlink_mb``: MB a second that a GPU of several receives,
    ``pcie_mb``: that any receives from the host. ``truth``: what
    holds it back; empty for what the pod's shape says. ``quiet``: nothing goes over network and PCIe."""

    sm: Range = (0.8, 0.98)
    tensor: Range = (0.45, 0.8)
    dram: Range = (0.2, 0.42)
    fp32: Range = (0.02, 0.1)
    occupancy: Range = (0.15, 0.6)
    nvlink_mb: Range = (1e2, 6e4)
    pcie_mb: Range = (1e1, 1.5e3)
    truth: str = ""
    quiet: bool = False


_SERVES = Inside(sm=(0.55, 0.9), tensor=(0.1, 0.5), dram=(0.1, 0.4))
_USUAL = Inside()
SHAPES: dict[str, tuple[str, Inside]] = {
    "compute": ("compute", _USUAL),
    "small_kernels": (
        "launches",
        Inside((0.03, 0.16), (0.05, 0.3), (0.03, 0.12), truth="launch"),
    ),
    "copies": (
        "launches",
        Inside((0.05, 0.25), (0.05, 0.3), (0.05, 0.3), pcie_mb=(7e3, 3e4), truth="transfers"),
    ),
    "few_warps": (
        "launches",
        Inside((0.75, 0.95), (0.0, 0.1), (0.02, 0.2), (0.02, 0.12), (0.06, 0.14), truth="occupancy"),
    ),
    "float32": ("compute", Inside(tensor=(0.0, 0.02), fp32=(0.36, 0.7), truth="precision")),
    "decodes": ("saturated", Inside((0.6, 0.95), (0.04, 0.25), (0.62, 0.82))),
    "communicates": ("communicates", Inside((0.05, 1.0), (0.02, 0.1), (0.02, 0.08))),
    "waits_on_nvlink": (
        "communicates",
        Inside(
            (0.6, 1.0), (0.05, 0.2), (0.05, 0.2), nvlink_mb=(2.1e5, 3.5e5), truth="communication", quiet=True
        ),
    ),
    "spins": (
        "communicates",
        Inside((0.05, 1.0), (0.0, 0.003), (0.0, 0.004), nvlink_mb=(0, 1), truth="communication", quiet=True),
    ),
    "false_zeros": ("compute", Inside((0, 0), (0, 0), (0, 0), (0, 0), (0, 0))),
    **{shape: (shape, _USUAL) for shape in ("capped", "hot", "stalled", "one_core", "uneven", "spare")},
    **{shape: (shape, _SERVES) for shape in ("tiny", "fitting")},
}
"""By name the shape of ``generators_jobs``, and what is inside. After an error DCGM writes zeros."""


def counted_pod(name: str, seed: int) -> tuple[Pod, Pod]:
    """Make the pod of a shape and seed as a GPU without counters shows it, and as one with them does."""
    shape, inside = SHAPES[name]
    pod = make_pod(shape, seed)
    rng = np.random.default_rng([seed, *name.encode()])
    if inside.quiet:
        few = (rng.uniform(size=pod.kind.size) < 0.2) * rng.exponential(6, pod.kind.size)
        still = dict.fromkeys(("rx_kb_per_s", "tx_kb_per_s", "pcie_kb_per_s"), few)
        pod = replace(pod, values=pod.values | still, gpus=max(pod.gpus, 8))
    pod = replace(pod, bottleneck=inside.truth or pod.bottleneck)
    return pod, replace(pod, values=pod.values | _counters(pod, inside, rng))


def _counters(pod: Pod, inside: Inside, rng: Rng) -> dict[str, Floats]:
    util = pod.values["gpu_util_pct"]
    sm = _follows(util, inside.sm, rng)
    tensor = _follows(sm, inside.tensor, rng)
    # The pipes for floats beside the tensor cores idle while those work.
    fp32 = np.minimum(_follows(sm, inside.fp32, rng), np.maximum(sm - tensor, 0))
    copied_kb = 1e3 * _follows(util, inside.pcie_mb, rng, most=1e6) / 100
    counters = {
        "sm_active_pct": sm, "tensor_active_pct": tensor, "dram_active_pct": _follows(util, inside.dram, rng),
        "fp32_active_pct": fp32, "sm_occupancy_pct": _follows(sm, inside.occupancy, rng),
        "pcie_most_kb_per_s": pod.values["pcie_kb_per_s"] + copied_kb,
    }  # fmt: skip
    if pod.gpus > 1:
        counters["nvlink_mb_per_s"] = rng.uniform(*inside.nvlink_mb) * np.clip(util / 100, 0, 1)
    missing = rng.uniform(size=util.size) < 0.004  # they come from one call
    # In which seconds a collector leaves the counters out
    names, left_out, false_zeros = ("sm_active_pct", "tensor_active_pct", "dram_active_pct"), [], FalseZeros()
    for power, *figures in zip(pod.values["power_pct"], *(counters[name] for name in names), strict=True):
        told = dict(zip(names, figures, strict=True))
        gpu = Gpu(uuid="GPU-1", index=0, power_w=power, power_limit_w=100, **told)
        left_out.append(false_zeros.drop(gpu).sm_active_pct is None)
    missing |= np.array(left_out)
    return {name: np.where(missing, np.nan, values) for name, values in counters.items()}


def _follows(whole: Floats, share: Range, rng: Rng, most: float = 100) -> Floats:
    """Give a part of ``whole``: a share that was drawn once, with noise of its own."""
    level = rng.uniform(*share)
    return np.clip(np.round(whole * level * (1 + 0.05 * rng.normal(size=whole.size)), 1), 0, most)
