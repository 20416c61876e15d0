"""A pod's last minutes, one byte a second and channel: small enough to be stored with every change.

A share is kept in whole percent, memory in half percents, a quantity as its logarithm, to 3.5 %. That is
finer than any rule that looks at it. 255 is absent.
"""

import base64
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from streams.operators.columns.arrays import Floats

Codes = npt.NDArray[np.uint8]

SPAN_MS = 10_000
"""Length of the spans that parts are of, aligned to the Unix epoch."""
SLOTS = 10
"""Seconds of a span."""
ABSENT = 255

_HALF, _ONE, _LOG = "half percent", "percent or count", "logarithm"
NVML: dict[str, str] = {
    "gpu_util_pct": _ONE,
    "mem_copy_util_pct": _ONE,
    "gpu_mem_pct": _HALF,
    "power_pct": _ONE,
    "power_w": _LOG,
    "pcie_kb_per_s": _LOG,
    "throttled_power_pct": _ONE,
    "throttled_heat_pct": _ONE,
    "idle_gpus": _ONE,
    "least_gpu_util_pct": _ONE,
}
"""Of the GPUs that a pod holds: memory, power and what holds clocks down only where it holds them alone.
``power_pct`` is a share of the limit; ``power_w`` is a sum; ``pcie_kb_per_s`` what a GPU receives or sends,
whichever is less, on average; ``least_gpu_util_pct`` is of its least busy GPU."""
CGROUP: dict[str, str] = {
    "cpu_pct": _LOG,
    "cpu_throttled_pct": _ONE,
    "read_kb_per_s": _LOG,
    "write_kb_per_s": _LOG,
    "rx_kb_per_s": _LOG,
    "tx_kb_per_s": _LOG,
    "mem_pct": _HALF,
    "mem_mb": _LOG,
    "host_cpu_pct": _ONE,
}
"""``mem_pct`` is a share of the pod's limit, ``host_cpu_pct`` of all the node's CPUs."""
CHANNELS: dict[str, str] = {**NVML, **CGROUP}
ROWS = {name: row for row, name in enumerate(CHANNELS)}
SOURCES: dict[str, dict[str, str]] = {"nvml": NVML, "cgroup": CGROUP}
_KINDS = np.array([(_HALF, _ONE, _LOG).index(kind) for kind in CHANNELS.values()])


def _kinds(channels: Mapping[str, str]) -> npt.NDArray[np.int64]:
    return np.array([ROWS[name] for name in channels])


_ROWS_OF = {source: _kinds(channels) for source, channels in SOURCES.items()}


def encode(source: str, values: Floats) -> Codes:
    """Values of a source's channels, on the last axis, as codes; NaN is absent."""
    kinds = _KINDS[_ROWS_OF[source]]
    scaled = np.where(kinds == 0, 2 * values, values)
    logs = kinds == 2
    scaled[..., logs] = 10 * np.log2(1 + values[..., logs])
    known = ~np.isnan(scaled)
    codes = np.full(values.shape, ABSENT, np.uint8)
    codes[known] = np.clip(np.rint(scaled[known]), 0, ABSENT - 1)
    return codes


def _table() -> Floats:
    codes = np.arange(256.0)
    table = np.stack([codes / 2, codes, 2 ** (codes / 10) - 1])
    table[:, ABSENT] = np.nan
    return table


_FLAT = _table()[_KINDS].ravel()
_OFFSETS = (256 * np.arange(len(CHANNELS), dtype=np.int16))[:, np.newaxis]


def decode(codes: Codes) -> Floats:
    """All channels by rows, shape (channels, seconds), as values; absent is NaN."""
    return np.asarray(_FLAT[codes + _OFFSETS])


def decode_one(channel: str, code: int) -> float:
    """The value of one code of a channel; NaN for absent."""
    return float(_FLAT[256 * ROWS[channel] + code])


def to_text(codes: Codes) -> str:
    """Codes as text."""
    return base64.b64encode(np.ascontiguousarray(codes).tobytes()).decode("ascii")


def from_text(text: str, rows: int) -> Codes:
    """Codes of ``rows`` channels, shape (rows, seconds). Raises ``ValueError`` for what cannot be such."""
    flat = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    return flat.reshape(rows, -1)
