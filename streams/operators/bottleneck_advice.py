"""What to do about a bottleneck, in a sentence or two. Numbers come from the evidence."""

from collections.abc import Callable, Mapping

_GB = 1e9
_SPARE_PCT = 25.0
"""Of its memory limit: a pod that never needs as much has a limit that is far too high."""
Evidence = Mapping[str, float]


def advice(bottleneck: str, kind: str, of: Evidence) -> str | None:
    """Text for a person, or None where there is nothing to say."""
    said = [_SAYS[bottleneck](kind, of)] if bottleneck in _SAYS else []
    limit = of.get("mem_limit_bytes")
    if limit is not None and of.get("mem_limit_used_pct", 100.0) < _SPARE_PCT:
        used = limit * of["mem_limit_used_pct"] / 100
        said.append(f"host memory: {used / _GB:.3g} GB of {limit / _GB:.3g} GB are used")
    return "; ".join(said) or None


def _idle(_kind: str, of: Evidence) -> str:
    wasted = f", {of['idle_cost']:.3g} of your currency" if "idle_cost" in of else ""
    held = f"holds {of.get('gpus', 1):.0f} GPU(s) and has used none for {_span(of.get('idle_s', 0))}"
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
    most = of.get("gpu_mem_most_pct", 0)
    return f"at most {most:.0f} % of GPU memory, and little of its time: a smaller GPU or a slice would do"


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _rate(of: Evidence, name: str) -> str:
    return f"{of.get(name, 0) / 1e6:.3g} MB/s"


_SAYS: dict[str, Callable[[str, Evidence], str]] = {
    "idle": _idle,
    "input": _input,
    "over_provisioned": _over,
    "gpu": lambda _kind, _of: "the GPU is the limit: larger batches, lower precision or more GPUs",
    "memory_bandwidth": lambda _kind, _of: (
        "GPU memory is the limit: fuse kernels, quantize, or larger batches"
    ),
    "communication": lambda _kind, of: (
        f"GPUs wait for one another at {_rate(of, 'net_bytes_per_s')}: overlap communication, accumulate "
        "gradients, or place ranks closer"
    ),
    "power": lambda _kind, _of: (
        "the power limit holds the clocks down: raise it, or accept the slower clocks"
    ),
    "heat": lambda _kind, _of: "heat holds the clocks down: look at fans, air flow and neighbours",
    "imbalance": lambda _kind, _of: (
        "some ranks work while others wait: spread the work evenly, look for a slow one"
    ),
}
