"""What anomalies are found from: figures of a pod over one minute."""

from dataclasses import dataclass
from typing import NamedTuple

MINUTE_MS = 60_000


class GpuMinute(NamedTuple):
    """One GPU that the pod holds alone, over the newest ten seconds of the minute; NaN is absent.

    ``power_pct`` is a share of its limit. ``temp_c`` and ``clock_mhz`` (of the SMs) are means; that of the
    clock counts the time in which the GPU works, and is absent if it never did.
    """

    name: str
    util_pct: float
    power_pct: float
    temp_c: float
    clock_mhz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """Means over the minute that ended at ``end_ms``, over all GPUs of the pod; NaN is absent.

    ``util_spread`` and ``power_spread`` are standard deviations between its seconds, ``mem_pct`` is the least
    memory in use and ``copy_pct`` the activity of the memory controller. ``period_s`` is that of
    the pod's cycle at its end, None without one. ``ranks``: whether other pods of a job work with it.
    """

    end_ms: int
    util_pct: float
    util_spread: float
    power_pct: float
    power_spread: float
    mem_pct: float
    copy_pct: float
    period_s: float | None
    gpus: tuple[GpuMinute, ...] = ()
    ranks: bool = False
