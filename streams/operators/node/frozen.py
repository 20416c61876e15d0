"""Finds GPUs whose source repeats itself: every figure equal to the last bit for a minute, while the GPU is
said to work. A GPU at work never draws the same to a hundredth of a watt for so long. Its driver hangs, or
what reads it writes the last answer again and again: what the GPU does is not known."""

from typing import Any

import numpy as np
from msgspec.structs import replace

from dutycycle.contract.catalogue import GPU_METRICS
from dutycycle.contract.records.samples import Gpu, NvmlSample
from streams.compiled import entry
from streams.operators.columns.arrays import Bools, Floats, Ints, pack, unpack
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import remapped
from streams.operators.columns.state import SeriesState, array
from streams.operators.columns.tick import Layout

FROZEN_MS, FROZEN_TICKS = 60_000, 10
WHOLE_MS, WHOLE_TICKS = 600_000, 60
"""The same where power is told in whole watts: a steady load may well look the same for minutes."""
_AT_WORK_PCT = 8.0
_FEWEST = 3
"""Figures of a GPU that are known, power among them: of fewer, all may be the same by chance."""
_FIGURES = len(GPU_METRICS)
_UTIL, _POWER = GPU_METRICS.index("gpu_util_pct"), GPU_METRICS.index("power_w")
_IDENTITY = frozenset(
    {"uuid", "index", "model", "mem_total_bytes", "power_limit_w", "processes", "allocated"}
)
_BLANK = {name: None for name in Gpu.__struct_fields__ if name not in _IDENTITY}
_BLANK_PROCESS = dict.fromkeys(("gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes"))


@entry("void(int64[::1], float64[:, ::1], float64[:, ::1], int64[::1], int64[::1], boolean[::1])")
def _count_repeats(
    times: Ints, rows: Floats, figures: Floats, since_ms: Ints, ticks: Ints, is_frozen: Bools
) -> None:
    """Take ticks into what ``FrozenGpus`` keeps of each GPU, but of those that are frozen."""
    for gpu in range(len(figures)):
        for row in range(0 if is_frozen[gpu] else len(rows)):
            repeats = ticks[gpu] > 0
            for metric in range(_FIGURES):
                value, before = rows[row, gpu * _FIGURES + metric], figures[gpu, metric]
                if value != before and not (np.isnan(value) and np.isnan(before)):
                    repeats = False
                figures[gpu, metric] = value
            if not repeats:
                since_ms[gpu], ticks[gpu] = times[row], 0
            ticks[gpu] += 1


@entry("boolean(int64, float64[:, ::1], int64[::1], int64[::1], boolean[::1])")
def _judge(ts_ms: int, figures: Floats, since_ms: Ints, ticks: Ints, is_frozen: Bools) -> bool:
    """Note which GPUs repeat themselves for so long that it is no chance any more; whether any is frozen."""
    any_frozen = False
    for gpu in range(len(figures)):
        known, power = 0, figures[gpu, _POWER]
        for figure in figures[gpu]:
            known += not np.isnan(figure)
        if figures[gpu, _UTIL] >= _AT_WORK_PCT and power > 0 and known >= _FEWEST:
            whole = power == np.floor(power)
            least_ms, least = (WHOLE_MS, WHOLE_TICKS) if whole else (FROZEN_MS, FROZEN_TICKS)
            if ts_ms - since_ms[gpu] >= least_ms and ticks[gpu] >= least:
                is_frozen[gpu] = True
        any_frozen |= is_frozen[gpu]
    return any_frozen


class FrozenGpus(SeriesState):
    """Watches the GPUs of one node. ``since_ms``: of each that is frozen, by uuid, its ``<node>/<index>`` and
    since when.

    Kept are of each GPU the figures that it had last, since when and in how many ticks it has had the same,
    none if it begins anew, and whether it is frozen.
    """

    _figures: Floats = array("n", _FIGURES, fill=np.nan)
    _since_ms: Ints = array("n", dtype=np.int64)
    _ticks: Ints = array("n", dtype=np.int64)
    _is_frozen: Bools = array("n", dtype=np.bool_)

    def __init__(self) -> None:
        super().__init__(0)
        self._layout: Layout | None = None
        self._uuids: list[str] = []
        self._scopes: list[str] = []
        self.since_ms: dict[str, tuple[str, int]] = {}

    def extend(self, block: TickBlock) -> None:
        """Take ticks, newer than those before. Of a GPU that is frozen they have no figures, and say
        nothing."""
        if block.layout is not self._layout:
            # Lay out figures anew, for other GPUs than before: each keeps what is known of it
            before = self._uuids
            self._layout, self._scopes = block.layout, list(block.layout.gpus)
            self._uuids = [
                block.layout.series[place * _FIGURES].member for place in range(len(block.layout.gpus))
            ]
            self.resize(remapped(before, self._uuids))
        _count_repeats(block.times, block.values, self._figures, self._since_ms, self._ticks, self._is_frozen)

    def judge(self, ts_ms: int) -> None:
        """Decide which GPUs are frozen at ``ts_ms``: a moment that has to follow from the ticks alone."""
        if _judge(ts_ms, self._figures, self._since_ms, self._ticks, self._is_frozen) or self.since_ms:
            self._note_frozen()

    def _note_frozen(self) -> None:
        self.since_ms = {
            self._uuids[gpu]: (self._scopes[gpu], int(self._since_ms[gpu]))
            for gpu in np.flatnonzero(self._is_frozen)
        }

    def checked(self, sample: NvmlSample) -> NvmlSample:
        """Return the sample without the figures of GPUs that are frozen, and repeat them once more. Those
        that do not are frozen no longer."""
        gpus = list(sample.gpus)
        for at, gpu in enumerate(sample.gpus):
            place = self._uuids.index(gpu.uuid) if gpu.uuid in self._uuids else -1
            if place < 0 or not self._is_frozen[place]:
                continue
            figures = np.array([getattr(gpu, name) for name in GPU_METRICS], np.float64)
            if not np.array_equal(figures, self._figures[place], equal_nan=True):
                self._ticks[place], self._is_frozen[place] = 0, False
                del self.since_ms[gpu.uuid]
                continue
            processes = gpu.processes and tuple(
                replace(process, **_BLANK_PROCESS) for process in gpu.processes
            )
            gpus[at] = replace(gpu, **_BLANK, processes=processes)
        return replace(sample, gpus=tuple(gpus))

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        each = zip(
            self._uuids, self._scopes, self._figures, self._since_ms.tolist(), self._ticks.tolist(),
            self._is_frozen.tolist(), strict=True,
        )  # fmt: skip
        return {
            uuid: [scope, pack(figures), since_ms, ticks, is_frozen]
            for uuid, scope, figures, since_ms, ticks, is_frozen in each
            if ticks
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._uuids, states = list(plain), list(plain.values())
        self._scopes = [scope for scope, *_ in states]
        self._figures = np.array(
            [unpack(figures, "f8", (_FIGURES,)) for _, figures, *_ in states], np.float64
        ).reshape(-1, _FIGURES)
        self._since_ms, self._ticks = (np.array([state[at] for state in states], np.int64) for at in (2, 3))
        self._is_frozen = np.array([state[4] for state in states], np.bool_)
        self._note_frozen()
