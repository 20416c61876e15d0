"""Divides time and energy of a node's GPUs among those who have them: see ``contract.records.hours``."""

from collections.abc import Container
from typing import Any

import numpy as np

from dutycycle.contract.metering import is_gap, joules_of_tick, working_pct
from dutycycle.contract.ownership.division import divide, energy_part
from dutycycle.contract.ownership.words import less_sure
from dutycycle.contract.records.hours import GpuHour
from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints, keep_once, pack, unpack
from streams.operators.columns.block import GPU_FACTS, TickBlock
from streams.operators.columns.tick import Layout
from streams.operators.rounding import tidy
from streams.operators.usage.table import HourTable, OnGpu

FIGURES = 12
(
    _CHANGED, _TIME, _KNOWN, _BUSY, _SM, _SM_KNOWN, _TENSOR, _TENSOR_KNOWN, _WORKING, _WORKING_KNOWN, _ENERGY,
    _COUNTED, _UNTOUCHED,
) = range(FIGURES + 1)  # fmt: skip
"""Columns of the hour, in seconds and joules. ``_COUNTED`` is 1 if there is any measure of energy."""
_SUMS = (("gpu_busy_s", _BUSY, _KNOWN), ("gpu_sm_s", _SM, _SM_KNOWN),
         ("gpu_tensor_s", _TENSOR, _TENSOR_KNOWN), ("gpu_working_s", _WORKING, _WORKING_KNOWN),
         ("gpu_untouched_s", _UNTOUCHED, _UNTOUCHED), ("energy_j", _ENERGY, _COUNTED))  # fmt: skip
"""Names of columns of the hour, each with the column that is not 0 where it is known."""
_ACTIVE = 3
"""Of a device, after its utilization: SM and tensor activity, and the part of utilization in which it works.
The last is made of the others, so that as many are measured as there are of these."""
_LAST_J, _GUESSED_J, _OWED_J, _BEFORE_J, _ADDED_J, _TOLD_MS = range(6)
_ALL_BUSY, _ALL_SM, _ALL_TENSOR, _ALL_WORKING, _ALL_ENERGY, _OF_GPU = range(6, 18, 2)
"""Columns of a GPU as a whole: what ``joules_of_tick`` carries from tick to tick; up to when its energy is
told without a gap, NaN before that; then what the GPU did since it was first seen, each followed by how much
of it is known: 0 if nothing is."""
_NAMES = (("gpu_busy_s", _ALL_BUSY), ("gpu_sm_s", _ALL_SM), ("gpu_tensor_s", _ALL_TENSOR),
          ("gpu_working_s", _ALL_WORKING), ("energy_j", _ALL_ENERGY))  # fmt: skip
_joules, _divide, _energy_part = kernel(joules_of_tick), kernel(divide), kernel(energy_part)
_works, _is_gap = kernel(working_pct), kernel(is_gap)


@kernel
def _energy(hour: Floats, row: int, joules: float) -> None:
    if not np.isnan(joules):
        hour[row, _ENERGY] += joules
        hour[row, _COUNTED] = hour[row, _CHANGED] = 1


@kernel
def _device(
    hour: Floats, rows: Ints, untouched: Ints, holders: Ints, parts: Floats, seconds: float, is_known: bool,
    pcts: Floats, joules: float,
) -> None:  # fmt: skip
    """Give each holder its part of what a device did in ``seconds``. ``pcts``: see ``_read``. ``is_known``:
    whose that is. ``untouched``: 1 for holdings without a process."""
    for at in range(len(parts)):
        row, time = rows[holders[at, 0]], seconds / len(parts)
        if is_known and not np.isnan(pcts[0]):
            busy = seconds * pcts[0] / 100
            time = busy * parts[at] + (seconds - busy) / len(parts)
            hour[row, _KNOWN] += time
            hour[row, _BUSY] += busy * parts[at]
            if untouched[holders[at, 0]] and busy * parts[at] == 0:  # what works was touched, though unseen
                hour[row, _UNTOUCHED] += time
        for which in range(_ACTIVE):
            if is_known and not np.isnan(pcts[1 + which]):
                hour[row, _SM + 2 * which] += seconds * pcts[1 + which] / 100 * parts[at]
                hour[row, _SM_KNOWN + 2 * which] += time
        hour[row, _TIME] += time
        hour[row, _CHANGED] = 1
        _energy(hour, row, joules * parts[at])


@kernel
def _tell(whole: Floats, which: int, seconds: float, pct: float) -> None:
    """Add what a GPU, or a slice of it where only slices are measured, did in ``seconds``, as far as it is
    known; whose it is makes no difference."""
    if not np.isnan(pct):
        whole[_ALL_BUSY + 2 * which] += seconds * pct / 100
        whole[_ALL_BUSY + 2 * which + 1] += seconds


@kernel
def _read(values: Floats, columns: Ints, power_w: float, limit_w: float, pcts: Floats) -> None:
    """Fill ``pcts`` with what a device does in a tick: its utilization, SM and tensor activity, and working
    part, in percent."""
    for which in range(_ACTIVE):
        pcts[which] = values[columns[which]]
    pcts[_ACTIVE] = _works(pcts[0], pcts[1], power_w, limit_w)


@kernel
def _meter(
    whole: Floats, counter_j: float, power_w: float, seconds: float, ts_ms: int, interval_ms: int
) -> tuple[float, bool]:
    """Return the energy of a tick of a GPU, NaN where nothing tells it, and whether it is what the counter
    grew by in a gap, of the node or of this GPU alone; carry on the GPU's columns."""
    is_counted, is_after_gap = counter_j > whole[_LAST_J], _is_gap(ts_ms - whole[_TOLD_MS], interval_ms)
    joules, last_j, guessed_j, owed_j, before_j, added_j = _joules(
        counter_j, power_w, seconds, whole[_LAST_J], whole[_GUESSED_J], whole[_OWED_J], whole[_BEFORE_J],
        whole[_ADDED_J],
    )  # fmt: skip
    is_read = counter_j == last_j and guessed_j == 0
    if is_read or not (is_after_gap or np.isnan(joules)):
        whole[_TOLD_MS] = ts_ms
    whole[_LAST_J], whole[_GUESSED_J], whole[_OWED_J] = last_j, guessed_j, owed_j
    whole[_BEFORE_J], whole[_ADDED_J] = before_j, added_j
    if not np.isnan(joules):
        whole[_ALL_ENERGY] += joules
        whole[_ALL_ENERGY + 1] = 1
    return joules, is_counted and is_after_gap


@entry(
    "void(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64[::1], int64,"
    " float64[::1], float64[:, ::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1],"
    " float64[::1], int64[:, ::1])"
)
def _add(
    hour: Floats, ticks: Floats, tallies: Floats, limits_w: Floats, times: Ints, interval_ms: int,
    seconds: Floats, wholes: Floats, slots: Ints, rows: Ints, untouched: Ints, gpus: Ints, devices: Ints,
    weights: Floats, holders: Ints,
) -> None:  # fmt: skip
    """Add ticks. ``limits_w``: by tick and GPU. ``slots``: each GPU's row in ``wholes``. ``rows``: of each
    holding, in the hour; the first are nobody's. ``untouched``: 1 for each holding without a process."""
    for tick in range(len(seconds)):
        values, first, begin = ticks[tick], 0, 0
        whole_pcts, pcts = np.empty(1 + _ACTIVE), np.empty(1 + _ACTIVE)
        for gpu in range(len(gpus)):
            counter, power, whole = values[gpus[gpu, 0]], values[gpus[gpu, 1]], wholes[slots[gpu]]
            joules, is_of_gap = _meter(whole, counter, power, seconds[tick], times[tick], interval_ms)
            _read(values, gpus[gpu, 3:], power, limits_w[tick, gpu], whole_pcts)
            for which in range(1 + _ACTIVE):
                _tell(whole, which, seconds[tick], whole_pcts[which])
            if is_of_gap and joules > 0:  # who used it while nobody measured is not known
                _energy(hour, rows[gpu], joules)
                joules = 0.0
            last, every = gpus[gpu, 2], 0.0
            for device in range(first, last):
                every += weights[device] * values[devices[device, 0]]
            for device in range(first, last):
                # Nobody measures the power of a slice.
                limit_w = limits_w[tick, gpu] if devices[device, 0] == gpus[gpu, 3] else np.nan
                _read(values, devices[device], power, limit_w, pcts)
                for which in range(1 + _ACTIVE):
                    if np.isnan(whole_pcts[which]):
                        _tell(whole, which, weights[device] * seconds[tick], pcts[which])
                pct, end, size = pcts[0], devices[device, _ACTIVE], weights[device]
                held, parts = holders[begin:end], np.empty(end - begin)
                is_known = _divide(held, tallies[tick], pct, parts)
                of_device = joules * _energy_part(size, pct, every)
                _device(hour, rows, untouched, held, parts, size * seconds[tick], is_known, pcts, of_device)
                begin = end
            first = last


class GpuMeter:
    """Meters the GPUs of one node. ``_wholes`` has a row for each of ``_gpus``, with the columns of
    ``_OF_GPU``. ``_origins``: how it is known that a pod has a GPU, since it was first seen there; ``_words``
    in the hour."""

    def __init__(self) -> None:
        self._hour = HourTable(FIGURES)
        self._words: dict[tuple[str, ...], str] = {}
        self._origins: dict[OnGpu, str] = {}
        self._models: dict[str, str] = {}
        self._gpus: dict[str, int] = {}
        self._wholes: Floats = np.zeros((0, _OF_GPU))
        self._layout: Layout | None = None
        self._plan: tuple[Any, ...] = ()

    def add(self, block: TickBlock, seconds: Floats) -> None:
        """Add ticks; each counts for its ``seconds``."""
        if block.layout is not self._layout:
            # Lay out rows anew, for other GPUs, pods or processes than before, or another hour.
            held = block.layout.holdings
            if held is None:
                raise ValueError("ticks of GPUs say who has them")
            for holding in held.rows:
                key = holding.pod_uid, holding.gpu
                self._models[holding.gpu] = holding.model
                self._words[key] = less_sure(self._words.get(key), holding.attribution)
                if holding.pod_uid:
                    self._origins[key] = less_sure(self._origins.get(key), holding.attribution)
                if holding.gpu not in self._gpus:
                    self._gpus[holding.gpu] = len(self._gpus)
                    self._wholes = np.vstack((self._wholes, np.zeros(_OF_GPU)))
                    self._wholes[-1, [_LAST_J, _BEFORE_J, _TOLD_MS]] = np.nan
            slots = keep_once(
                np.array([self._gpus[holding.gpu] for holding in held.rows[: len(held.gpus)]], np.int64)
            )
            rows = self._hour.rows([(holding.pod_uid, holding.gpu) for holding in held.rows])
            untouched = keep_once(np.array([holding.is_untouched for holding in held.rows], np.int64))
            self._plan = slots, rows, untouched, held.gpus, held.devices, held.weights, held.holders
            self._layout = block.layout
        limits_w = np.ascontiguousarray(block.facts[:, ::GPU_FACTS])
        _add(
            self._hour.figures, block.values, block.tallies, limits_w, block.times, block.interval_ms,
            seconds, self._wholes, *self._plan,
        )  # fmt: skip

    def changed(self, *, keep: bool = False) -> tuple[GpuHour, ...]:
        """Return the rows that changed since they were written: see ``HourTable``."""
        return tuple(
            GpuHour(
                pod_uid=key[0] or None, gpu=key[1], model=self._models[key[1]] or None,
                attribution=self._words[key] or None, gpu_s=tidy(time), known_s=tidy(known),
                busy_s=tidy(busy), sm_s=tidy(sm) if sm_known else None, sm_known_s=tidy(sm_known) or None,
                tensor_s=tidy(tensor) if tensor_known else None, tensor_known_s=tidy(tensor_known) or None,
                working_s=tidy(working) if working_known else None,
                working_known_s=tidy(working_known) or None,
                energy_j=tidy(energy) if counted else None, untouched_s=tidy(untouched) or None,
            )
            for key, (
                time, known, busy, sm, sm_known, tensor, tensor_known, working, working_known, energy,
                counted, untouched,
            ) in self._hour.changed(keep=keep)
        )  # fmt: skip

    def sums(self) -> dict[OnGpu, dict[str, float]]:
        """Return what each pod used of each GPU in the hour so far."""
        sums: dict[OnGpu, dict[str, float]] = {}
        for (pod, gpu), figures in zip(self._hour.keys, self._hour.figures.tolist(), strict=False):
            if pod:
                known = {name: figures[at] for name, at, known_at in _SUMS if figures[known_at]}
                sums[pod, gpu] = {"gpu_s": figures[_TIME]} | known
        return sums

    def of_gpus(self) -> dict[str, dict[str, float]]:
        """Return what each GPU did since it was first seen, whosever it was."""
        return {
            uuid: {name: whole[at] for name, at in _NAMES if whole[at + 1]}
            for uuid, whole in zip(self._gpus, self._wholes.tolist(), strict=True)
        }

    def origins(self) -> dict[OnGpu, str]:
        """Return how it is known that a pod has a GPU, of every pod on every GPU until it is forgotten."""
        return self._origins

    def forget(self, pods: Container[str]) -> None:
        """Let these pods begin anew if they come back."""
        self._origins = {key: word for key, word in self._origins.items() if key[0] not in pods}
        self._layout = None

    def begin(self) -> None:
        """Begin another hour."""
        self._hour.clear()
        self._words, self._layout = {}, None

    def hour(self) -> dict[str, Any]:
        """Return the hour alone, as plain data."""
        words = [[*key, word] for key, word in self._words.items()]
        return {"hour": self._hour.snapshot(), "words": words}

    def go_on(self, hour: dict[str, Any]) -> None:
        """Go on with an hour that was left; what is of a life is as it is."""
        self._hour.restore(hour["hour"])
        self._words = {(pod, gpu): word for pod, gpu, word in hour["words"]}

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return self.hour() | {
            "origins": [[*key, word] for key, word in self._origins.items()],
            "models": dict(self._models),
            "gpus": list(self._gpus),
            "wholes": pack(self._wholes),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.go_on(plain)
        self._origins = {(pod, gpu): word for pod, gpu, word in plain["origins"]}
        self._models = dict(plain["models"])
        self._gpus = {uuid: at for at, uuid in enumerate(plain["gpus"])}
        self._wholes = unpack(plain["wholes"], "f8", (len(self._gpus), _OF_GPU))
