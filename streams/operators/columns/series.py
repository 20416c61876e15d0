"""Says which series there are, and which column each of them has.

A series is one metric of one subject. Banks keep their state in columns over all series of a node, so that a
tick is a few vector operations and no loop over values.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from dutycycle.contract.catalogue import COUNTERS, OWN_GPU_METRICS
from dutycycle.contract.records.derived import Subject, gpu_subject, node_subject, pod_subject
from streams.operators.columns.arrays import Floats, Ints, keep_once

K = TypeVar("K", bound=tuple[str, ...])

PCT_OF_GPU = ("gpu_util_pct", "mem_copy_util_pct", *OWN_GPU_METRICS)
"""The peaks of these are made of those of the pod's GPUs: the largest of any, and the mean over all."""
SUBJECTS = 1024
"""So many subjects are kept that are asked for again: pods come and go."""
NO_POWER, GAUGE = -1, -2
"""Instead of the column of a counter's power: there is none, or it is no counter."""


class Series(NamedTuple):
    """Names one metric of one subject. ``kind``: ``gpu``, ``pod`` or ``node``; ``member``: the GPU's uuid or
    the pod's uid, empty for the node."""

    kind: str
    member: str
    metric: str


@lru_cache(maxsize=SUBJECTS)
def subject_of(node: str, kind: str, member: str) -> Subject:
    """Return the subject that a series of ``node`` belongs to."""
    if kind == "gpu":
        return gpu_subject(node, member)
    return pod_subject(node, member) if kind == "pod" else node_subject(node)


class TallySeries(NamedTuple):
    """Names one metric of a pod: of the whole (``scope`` empty), on ``<node>/<gpu index>``, or of one process
    there (``<node>/<gpu index>/<pid>``)."""

    pod_uid: str
    scope: str
    metric: str


class ColumnIndex(Generic[K]):
    """Gives every series a column, which it keeps until it is retired. ``ids``: the series by column."""

    __slots__ = ("_columns", "_is_whole", "_layout", "ids")

    def __init__(self, ids: Sequence[K] = ()) -> None:
        self.ids: list[K] = list(ids)
        self._layout: tuple[K, ...] | None = None  # of nothing is a layout, too: a node without GPUs
        self._columns: Ints = np.zeros(0, np.int64)
        self._is_whole = False

    def __len__(self) -> int:
        return len(self.ids)

    def columns(self, layout: tuple[K, ...]) -> Ints:
        """Return the column of each series of ``layout``, shape (len(layout),); new series get new
        columns."""
        if layout is self._layout:
            return self._columns
        # Not kept: layouts hardly change, and of a node with 8 GPUs these take 14 kB
        column = {key: at for at, key in enumerate(self.ids)}
        columns = (column.setdefault(key, len(column)) for key in layout)
        self._columns = keep_once(np.fromiter(columns, np.int64, len(layout)))
        self.ids += list(column)[len(self.ids) :]
        self._layout = layout
        self._is_whole = self._columns.tolist() == list(range(len(self.ids)))
        return self._columns

    def spread(self, layout: tuple[K, ...], values: Floats) -> Floats:
        """Return the values of a layout, shape (ticks, len(layout)), in all columns, NaN where there are
        none. The same array if nothing has to move."""
        columns = self.columns(layout)
        if self._is_whole:
            return values
        rows = np.full((len(values), len(self.ids)), np.nan)
        rows[:, columns] = values
        return rows

    def retain(self, keep: Ints) -> None:
        """Keep only the columns ``keep``, in that order."""
        self.ids = [self.ids[column] for column in keep]
        self._layout = None


def remapped(old: Sequence[Hashable], new: Sequence[Hashable]) -> Ints:
    """Return for each of ``new`` the position in ``old``, or -1; shape (len(new),)."""
    position = {key: column for column, key in enumerate(old)}
    return keep_once(np.fromiter((position.get(key, -1) for key in new), np.int64, len(new)))


def subjects_of(series: Sequence[Series]) -> Ints:
    """Return for each of the series a number, the same for all of one subject, shape (len(series),)."""
    numbers: dict[tuple[str, str], int] = {}
    each = (
        numbers.setdefault((each_series.kind, each_series.member), len(numbers)) for each_series in series
    )
    return keep_once(np.fromiter(each, np.int64, len(series)))


def powers_of_counters(series: Sequence[Series]) -> Ints:
    """Return for each of the series that is a cumulative counter, all of which are of energy, the column of
    its subject's power, or ``NO_POWER``; ``GAUGE`` for all others. Shape (len(series),)."""
    powers = {
        each_series.member: column
        for column, each_series in enumerate(series)
        if each_series.metric == "power_w"
    }
    columns = (
        powers.get(each_series.member, NO_POWER) if each_series.metric in COUNTERS else GAUGE
        for each_series in series
    )
    return keep_once(np.fromiter(columns, np.int64, len(series)))
