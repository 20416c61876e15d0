"""One node's measurements at one moment, in columns: what a sample becomes before it meets an operator."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.columns.series import Series, TallySeries

_NO_FACTS: Floats = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which series a tick holds. The same object as long as the node's GPUs, pods and processes are.

    ``series`` has shape (n,), ``tallies`` (m,), ``gpus`` the scopes of the node's GPUs in the order of their
    series; ``origins``, by pod and scope: where a pod's figures on a GPU come from
    (``contract.records.attribution``).
    """

    series: tuple[Series, ...]
    tallies: tuple[TallySeries, ...]
    pods: tuple[str, ...]
    origins: Mapping[tuple[str, str], str]
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick: ``values`` (n,) and ``tallies`` (m,) as in the layout, NaN for what was not measured.

    ``highs`` (m,) is the largest value since the last tick, from the driver's bursts where there are any.
    ``facts`` is what only insights need: of each GPU its power limit in watts and whether power and heat hold
    its clocks down (0 or 100); of a host the share of its CPUs that is busy, in percent.
    """

    collector: str
    seq: int
    ts_ms: int
    interval_ms: int
    layout: Layout
    values: Floats
    tallies: Floats
    highs: Floats
    facts: Floats = field(default_factory=lambda: _NO_FACTS)
    bursts: tuple[tuple[Series, Any], ...] = ()
    """The driver's own samples since the last tick, of the series that have any, as in the record."""


def make_layout(
    series: Iterable[Series],
    tallies: Iterable[TallySeries],
    origins: Mapping[tuple[str, str], str] | None = None,
    gpus: tuple[str, ...] = (),
) -> Layout:
    """A layout, with the pods that its tallies and origins name."""
    names = tuple(series)
    marks = tuple(tallies)
    told = origins or {}
    pods = tuple(dict.fromkeys([*(one.pod_uid for one in marks), *(uid for uid, _ in told)]))
    return Layout(names, marks, pods, told, gpus)


def numbers(cells: Sequence[float | None]) -> Floats:
    """Cells as float64, absent as NaN."""
    return np.array(cells, np.float64)
