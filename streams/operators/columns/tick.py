"""A tick: what a node measured at one moment, in columns. Each sample becomes one before any bank sees it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dutycycle.contract.ownership.holdings import Holdings
from streams.operators.columns.arrays import Floats
from streams.operators.columns.series import Series, TallySeries


@dataclass(frozen=True, slots=True)
class Layout:
    """Which series a tick holds. It is the same object as long as the GPUs, pods and processes of the node
    are.

    ``series`` has shape (n,) and ``tallies`` (m,). ``pods``: the uids in ``tallies`` and ``attribution``.
    ``attribution``, by pod and scope: how the use of a GPU is known (``dutycycle.contract.attribution``).
    ``gpus``: the scopes of the node's GPUs, in the order of their series. ``holdings``: who has them.
    ``slices``: of each pod, the MIG slices that it has to itself and that tell what they really do.
    """

    series: tuple[Series, ...]
    tallies: tuple[TallySeries, ...]
    pods: tuple[str, ...]
    attribution: Mapping[tuple[str, str], str]
    gpus: tuple[str, ...] = ()
    holdings: Holdings | None = field(default=None, compare=False)
    slices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Tick(NamedTuple):
    """One tick of a node. What was not measured is NaN.

    ``interval_ms``: the time before ``ts_ms`` that it measures. ``values`` (n,): of ``layout.series``.
    ``tallies`` (m,): of ``layout.tallies``. ``highs`` (m,): the largest value since the last tick, from the
    driver's bursts where there are any; ``value_highs`` (n,): the same of ``values``, None where there are no
    bursts. ``facts``: what only insights of workloads need; of each GPU its
    power limit in watts and whether power and heat hold its clocks down (0 or 100), of a host the share of
    its CPUs that is busy, in percent. ``bursts``: the driver's own samples since the last tick as in the
    record, of the series that have any.
    """

    collector: str
    seq: int
    ts_ms: int
    interval_ms: int
    layout: Layout
    values: Floats
    tallies: Floats
    highs: Floats
    facts: Floats = np.zeros(0)
    bursts: tuple[tuple[Series, Any], ...] = ()
    value_highs: Floats | None = None

    def follows(self, other: "Tick | None") -> bool:
        """Whether it has the columns and the interval of another one."""
        return other is not None and self.layout is other.layout and self.interval_ms == other.interval_ms


def make_layout(
    series: Iterable[Series],
    tallies: Iterable[TallySeries],
    attribution: Mapping[tuple[str, str], str] | None = None,
    gpus: tuple[str, ...] = (),
    holdings: Holdings | None = None,
    slices: Mapping[str, tuple[str, ...]] | None = None,
) -> Layout:
    """A layout, with the pods that its tallies and its attribution name."""
    of_pods, attribution = tuple(tallies), attribution or {}
    uids = dict.fromkeys([*(tally.pod_uid for tally in of_pods), *(uid for uid, _ in attribution)])
    return Layout(tuple(series), of_pods, tuple(uids), attribution, gpus, holdings, slices or {})
