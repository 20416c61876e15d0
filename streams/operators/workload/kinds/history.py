"""Keeps a pod's GPUs in its last half hour, ten seconds at a time: what its kind is judged by where nothing
else is seen, or ticks are far apart."""

import numpy as np

from streams.compiled import entry
from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import (
    ABSENT_CODE,
    CHANNEL_ROW,
    IDLE_PCT,
    SPAN_S,
    Codes,
    codes_from_text,
    codes_to_text,
    dequantize_rows,
)

SPANS = 180  # half an hour: ticks may be a minute apart (docs/decisions/0053)
ROWS = ("mean", "least", "most", "copy", "memory", "power_pct", "power_w")
"""Of each span: mean, least and most of the busiest GPU's utilization, the means of the memory controller's
activity and of power, and the newest share of GPU memory."""
_BUSY_CODE = 8
"""Utilization in percent from which on a GPU is busy; its codes are whole percents."""
_UTIL, _COPY, _MEMORY, _POWER_PCT, _POWER_W = (
    CHANNEL_ROW[name]
    for name in ("busiest_gpu_util_pct", "mem_copy_util_pct", "gpu_mem_pct", "power_pct", "power_w")
)
_MEANS = ((0, _UTIL), (3, _COPY), (5, _POWER_PCT), (6, _POWER_W))
"""Rows that are means, and the channels that these are of."""
_CHANNELS = np.array([[_UTIL], [_UTIL], [_UTIL], [_COPY], [_MEMORY], [_POWER_PCT], [_POWER_W]])


class GpuHistory:
    """Keeps codes of ``ROWS`` by span, newest last. A mean of codes is coded as they are: of power, whose
    codes are logarithms, it is the geometric mean."""

    def __init__(self) -> None:
        self._codes = np.full((len(ROWS), SPANS), ABSENT_CODE, np.uint8)

    def add(self, codes: Codes, passed: int) -> None:
        """Take the codes of all channels of the newest spans. ``passed``: how many spans ended since the last
        that was taken; those that are not in ``codes`` stay absent."""
        count, passed = min(codes.shape[1] // SPAN_S, SPANS), min(passed, SPANS)
        self._codes[:, : SPANS - passed] = self._codes[:, passed:].copy()
        self._codes[:, SPANS - passed :] = ABSENT_CODE
        for back in range(count):
            end = codes.shape[1] - back * SPAN_S
            _span_codes(codes[:, end - SPAN_S : end], self._codes[:, SPANS - 1 - back])

    def values(self) -> Floats:
        """Return the values of ``ROWS``, NaN for absent, from the first span of which the utilization is
        known."""
        known = self._codes[0] != ABSENT_CODE
        first = int(known.argmax()) if known.any() else SPANS
        return dequantize_rows(_CHANNELS, self._codes[:, first:])

    @property
    def worked_s(self) -> int:
        """Return in how many seconds of these spans a GPU was busy at some moment of the span."""
        most = self._codes[2]
        return SPAN_S * int(((most >= _BUSY_CODE) & (most != ABSENT_CODE)).sum())

    @property
    def work_s(self) -> float:
        """Return for how many seconds the busiest GPU would have been full to do what it did."""
        mean = self._codes[0]
        return SPAN_S * int(mean[mean != ABSENT_CODE].sum(dtype=np.int64)) / 100

    @property
    def began_again(self) -> bool:
        """Tell whether a GPU was used again after a span in which none was."""
        used = self._codes[2][self._codes[2] != ABSENT_CODE] >= IDLE_PCT
        begins = used & ~np.concatenate(([False], used[:-1]))
        return int(begins.sum()) > 1

    def snapshot(self) -> str:
        """Return plain data."""
        return codes_to_text(self._codes)

    def restore(self, plain: str) -> None:
        """Take over a snapshot."""
        self._codes = codes_from_text(plain, len(ROWS)).copy()


@entry("void(uint8[:, :], uint8[:])")
def _span_codes(codes: Codes, span: Codes) -> None:
    """Write of the channels of a span what is kept of them."""
    span[:] = ABSENT_CODE
    for row, channel in _MEANS:
        total, count = 0, 0
        for code in codes[channel]:
            if code != ABSENT_CODE:
                total += code
                count += 1
        if count:
            span[row] = int(np.rint(total / count))
    for code in codes[_UTIL]:
        if code != ABSENT_CODE:
            span[1] = min(span[1], code)
            span[2] = code if span[2] == ABSENT_CODE else max(span[2], code)
    for code in codes[_MEMORY]:
        if code != ABSENT_CODE:
            span[4] = code
