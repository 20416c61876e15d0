"""Defines a tick: what a node measured at one moment, in columns. Each sample becomes one before any bank
sees it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dutycycle.contract.ownership.division import Holdings
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.series import Series, TallySeries


class Begins(NamedTuple):
    """Says where parts begin in the row of a tick; its values begin it."""

    tallies: int
    highs: int
    facts: int
    value_highs: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Says which series a tick holds. It is the same object as long as the GPUs, pods and processes of the
    node are.

    ``series`` has shape (n,) and ``tallies`` (m,). ``pods``: the uids in ``tallies`` and ``attribution``.
    ``attribution``, by pod and scope: how the use of a GPU is known (``dutycycle.contract.ownership.words``).
    ``gpus``: the scopes of the node's GPUs, in the order of their series. ``holdings``: who has them.
    ``slices``: of each pod, the MIG slices that it has to itself and that tell what they really do.
    ``begins``: where the parts of a tick are in its row. ``measured``: the places of the series that a row
    has values of, ascending; None: of all. What a GPU never tells takes no room in the ticks that wait.
    """

    series: tuple[Series, ...]
    tallies: tuple[TallySeries, ...]
    pods: tuple[str, ...]
    attribution: Mapping[tuple[str, str], str]
    begins: Begins
    gpus: tuple[str, ...] = ()
    holdings: Holdings | None = field(default=None, compare=False)
    slices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measured: Ints | None = field(default=None, compare=False)

    @property
    def width(self) -> int:
        """Return of how many series a row has values."""
        return len(self.series) if self.measured is None else self.measured.size

    def spread(self, values: Floats) -> Floats:
        """Return values of rows, shape (..., ``width``), as those of all series, shape (..., n): NaN for
        those that a row has no values of. The same array if it has values of all."""
        if self.measured is None:
            return values
        spread = np.full((*values.shape[:-1], len(self.series)), np.nan)
        spread[..., self.measured] = values
        return spread


class TickRow(NamedTuple):
    """Holds one tick of a node. What was not measured is NaN.

    ``interval_ms``: the time before ``ts_ms`` that it measures. ``row``: all of its numbers, whose parts are
    those of ``TickBlock``. ``bursts``: the driver's own samples since the last tick as in the record, of the
    series that have any.
    """

    collector: str
    seq: int
    ts_ms: int
    interval_ms: int
    layout: Layout
    row: Floats
    bursts: tuple[tuple[Series, Any], ...] = ()

    @property
    def values(self) -> Floats:
        """Return the values as of ``TickBlock``, shape (n,)."""
        return self.layout.spread(self.row[: self.layout.width])

    @property
    def value_highs(self) -> Floats | None:
        """Return the highs of values as of ``TickBlock``, shape (n,); None where there are no bursts."""
        begin, layout = self.layout.begins.value_highs, self.layout
        return None if begin == self.row.size else layout.spread(self.row[begin : begin + layout.width])


def make_layout(
    series: Iterable[Series],
    tallies: Iterable[TallySeries],
    attribution: Mapping[tuple[str, str], str] | None = None,
    gpus: tuple[str, ...] = (),
    holdings: Holdings | None = None,
    slices: Mapping[str, tuple[str, ...]] | None = None,
    begins: Begins | None = None,
    measured: Ints | None = None,
) -> Layout:
    """Return a layout, with the pods that its tallies and its attribution name. Without ``begins`` a tick has
    values alone, which are its tallies and their highs."""
    series, of_pods, attribution = tuple(series), tuple(tallies), attribution or {}
    begins = begins or Begins(0, 0, len(series), len(series))
    uids = dict.fromkeys([*(tally.pod_uid for tally in of_pods), *(uid for uid, _ in attribution)])
    return Layout(series, of_pods, tuple(uids), attribution, begins, gpus, holdings, slices or {}, measured)
