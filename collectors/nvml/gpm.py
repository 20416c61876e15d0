"""Reads what a GPU or a MIG slice does, by GPM: the driver's performance counters of Hopper and later.

A value is of the whole time between two samples, and can be had beside profilers and DCGM. ``gpu_util_pct``
only says whether any kernel ran. One sample and one question a tick, however many metrics are asked.
"""

import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

from collectors.nvml import gate
from collectors.nvml.fields import tenths
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import Handle, NoDataError, NvmlError, UnsupportedError, is_refused
from dutycycle.contract.catalogue import GPU_ROWS, MIB, Subject, rows_of

_LEAST_S = 0.1
"""GPM wants 100 ms between two samples."""
_ONE_AT_A_TIME = Lock()
"""Of the process, as the library is: sampling from two threads at once has crashed it (leptonai/gpud)."""
_ALSO_BY_FIELD = frozenset(row.field for row in GPU_ROWS if row.gpm and isinstance(row.nvml, int))
"""What fields tell of, too: where these are refused, that is what is counted."""
_BUSY = 1
"""The time with any engine busy: what ``gpu_util_pct`` is to a slice."""


def metrics_of(subject: Subject, fields: Collection[str]) -> dict[int, str]:
    """Give the ``fields`` that GPM has of a ``gpu`` or a ``slice``, by GPM's numbers; of several engines each
    has its number. The utilization of a slice comes from nowhere else: it is always among them. Where any is
    asked for, so is PCIe: of a slice there is no other, and drivers before R555 refuse its fields. What a
    whole GPU has a call for is not asked here."""
    busy = {_BUSY: "gpu_util_pct"} if subject == "slice" else {}
    asked = {
        number: row.field
        for row in rows_of("nvml", subject)
        for number in row.gpm
        if (fields if row.field in _ALSO_BY_FIELD else row.field in fields)
        and (subject == "slice" or not isinstance(row.nvml, str) or not row.nvml)
    }
    return busy | asked


@dataclass(slots=True)
class _Samples:
    """Holds two samples of a GPU or a GPU instance: the last one, and room for the next.

    ``key`` names one instance. Its id does not: a new instance gets the id of a destroyed one. ``asked``:
    the metrics that it does not refuse; slices differ in their engines.
    """

    key: str
    last: Any
    spare: Any
    asked: dict[int, str]
    last_s: float | None = None
    question: Any = None
    codes: tuple[int, int] | None = None
    """What the driver said at ``asked_s`` to the sample, and to the question; None: not asked."""
    asked_s: float = 0.0


class GpmReader:
    """Reads ``metrics``, fields by GPM's numbers, of one GPU or of its GPU instances."""

    def __init__(self, metrics: dict[int, str], what: str) -> None:
        """Read ``metrics``. ``what``: what is counted as not measured where the GPU has no GPM."""
        self._metrics, self._what = metrics, what
        self._supported = False
        self._samples: dict[int | None, _Samples] = {}

    @property
    def is_supported(self) -> bool:
        """Tell whether the GPU was found to have GPM when it was read last."""
        return self._supported

    def read(self, query: DeviceQuery, instance: int | None, key: str) -> dict[str, float]:
        """Give the values since the last read of the GPU (``instance`` None) or of a GPU instance, by field.

        Empty at first, and before Hopper. ``key`` is a name that a new instance of the same id does not
        share. What was not measured is left out.
        """
        if not self._metrics:
            return {}
        with _ONE_AT_A_TIME:
            self._supported = self._supported or bool(query.ask(self._what, gate.gpm_supported))
            if not self._supported:
                return {}
            samples = query.ask("gpm_sample", lambda _: self._of(instance, key))
            if samples is None or not samples.asked:
                return {}
            answer = partial(_answers, query=query, instance=instance, samples=samples)
            return _values(query, samples, query.ask("gpm_sample", answer) or {})

    def ask(self, query: DeviceQuery) -> None:
        """Ask the driver for what ``read`` reads of the whole GPU next."""
        samples = self._samples.get(None)
        if samples is None or not (self._supported and samples.asked and query.supports("gpm_sample")):
            return
        with _ONE_AT_A_TIME:
            _ask(query.handle, None, samples)

    def keep(self, instances: Iterable[int | None]) -> None:
        """Free the samples of all other instances. While the library is open only."""
        with _ONE_AT_A_TIME:
            for gone in self._samples.keys() - set(instances):
                held = self._samples.pop(gone)
                for sample in (held.last, held.spare):
                    with suppress(NvmlError):  # a sample that cannot be freed is not worth a tick
                        gate.gpm_sample_free(sample)

    def forget(self) -> None:
        """Ask for everything again: the library was opened anew, or the GPU's MIG mode changed."""
        self._supported = False
        for samples in self._samples.values():
            samples.asked, samples.question, samples.codes = dict(self._metrics), None, None

    def _of(self, instance: int | None, key: str) -> _Samples:
        samples = self._samples.get(instance)
        if samples is None or samples.key != key:
            room = gate.gpm_samples_new() if samples is None else (samples.last, samples.spare)
            samples = self._samples[instance] = _Samples(key, *room, dict(self._metrics))
        return samples


def _ask(handle: Handle, instance: int | None, samples: _Samples) -> None:
    samples.codes, samples.asked_s = None, time.monotonic()
    if samples.last_s is not None and samples.asked_s - samples.last_s < _LEAST_S:
        return
    sampled, answered = gate.gpm_sample(handle, instance, samples.spare), 0
    if not sampled and samples.last_s is not None:
        samples.question = samples.question or gate.gpm_question([*samples.asked])
        answered = gate.gpm_ask(samples.question, samples.last, samples.spare)
    samples.codes = sampled, answered


def _answers(
    handle: Handle, query: DeviceQuery, instance: int | None, samples: _Samples
) -> dict[int, float | NvmlError]:
    if samples.codes is None:
        _ask(handle, instance, samples)
    if samples.codes is None:
        return {}
    (sampled, answered), samples.codes = samples.codes, None
    try:
        gate.check(sampled)
    except UnsupportedError as error:  # one instance may refuse what another has
        samples.asked.clear()
        query.count_once("gpm_sample", error)
        return {}
    first = samples.last_s is None
    samples.last, samples.spare, samples.last_s = samples.spare, samples.last, samples.asked_s
    if first:
        return {}
    gate.check(answered)
    return dict(zip(samples.asked, gate.gpm_answers(samples.question), strict=True))


def _values(query: DeviceQuery, samples: _Samples, answers: dict[int, float | NvmlError]) -> dict[str, float]:
    parts: dict[str, list[float]] = {}
    for number, answer in answers.items():
        name = samples.asked[number]
        if isinstance(answer, NvmlError) and is_refused(answer):
            # Such as NVLink on a card without it; the other metrics are asked for as before.
            del samples.asked[number]
            samples.question = None
            if name not in _ALSO_BY_FIELD and name not in samples.asked.values():
                query.count_once(name, answer)
        elif isinstance(answer, NvmlError):
            if not isinstance(answer, NoDataError):
                query.count(name, answer)
        else:
            parts.setdefault(name, []).append(answer)
    values: dict[str, float] = {}
    for name, of_engines in parts.items():
        if name.endswith("_bytes_per_s"):
            values[name] = round(sum(of_engines) * MIB)
        else:
            pct = sum(of_engines) / len(of_engines)
            # Two counters are not read at one instant: a whole one may be a little more than 100.
            values[name] = 100 if 100 < pct < 100.5 else tenths(pct)
    return values
