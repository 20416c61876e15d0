"""Computes what anomalies are found from: figures of a pod over one minute."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import NamedTuple

import numpy as np

from dutycycle.contract.records.parts import InsightPart
from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import CHANNEL_ROW

_FEWEST_S = 30
"""Fewest seconds with a value that make a minute of it."""
_UTIL, _COPY, _MEMORY, _POWER, _TENSOR, _DRAM, _FP32 = (
    CHANNEL_ROW[name]
    for name in (
        "gpu_util_pct", "mem_copy_util_pct", "gpu_mem_pct", "power_pct", "tensor_active_pct",
        "dram_active_pct", "fp32_active_pct",
    )
)  # fmt: skip


class GpuMinute(NamedTuple):
    """Holds one GPU that the pod holds alone, over the newest ten seconds of the minute; NaN is absent.

    ``power_pct`` is a share of its limit. ``temp_c`` and ``clock_mhz`` (of the SMs) are means; that of the
    clock counts the time in which the GPU works, and is absent if it never did. ``by_power_pct`` and
    ``by_heat_pct``: for which share of the time each is known to hold the clocks down.
    """

    name: str
    util_pct: float
    power_pct: float
    temp_c: float
    clock_mhz: float
    by_power_pct: float = nan
    by_heat_pct: float = nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """Holds means over the minute that ended at ``end_ms``, over all GPUs of the pod; NaN is absent.

    ``util_spread`` and ``power_spread`` are standard deviations between its seconds, ``mem_pct`` is the least
    GPU memory in use and ``copy_pct`` the activity of the memory controller; ``tensor_pct``, ``dram_pct`` and
    ``fp32_pct`` what the counters of a Hopper say of tensor cores, memory, and the pipes for 32-bit floats.
    ``period_s`` is the shortest period of the pod's cycle at its end, None without one; ``step_s`` what a
    step takes by the training's own reports of two minutes, None without any. ``frozen``: since when the
    source of a GPU repeats itself, by the GPU's name.
    """

    end_ms: int
    util_pct: float
    util_spread: float
    power_pct: float
    power_spread: float
    mem_pct: float
    copy_pct: float
    period_s: float | None
    tensor_pct: float = nan
    dram_pct: float = nan
    fp32_pct: float = nan
    gpus: tuple[GpuMinute, ...] = ()
    step_s: float | None = None
    frozen: Mapping[str, int] = field(default_factory=dict)


def minute_of(end_ms: int, values: Floats, part: InsightPart, step_s: float | None) -> Minute:
    """Return the minute of which ``values``, shape (channels, seconds), are the seconds, and ``part`` the
    last span. ``step_s``: as reported."""
    util, power = _known(values[_UTIL]), _known(values[_POWER])
    memory, copies = _known(values[_MEMORY]), _known(values[_COPY])
    gpus = [
        GpuMinute(
            name,
            *(nan if mean is None else float(mean) for mean in means),
            *(part.held_down or {}).get(name, ()),
        )
        for name, means in (part.gpu_means or {}).items()
    ]
    period_s = part.period_s
    if period_s is not None:  # the shortest: checkpoints may be the cycle that counts, and are no steps
        period_s = float(min([period_s, *(other.period_s for other in part.other_periods or ())]))
    return Minute(
        end_ms=end_ms, util_pct=_mean(util), util_spread=_spread(util), power_pct=_mean(power),
        power_spread=_spread(power), mem_pct=float(memory.min()) if memory.size else nan,
        copy_pct=_mean(copies), tensor_pct=_mean(_known(values[_TENSOR])),
        dram_pct=_mean(_known(values[_DRAM])), fp32_pct=_mean(_known(values[_FP32])),
        period_s=period_s, gpus=tuple(gpus), step_s=step_s, frozen=part.frozen or {},
    )  # fmt: skip


def _known(seconds: Floats) -> Floats:
    known: Floats = seconds[~np.isnan(seconds)]
    return known if known.size >= _FEWEST_S else known[:0]


def _mean(known: Floats) -> float:
    return float(known.mean()) if known.size else nan


def _spread(known: Floats) -> float:
    return float(known.std()) if known.size else nan
