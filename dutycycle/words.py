"""Puts figures and findings in words for people: the same on the screen, in lines and in a report."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from dutycycle.contract.records.insights import Insight
from dutycycle.contract.units import GIB, MIB

UNKNOWN = "·"
"""Instead of a value that is not known, so that it never looks like 0."""
_COMMON_EVIDENCE = (
    "gpu_util_pct", "sm_active_pct", "tensor_active_pct", "dram_active_pct", "power_pct", "waiting_pct",
    "cpu_util_pct", "cpu_throttled_pct", "gpu_mem_pct", "mem_copy_util_pct", "power_w", "io_bytes_per_s",
    "net_bytes_per_s", "mem_limit_used_pct", "gpus", "pods",
)  # fmt: skip
"""What every insight has of what is measured, the most telling first."""
_NO_WORDS = frozenset({"none", "unknown", "idle"})
_HELD_BACK = {
    "gpu": "GPU is the limit",
    "memory_bandwidth": "GPU memory is the limit",
    "input": "GPU waits for input",
    "communication": "GPUs wait for one another",
    "power": "slowed by power",
    "heat": "slowed by heat",
    "imbalance": "some GPUs wait for others",
    "launch": "kernels too small, or too few",
    "transfers": "copies between host and GPU take its time",
    "occupancy": "too few warps to hide waiting",
    "precision": "computes without tensor cores",
    "host": "GPU waits for its CPUs",
    "checkpoint": "GPU rests while it saves",
    "synchronization": "GPU waits for the host",
}


def moment(ts_ms: int) -> str:
    """Return a moment as text in UTC, to the second."""
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def percent_text(value: float | None) -> str:
    """Return ``71.2 %``; unknown is a dot, so that it never looks idle."""
    return UNKNOWN if value is None else f"{value:.1f} %" if value < 99.95 else f"{value:.0f} %"


def bytes_text(value: float | None) -> str:
    """Return bytes as MiB or GiB."""
    if value is None:
        return UNKNOWN
    return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value / MIB:.0f} MiB"


def of_bytes(used: float | None, total: float | None) -> str:
    """Return ``89.4 of 140.6 GiB``; without a total what is used alone."""
    if total is None:
        return bytes_text(used)
    of, total_text = bytes_text(used), bytes_text(total)
    return f"{of.removesuffix(' GiB')} of {total_text}" if total >= GIB else f"{of} of {total_text}"


def decimal_bytes(value: float) -> str:
    """Return bytes that were moved, in decimal units."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value / 1e3:.0f} kB"


def rate_text(bytes_per_s: float | None) -> str:
    """Return bytes a second in decimal units; unknown is a dot."""
    return UNKNOWN if bytes_per_s is None else f"{decimal_bytes(bytes_per_s)}/s"


def digits(value: float, most: int = 3) -> str:
    """Return a number of so many significant digits, and never as a power of ten: ``2160`` and not
    ``2.16e+03``."""
    text = f"{value:.{most}g}"
    return f"{float(text):.0f}" if "e+" in text else text


def short_duration(seconds: float) -> str:
    """Return ``95`` s as ``1m35s``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s" if whole % 60 else f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"


def rounded_duration(seconds: float) -> str:
    """Return a length of time that is only estimated: ``95 s``, ``12 min``, ``3.4 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


PREDICTED: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("duration_s", "duration", short_duration),
    ("gpu_mem_bytes", "memory of one GPU", bytes_text),
    ("gpu_util_pct", "GPU utilization, max", lambda value: f"{value:.0f} %"),
    ("cpu_cores", "CPUs, p95", lambda value: f"{value:.1f}"),
    ("mem_bytes", "memory, max", bytes_text),
)
"""What similar pods say of a pod: the figure (one of ``sinks.scheduling.core.similar.FIGURES``), its title,
and how its values are written."""


def named_figure(name: str, value: float) -> tuple[str, str]:
    """Return a figure of an insight's evidence with its unit: (``CPU waiting``, ``12 %``)."""
    if name.endswith("_bytes_per_s"):
        return _spaced(name.removesuffix("_bytes_per_s")), decimal_bytes(value) + "/s"
    if name.endswith("_bytes"):
        return _spaced(name.removesuffix("_bytes")), decimal_bytes(value)
    endings = (("_pct", "%"), ("_w", "W"), ("_j", "J"), ("_per_s", "a second"), ("_per_min", "a minute"),
               ("_s", "s"), ("_cores", "cores"))  # fmt: skip
    for ending, unit in endings:
        if name.endswith(ending):
            of = " of limit" if name == "power_pct" else ""
            return _spaced(name.removesuffix(ending)) + of, f"{digits(value, 4)} {unit}"
    return _spaced(name), digits(value, 4)


def evidence_figures(evidence: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the figures of an insight's evidence with their units, as ``named_figure``: first those that
    only verdicts like this one have, since they decide it."""
    order = {name: place for place, name in enumerate(_COMMON_EVIDENCE)}
    return [
        named_figure(name, evidence[name]) for name in sorted(evidence, key=lambda name: order.get(name, -1))
    ]


def _spaced(name: str) -> str:
    return name.replace("_", " ").replace("gpu", "GPU").replace("cpu", "CPU").replace("mem ", "memory ")


def held_back(insight: Insight) -> str:
    """Return what holds a pod or job back; empty where nothing does, or nothing is known of it."""
    if insight.bottleneck == "over_provisioned":
        return asks_too_much(insight)
    if insight.bottleneck in _NO_WORDS or insight.bottleneck == insight.kind:
        return ""
    return _HELD_BACK.get(insight.bottleneck, insight.bottleneck.replace("_", " "))


def asks_too_much(insight: Insight) -> str:
    """Return ``asks for 4 GPUs, uses 1``; of CPUs and memory too; without figures only that it is so."""
    of = insight.evidence
    gpus, idle = of.get("gpus", 0), of.get("idle_gpus", 0)
    if idle >= 1:
        return f"asks for {gpus:.0f} GPUs, uses {gpus - idle:.0f}"
    if "cpu_request_cores" in of and "cpu_most_cores" in of:
        return f"asks for {of['cpu_request_cores']:.3g} CPUs, uses {of['cpu_most_cores']:.3g}"
    if "mem_request_bytes" in of and "mem_most_bytes" in of:
        return f"asks for {bytes_text(of['mem_request_bytes'])}, uses {bytes_text(of['mem_most_bytes'])}"
    return "a smaller GPU would do" if "gpu_mem_most_pct" in of else "asks for more than it uses"


def kind_words(kind: str, confidence: float) -> str:
    """Return ``training (90% sure)``."""
    return "kind not known" if kind == "unknown" else f"{kind} ({confidence:.0%} sure)"


def does(insight: Insight) -> str:
    """Return ``training: GPU waits for input``; of an unknown kind what holds it back alone."""
    parts = (insight.kind if insight.kind != "unknown" else "", held_back(insight))
    return ": ".join(filter(None, parts))


def capitalized(text: str) -> str:
    """Return a text that begins with a capital, and is else as it was."""
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are; ``none`` without any."""
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def counts_text(tally: Mapping[str, int]) -> str:
    """Return ``3 cycles, 12 trends``, by name; ``nothing`` for none."""
    return ", ".join(f"{count} {name}" for name, count in sorted(tally.items())) or "nothing"


def aligned(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, headers: bool = True, gap: str = "   "
) -> str:
    """Return a table aligned by spaces, one line a row. A header that ends in ``>`` puts its column to the
    right."""
    lines = [[column.removesuffix(">") for column in columns]] * headers + list(map(list, rows))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ""
    for line in lines:
        cells = zip(line, widths, columns, strict=True)
        padded = (cell.rjust(wide) if name.endswith(">") else cell.ljust(wide) for cell, wide, name in cells)
        text += gap.join(padded).rstrip() + "\n"
    return text
