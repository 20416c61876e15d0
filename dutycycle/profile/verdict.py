"""Judges what holds a profiled program back, in the words of the insights, and kernels by family.

The parts of the GPUs' time add up to all of it. So the bottleneck is the largest part that is no computation;
where computation has nearly all, it is the GPU itself. Two words are for profiles alone, since nothing of
them can be seen from outside: ``launch`` and ``synchronization``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dutycycle.contract.units import Number
from dutycycle.profile.statistics import Spread
from dutycycle.profile.timeline import GpuTime
from dutycycle.report.profiled import Cell, StatisticsTable
from streams.operators.workload.rules.advice import advice as advice_of
from streams.operators.workload.rules.finding import (
    NO_BOTTLENECK,
    UNKNOWN_BOTTLENECK,
    Finding,
    confidence,
    ramp,
)

GPU_TIME = "GPU time"
Evidence = dict[str, Number]
_OF_BOTTLENECK = {
    "input": ("wait_input_pct", "copies_to_gpu_pct"),
    "synchronization": ("wait_synchronization_pct", "copies_from_gpu_pct"),
    "communication": ("communication_pct",),
    "launch": ("wait_launch_pct",),
    UNKNOWN_BOTTLENECK: ("wait_host_pct", "wait_unexplained_pct", "wait_queued_pct"),
}
_LEAST_PCT, _PLAIN_PCT = 10.0, 30.0
_COMPUTE_PCT = (75.0, 92.0)
_INDIRECT = 0.65
"""As sure as one can be of memory bandwidth by the names of kernels."""
_PAGEABLE_PCT = 20.0
_FAMILIES = {
    "communication": r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|nvshmem",
    "attention": r"flash|fmha|attention|sdpa|mha_",
    "optimizer": r"adam|sgd|lamb(?!da)|fused_optim",
    "softmax": r"softmax",
    "normalization": r"norm|\bbn_",
    "layout": r"nchwtonhwc|nhwctonchw|transpose|permute|catarray|copy|im2col|padding",
    "convolution": r"conv(?!ert)|winograd|wgrad|dgrad|fprop|cudnn",
    "matrix multiplication": r"gemm|gemv|cutlass|cublas|xmma|nvjet|matmul|wgmma|splitk|cijk_",
    "pooling": r"pool",
    "indexing": r"index|gather|scatter|embedding|sort|topk|radix",
    "reduction": r"reduce|triton_(red|per)|argmax|cumsum|scan",
    "elementwise": r"elementwise|pointwise|triton_poi|multi_tensor_apply|dropout|relu|gelu|silu|fill",
}
_BOUND_BY_MEMORY = (
    "optimizer", "softmax", "normalization", "layout", "pooling", "indexing", "reduction", "elementwise",
)  # fmt: skip
_OTHER = "other"


def family_of(kernel: str) -> str:
    """Return what sort of kernel it is, by its name."""
    lower = kernel.lower()
    return next((name for name, pattern in _FAMILIES.items() if re.search(pattern, lower)), _OTHER)


def families(kernels: Sequence[Spread]) -> StatisticsTable:
    """Return kernels by family, with the largest kernel of each."""
    total = sum(kernel.total for kernel in kernels) or 1
    by_family: dict[str, list[Spread]] = {}
    for kernel in kernels:
        by_family.setdefault(family_of(kernel.name), []).append(kernel)
    rows = sorted(
        (
            (round(100 * time / total, 1), time, sum(member.count for member in members), largest.name, name)
            for name, members in by_family.items()
            for time in [sum(member.total for member in members)]
            for largest in [max(members, key=lambda member: member.total)]
        ),
        key=lambda row: -row[1],
    )
    columns = ("Time (%)", "Total Time (ns)", "Instances", "Family", "Largest Kernel")
    return StatisticsTable("Kernel families", columns, [(*row[:3], row[4], row[3]) for row in rows])


def time_of(gpus: Mapping[str, GpuTime]) -> Iterator[StatisticsTable]:
    """Yield where the time of all GPUs went, and each GPU."""
    span = sum(gpu.span for gpu in gpus.values())
    shares = [gpu.shares() for gpu in gpus.values()]
    totals = {name: sum(share[name] for share in shares) for name in _PARTS}
    rows: list[tuple[Cell, ...]] = [
        (_pct(total, span), total, _PARTS[name]) for name, total in totals.items() if total
    ]
    yield StatisticsTable(GPU_TIME, ("Time (%)", "Total Time (ns)", "What"), rows)
    columns = (
        "Busy (%)",
        "Compute (%)",
        "Span (ns)",
        "Activities",
        "Longest Wait (ns)",
        "For",
        "GPU",
    )
    yield StatisticsTable(
        "GPUs",
        columns,
        [
            (_pct(gpu.busy, gpu.span), _pct(gpu.shares()["compute"], gpu.span), gpu.span, gpu.activities,
             gpu.longest[0], gpu.longest[2], name)
            for name, gpu in gpus.items()
        ],
    )  # fmt: skip


_PARTS = {
    "compute": "computing",
    "communication": "communicating, and not computing",
    "copies_to_gpu": "copying to the GPU, and nothing else",
    "copies_from_gpu": "copying from the GPU, and nothing else",
    "wait_input": "idle: the host loads data",
    "wait_synchronization": "idle: the host had waited for the GPU, and had nothing ready",
    "wait_launch": "idle: the host is busy launching",
    "wait_host": "idle: the host does something else",
    "wait_queued": "idle: what comes next is queued, and waits for its turn",
    "wait_unexplained": "idle: the call that ended it was not traced",
}


def evidence_of(
    gpus: Iterable[GpuTime], kernels: Sequence[Spread], waited: tuple[int, int], pageable: float | None
) -> Evidence:
    """Return the figures of all GPUs together. ``waited``: how often and how long (ns) the host waited for a
    GPU. ``pageable``: the part of what was copied to GPUs that came from pageable memory, in percent."""
    every = list(gpus)
    span = sum(gpu.span for gpu in every)
    if not span:
        return {}
    evidence: Evidence = {"gpus": len(every), "gpu_busy_pct": _pct(sum(gpu.busy for gpu in every), span)}
    for name in every[0].shares():
        evidence[f"{name}_pct"] = _pct(sum(gpu.shares()[name] for gpu in every), span)
    if copied := sum(gpu.copies.total for gpu in every):
        evidence["copies_overlapped_pct"] = _pct(sum(gpu.overlapped for gpu in every), copied)
    if pageable is not None:
        evidence["pageable_pct"] = round(pageable, 1)
    if count := sum(kernel.count for kernel in kernels):
        evidence["kernel_mean_us"] = round(sum(kernel.total for kernel in kernels) / count / 1e3, 1)
        evidence["kernels_per_s"] = round(count / (span / len(every)) * 1e9)
    evidence["queue_empty_pct"] = _pct(sum(gpu.late for gpu in every), sum(gpu.activities for gpu in every))
    evidence["synchronizations"], evidence["synchronizing_s"] = waited[0], round(waited[1] / 1e9, 3)
    evidence["longest_wait_ms"] = round(max(gpu.longest[0] for gpu in every) / 1e6, 3)
    if len(every) > 1:
        shares = [_pct(gpu.unions[0].total, max(last.span for last in every)) for gpu in every]
        evidence["gpu_util_gap_pct"] = round(max(shares) - min(shares), 1)
    return evidence


def _pct(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def judge(evidence: Mapping[str, Number], kernels: Sequence[Spread]) -> Finding:
    """Return what holds it back."""
    if not evidence:
        return Finding(UNKNOWN_BOTTLENECK, 1.0)
    parts = {name: sum(evidence[part] for part in of) for name, of in _OF_BOTTLENECK.items()}
    largest = max(parts, key=lambda name: parts[name])
    held = Finding(largest, confidence(ramp(parts[largest], _LEAST_PCT, _PLAIN_PCT)))
    gap = confidence(ramp(evidence.get("gpu_util_gap_pct", 0), 15, 35))
    computes = confidence(ramp(evidence["compute_pct"], *_COMPUTE_PCT))
    if gap > held.confidence:
        return Finding("imbalance", gap)
    if held.confidence >= max(0.5, computes):
        return held
    if computes >= 0.5:
        computing = [kernel for kernel in kernels if family_of(kernel.name) != "communication"]
        bound = sum(kernel.total for kernel in computing if family_of(kernel.name) in _BOUND_BY_MEMORY)
        bound_by_memory_pct = 100 * bound / (sum(kernel.total for kernel in computing) or 1)
        memory = min(confidence(ramp(bound_by_memory_pct, 55, 80)), _INDIRECT)
        return Finding("memory_bandwidth", memory) if memory >= 0.5 else Finding("gpu", computes)
    return Finding(NO_BOTTLENECK, 0.6)


def advice(bottleneck: str, of: Mapping[str, Number]) -> str | None:
    """Return what to do about it."""
    if bottleneck == "input" and of["copies_to_gpu_pct"] > of["wait_input_pct"]:
        sentence = (
            f"copies to the GPU alone take {of['copies_to_gpu_pct']:g} % of the time: send the next data "
            "while kernels run (another stream, non_blocking=True), or keep more of it on the GPU"
        )
    elif bottleneck in _SAYS:
        sentence = _SAYS[bottleneck].format_map({name: f"{value:g}" for name, value in of.items()})
    elif bottleneck == UNKNOWN_BOTTLENECK and of:
        late = of["wait_host_pct"] + of["wait_unexplained_pct"]
        sentence = (
            f"for {late:g} % of the time the GPU waits for a host that does something else: look for it in "
            "the ranges, or with a sampling profiler such as py-spy"
        )
        if of["wait_queued_pct"] > late:
            sentence = (
                f"for {of['wait_queued_pct']:g} % of the time work is queued, and the GPU does not begin it: "
                "look for waits between streams, or use fewer and larger kernels"
            )
    else:
        sentence = advice_of(bottleneck, "", of) or ""
    if of.get("pageable_pct", 0) >= _PAGEABLE_PCT and bottleneck in ("input", "synchronization"):
        sentence += (
            "; copies to the GPU come from pageable memory, which is slow and makes the host wait: pin it"
        )
        sentence += " (pin_memory=True) and copy with non_blocking=True"
    return sentence or None


_SAYS = {
    "input": "the GPU waits for data {wait_input_pct} % of the time: use more loader workers, and prefetch",
    "synchronization": "the host waits for the GPU {synchronizations} times and the GPU then for the host: "
    "fewer .item(), .cpu() and synchronize() in the loop",
    "launch": "kernels take {kernel_mean_us} µs on average, and end before the host has launched the next: "
    "fuse them (torch.compile), use CUDA graphs, or larger batches",
    "communication": "for {communication_pct} % of the time GPUs do nothing but communicate: overlap it with "
    "computation, accumulate gradients, or place ranks closer",
}
