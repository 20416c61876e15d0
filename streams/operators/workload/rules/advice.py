"""Says what to do about a bottleneck, in a sentence or two. Numbers come from the evidence."""

from collections.abc import Callable, Mapping

from streams.operators.workload.rules.bottleneck import FAR_BELOW_LIMIT_PCT, HELD_GPUS

_GB = 1e9
_GIB = 2.0**30
_SPARE_PCT = 25.0
"""Of its memory limit: a pod that never needs as much has a limit that is far too high."""
Evidence = Mapping[str, float]


def advice(bottleneck: str, kind: str, of: Evidence) -> str | None:
    """Return text for a person, or None where there is nothing to say."""
    sentences = [_SAYS[bottleneck](kind, of)] if bottleneck in _SAYS else []
    sentences.append(_size(of, "cpu", "cores", "CPUs", 1.0))
    memory, limit = _size(of, "mem", "bytes", "GiB of memory", _GIB), of.get("mem_limit_bytes")
    used_pct = of.get("mem_limit_used_pct", 100.0)
    if not memory and limit is not None and used_pct < _SPARE_PCT:
        memory = f"host memory: {limit * used_pct / 100 / _GB:.3g} GB of {limit / _GB:.3g} GB are used"
    sentences.append(memory)
    return "; ".join(filter(None, sentences)) or None


def _size(of: Evidence, name: str, unit: str, what: str, scale: float) -> str:
    """Say what it asks for, what it used, and what would do; of a job that is what each of its pods does."""
    asked, most, enough = (
        of.get(f"{name}_{part}_{unit}", 0.0) / scale for part in ("request", "most", "enough")
    )
    if not 0 < enough < asked:
        return ""
    who = "each pod " if of.get("pods", 1) > 1 else ""
    return f"{who}asks for {_few(asked)} {what} and used at most {_few(most)}: ask for {_few(enough)}"


def _few(amount: float) -> str:
    return f"{amount:.1f}".removesuffix(".0")


def _idle(_kind: str, of: Evidence) -> str:
    wasted = f", {of['idle_cost']:.3g} of your currency" if "idle_cost" in of else ""
    idle_s, units = of.get("idle_s", 0), (("d", 86_400), ("h", 3_600), ("min", 60))
    unit, size = next(((unit, size) for unit, size in units if idle_s >= 2 * size), ("s", 1))
    held = f"holds {of.get('gpus', 1):.0f} GPU(s) and has used none for {idle_s / size:.0f} {unit}"
    if "loaded_mem_pct" in of:
        held += f", with {of['loaded_mem_pct']:.0f} % of their memory loaded"
        return f"{held}{wasted}: scale it to zero until it is asked, or share them"
    return f"{held}{wasted}: stop it, or share them"


def _input(kind: str, of: Evidence) -> str:
    if kind == "loading":
        rate = _rate(of, "input_bytes_per_s")
        return f"loads at {rate}: keep the model on a local disk, or cache it on the node"
    if "input_bytes_per_s" in of:
        rate = _rate(of, "input_bytes_per_s")
        return f"the GPU waits while data comes at {rate}: prefetch more, or use faster storage"
    if "host_cpu_pct" in of:
        return (
            "the GPU waits for data and the node's CPUs are full: move neighbours, or prepare data elsewhere"
        )
    if "cpu_waiting_pct" in of:
        return "the GPU waits while one CPU core is busy: use more loader workers"
    throttled = of.get("cpu_throttled_pct", 0)
    return f"the GPU waits for data, and the CPU limit throttles {throttled:.0f} % of the time: raise it"


def _over(_kind: str, of: Evidence) -> str:
    if of.get("idle_gpus", 0) >= 1:
        return f"{of['idle_gpus']:.0f} of {of.get('gpus', 0):.0f} GPUs do nothing: ask for fewer"
    if "gpu_mem_most_pct" not in of:  # its GPUs are what it needs
        return ""
    most = of["gpu_mem_most_pct"]
    return f"at most {most:.0f} % of GPU memory, and little of its time: a smaller GPU or a slice would do"


def _communication(_kind: str, of: Evidence) -> str:
    if "spins_power_pct" in of:
        seen = f", busy at {of['spins_power_pct']:.0f} % of their power"
    elif "pcie_bytes_per_s" in of:
        seen = f" at {_rate(of, 'pcie_bytes_per_s')} over PCIe"
    elif "nvlink_bytes_per_s" in of:
        seen = f" at {_rate(of, 'nvlink_bytes_per_s')} over NVLink"
    else:
        seen = f" at {_rate(of, 'net_bytes_per_s')}"
    return (
        f"GPUs wait for one another{seen}: overlap communication, accumulate gradients, or place ranks closer"
    )


def _some_held(by: str, of: Evidence) -> str:
    """Say that some GPUs are held down; their anomalies name them."""
    held, gpus = of[HELD_GPUS], of.get("gpus")
    which = f"{held:.0f} GPUs" if gpus is None else f"{held:.0f} of {gpus:.0f} GPUs"
    waits = "what works in step waits for " + ("it" if held == 1 else "them")
    return f"{by} holds down {which}, and {waits}"


def _power(_kind: str, of: Evidence) -> str:
    if HELD_GPUS in of:
        return f"{_some_held('power', of)}: look at the power supply, cables and limits"
    power = of.get("power_pct", 100)
    if power >= FAR_BELOW_LIMIT_PCT:
        return "the power limit holds the clocks down: raise it, or accept the slower clocks"
    return (
        f"power holds the clocks down at {power:.0f} % of the GPUs' limit: look at the power supply of the "
        "machine and its rack (power brake)"
    )


def _activity(of: Evidence) -> str:
    """Return what the GPU's counters say beside its utilization; of one without them, that there are none."""
    figures = (("SM", "sm_active_pct"), ("tensor cores", "tensor_active_pct"), ("memory", "dram_active_pct"))
    if not any(key in of for _, key in figures):
        return " as far as its utilization tells"
    known = ", ".join(f"{name} {of[key]:.0f} %" for name, key in figures if key in of)
    return f" (utilization {of.get('gpu_util_pct', 0):.0f} %, {known})"


def _rate(of: Evidence, name: str) -> str:
    rate = of.get(name, 0)
    return f"{rate / 1e9:.3g} GB/s" if rate >= 999.5e6 else f"{rate / 1e6:.3g} MB/s"


_SAYS: dict[str, Callable[[str, Evidence], str]] = {
    "idle": _idle,
    "input": _input,
    "over_provisioned": _over,
    "gpu": lambda _kind, of: (
        f"the GPU is the limit{_activity(of)}: larger batches, lower precision or more GPUs"
    ),
    "launch": lambda _kind, of: (
        f"kernels are too small{_activity(of)}: larger batches, CUDA graphs or torch.compile"
    ),
    "transfers": lambda _kind, of: (
        f"copies between host and GPU at {_rate(of, 'pcie_most_bytes_per_s')} leave it without work"
        f"{_activity(of)}: keep data on the GPU, pin memory, overlap copies with kernels"
    ),
    "occupancy": lambda _kind, of: (
        f"the multiprocessors hold {of.get('sm_occupancy_pct', 0):.0f} % of the warps that fit, and nothing "
        f"else is at its limit{_activity(of)}: larger batches or blocks, fewer registers and less shared "
        "memory each"
    ),
    "precision": lambda _kind, of: (
        f"it computes in 32-bit floats and not on tensor cores{_activity(of)}: autocast to bfloat16, or "
        "torch.set_float32_matmul_precision('high')"
    ),
    "memory_bandwidth": lambda _kind, _of: (
        "GPU memory is the limit: fuse kernels, quantize, or larger batches"
    ),
    "communication": _communication,
    "checkpoint": lambda _kind, of: (
        f"the GPU rests while {_rate(of, 'write_bytes_per_s')} are written: save in the background or less "
        "often, or to a faster disk"
    ),
    "host": lambda _kind, of: (
        f"the GPU waits while the host computes on {of.get('cpu_waiting_pct', 0) / 100:.1f} CPUs: move less "
        "off the GPU (optimizer, parameters), overlap it with kernels, or ask for more CPUs"
    ),
    "power": _power,
    "heat": lambda _kind, of: (
        f"{_some_held('heat', of)}: look at the cooling"
        if HELD_GPUS in of
        else "heat holds the clocks down: look at fans, air flow and neighbours"
    ),
    "imbalance": lambda _kind, _of: (
        "some ranks work while others wait: spread the work evenly, look for a slow one"
    ),
}
