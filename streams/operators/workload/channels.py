"""Codes the channels of a pod, and their values as bytes: one byte a second and channel.

A channel is one measured quantity of a pod by the second. A byte (a *code*) holds a share in whole percent,
memory in half percents, and any other quantity as its logarithm in steps of 3.5 %. That is finer than any
rule or feature needs, and four minutes of a pod are 5 kB.
"""

from binascii import a2b_base64, b2a_base64

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints

Codes = npt.NDArray[np.uint8]
"""Codes by channel and second, newest second last."""

SPAN_S = 10
"""Seconds of a span: nodes send their pods' channels in spans, aligned to the Unix epoch."""
SPAN_MS = 1000 * SPAN_S
ABSENT_CODE = 255
IDLE_PCT = 5.0
"""A GPU with less utilization is idle."""

_HALF, _ONE, _LOG = range(3)
NVML_CHANNELS = {
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
    "busiest_gpu_util_pct": _ONE,
    "sm_active_pct": _ONE,
    "tensor_active_pct": _ONE,
    "dram_active_pct": _ONE,
    "fp32_active_pct": _ONE,
    "nvlink_mb_per_s": _LOG,
    "sm_occupancy_pct": _ONE,
    "pcie_most_kb_per_s": _LOG,
}
"""What ``nvml-samples`` tell of a pod, with the coding of each. The first three and ``busiest_gpu_util_pct``
are of all its GPUs, the others of those that it holds alone. ``gpu_util_pct`` is a mean over GPUs,
``busiest_gpu_util_pct`` and ``least_gpu_util_pct`` are of the busiest and the least busy one, ``idle_gpus``
counts GPUs. ``power_pct`` is a share of the limits, ``power_w`` a sum, ``pcie_kb_per_s`` the lesser and
``pcie_most_kb_per_s`` the greater of what a GPU receives and sends, averaged over GPUs. From
``sm_active_pct`` on they are means over GPUs, and MIG slices, that have such counters; ``nvlink_mb_per_s`` is
what a GPU receives; where a source does not tell the directions apart, half of both."""
CGROUP_CHANNELS = {
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
"""What ``cgroup-samples`` tell of a pod. ``cpu_pct`` is 100 for one busy core, ``mem_pct`` a share of the
pod's limit, ``host_cpu_pct`` a share of all CPUs of the node."""
SOURCE_CHANNELS = {"nvml": NVML_CHANNELS, "cgroup": CGROUP_CHANNELS}
CHANNELS = NVML_CHANNELS | CGROUP_CHANNELS
CHANNEL_ROW = {name: row for row, name in enumerate(CHANNELS)}
"""The row of each channel where all of them are in one array."""


CODINGS = {
    source: np.array(list(channels.values()), np.int64) for source, channels in SOURCE_CHANNELS.items()
}
"""How the channels of each source are coded."""
_CODES = np.arange(256.0)
_BY_CODING = np.stack([_CODES / 2, _CODES, 2 ** (_CODES / 10) - 1])
_BY_CODING[:, ABSENT_CODE] = np.nan
_VALUES = _BY_CODING[list(CHANNELS.values())].ravel()
"""The value of each code, of one channel after the other."""


@kernel
def code_of(value: float, coding: int) -> int:
    """Return the code of a value, NaN is absent."""
    if np.isnan(value):
        return ABSENT_CODE
    if coding == _HALF:
        value *= 2
    elif coding == _LOG:
        value = 10 * np.log2(1 + value)
    return int(min(max(np.rint(value), 0.0), ABSENT_CODE - 1.0))


@entry("float64[:, ::1](uint8[:, :])")
def dequantize(codes: Codes) -> Floats:
    """Return values of the codes of all ``CHANNELS``, shape (channels, seconds); NaN is absent."""
    values = np.empty(codes.shape)
    for channel in range(codes.shape[0]):
        for second in range(codes.shape[1]):
            values[channel, second] = _VALUES[256 * channel + codes[channel, second]]
    return values


def dequantize_one(channel: str, code: int) -> float:
    """Return the value of one code of a channel; NaN is absent."""
    return float(_VALUES[256 * CHANNEL_ROW[channel] + code])


def dequantize_rows(channels: Ints, codes: Codes) -> Floats:
    """Return values of codes, NaN is absent: each row is of one of the ``channels``, shape (rows, 1)."""
    return np.asarray(_VALUES[codes + 256 * channels])


def codes_to_text(codes: Codes) -> str:
    """Return codes as base64."""
    return b2a_base64(np.ascontiguousarray(codes).tobytes(), newline=False).decode("ascii")


def codes_from_text(text: str, rows: int) -> Codes:
    """Return codes of ``rows`` channels, shape (rows, seconds). Raises ``ValueError`` for a text that holds
    none."""
    flat = np.frombuffer(a2b_base64(text, strict_mode=True), np.uint8)
    return flat.reshape(rows, -1)
