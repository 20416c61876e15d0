"""GPUs whose source repeats itself: every figure equal to the last bit for a minute, while the GPU is said to
work. A GPU at work never draws the same to a hundredth of a watt for so long. Its driver hangs, or what reads
it writes the last answer again and again: what the GPU does is not known.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from dutycycle.contract.metrics import GPU_METRICS
from dutycycle.contract.records.samples import Gpu, GpuProcess, NvmlSample
from streams.operators.columns.arrays import Bools, Floats, pack, unpack
from streams.operators.columns.block import TickBlock

FROZEN_MS, FROZEN_TICKS = 60_000, 10
WHOLE_MS, WHOLE_TICKS = 600_000, 60
"""The same where power is told in whole watts: a steady load may well look the same for minutes."""
_AT_WORK_PCT = 8.0
_FEWEST = 3
"""Figures of a GPU that are known, power among them: of fewer, all may be the same by chance."""
_UTIL, _POWER = GPU_METRICS.index("gpu_util_pct"), GPU_METRICS.index("power_w")
_IDENTITY = frozenset(
    {"uuid", "index", "model", "mem_total_bytes", "power_limit_w", "processes", "allocated"}
)
_BLANK = {name: None for name in Gpu.__struct_fields__ if name not in _IDENTITY}
_BLANK_PROCESS = dict.fromkeys(("gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes"))


@dataclass(slots=True)
class _Repeated:
    """The figures that a GPU had last, and since when and in how many ticks it has had the same. ``scope``:
    ``<node>/<index>``."""

    scope: str
    figures: Floats
    since_ms: int
    ticks: int = 0
    is_frozen: bool = False

    def lasts(self, ts_ms: int) -> bool:
        """Whether that is no chance any more."""
        power = self.figures[_POWER]
        if not self.figures[_UTIL] >= _AT_WORK_PCT or not power > 0:
            return False
        if np.count_nonzero(~np.isnan(self.figures)) < _FEWEST:
            return False
        long_ms, ticks = (WHOLE_MS, WHOLE_TICKS) if power == round(power) else (FROZEN_MS, FROZEN_TICKS)
        return ts_ms - self.since_ms >= long_ms and self.ticks >= ticks


class FrozenGpus:
    """Watches the GPUs of one node. ``since_ms``: of each that is frozen, by uuid, its ``<node>/<index>`` and
    since when."""

    def __init__(self) -> None:
        self._gpus: dict[str, _Repeated] = {}
        self.since_ms: dict[str, tuple[str, int]] = {}

    def extend(self, block: TickBlock) -> None:
        """Take ticks, newer than those before. Of a GPU that is frozen they have no figures, and say
        nothing."""
        series, scopes = block.layout.series, block.layout.gpus
        width = len(GPU_METRICS)
        rows = block.values[:, : len(scopes) * width].reshape(len(block.values), len(scopes), width)
        changed = ~_same(rows[1:], rows[:-1])
        known: dict[str, _Repeated] = {}
        for place, scope in enumerate(scopes):
            uuid = series[place * width].member
            gpu = self._gpus.get(uuid)
            if gpu is None or not gpu.is_frozen:
                changes = np.flatnonzero(changed[:, place])
                first = int(changes[-1]) + 1 if changes.size else 0
                if gpu is None or first or not _same(rows[0, place], gpu.figures):
                    gpu = _Repeated(scope, rows[first, place].copy(), int(block.times[first]))
                gpu.ticks += len(rows) - first
            known[uuid] = gpu
        self._gpus = known

    def judge(self, ts_ms: int) -> None:
        """Decide which GPUs are frozen at ``ts_ms``: a moment that has to follow from the ticks alone."""
        for gpu in self._gpus.values():
            gpu.is_frozen = gpu.is_frozen or gpu.lasts(ts_ms)
        self.since_ms = self._frozen_since()

    def _frozen_since(self) -> dict[str, tuple[str, int]]:
        return {uuid: (gpu.scope, gpu.since_ms) for uuid, gpu in self._gpus.items() if gpu.is_frozen}

    def checked(self, sample: NvmlSample) -> NvmlSample:
        """The sample without the figures of GPUs that are frozen, and repeat them once more. Those that do
        not are frozen no longer."""
        return replace(sample, gpus=tuple(map(self._checked, sample.gpus)))

    def _checked(self, gpu: Gpu) -> Gpu:
        before = self._gpus.get(gpu.uuid)
        if before is None or not before.is_frozen:
            return gpu
        figures = np.array([getattr(gpu, name) for name in GPU_METRICS], np.float64)
        if not _same(figures, before.figures):
            del self._gpus[gpu.uuid], self.since_ms[gpu.uuid]
            return gpu
        processes = None if gpu.processes is None else tuple(map(_blank_process, gpu.processes))
        return replace(gpu, **_BLANK, processes=processes)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            uuid: [gpu.scope, pack(gpu.figures), gpu.since_ms, gpu.ticks, gpu.is_frozen]
            for uuid, gpu in self._gpus.items()
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._gpus = {
            uuid: _Repeated(scope, unpack(figures, "f8", (len(GPU_METRICS),)), since_ms, ticks, is_frozen)
            for uuid, (scope, figures, since_ms, ticks, is_frozen) in plain.items()
        }
        self.since_ms = self._frozen_since()


def _same(figures: Floats, others: Floats) -> Bools:
    """Whether all figures, along the last axis, are the same to the last bit, or known in neither."""
    return np.asarray(((figures == others) | (np.isnan(figures) & np.isnan(others))).all(axis=-1))


def _blank_process(process: GpuProcess) -> GpuProcess:
    return replace(process, **_BLANK_PROCESS)
