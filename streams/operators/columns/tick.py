"""One node's measurements at one moment, in columns: what a sample becomes before it meets an operator."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from contract.codec import DecodeError, from_plain
from contract.records.deadletter import Reason
from contract.topics import TOPICS
from contract.units import END_OF_TIME_MS, MOST
from streams.operators.columns.arrays import Floats
from streams.operators.columns.series import Series, TallySeries

_UP_TO_100 = {"gpu_util_pct", "mem_copy_util_pct", "cpu_throttled_pct"}
_NUMBERS = {int, float, type(None)}
_NO_FACTS: Floats = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which series a tick holds. The same object as long as the node's GPUs, pods and processes are.

    ``series`` has shape (n,), ``tallies`` (m,), ``gpus`` the scopes of the node's GPUs in the order of their
    series; ``low`` and ``high`` (n,) bound the values of ``series``,
    ``tally_high`` (m,) those of ``tallies`` from above (0 does from below). ``origins``, by pod and
    scope: where a pod's figures on a GPU come from (``contract.records.attribution``).
    """

    series: tuple[Series, ...]
    tallies: tuple[TallySeries, ...]
    pods: tuple[str, ...]
    origins: Mapping[tuple[str, str], str]
    low: Floats
    high: Floats
    tally_high: Floats
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

    def check(self) -> "Tick":
        """The tick itself, or ``ValueError`` when a value is out of the range of its unit."""
        layout = self.layout
        count = np.count_nonzero  # of so few, a tenth of what any() takes
        if count(self.values < layout.low) or count(self.values > layout.high):
            raise ValueError("out of range")
        if count(self.tallies < 0) or count(self.highs > layout.tally_high):
            raise ValueError("out of range")
        return self


def make_layout(
    series: Iterable[Series],
    tallies: Iterable[TallySeries],
    origins: Mapping[tuple[str, str], str] | None = None,
    gpus: tuple[str, ...] = (),
) -> Layout:
    """A layout with the bounds that its metrics' units imply."""
    names = tuple(series)
    marks = tuple(tallies)
    high = [_high(one.metric) for one in names]
    tally_high = [_high(one.metric) for one in marks]
    low = [-273.15 if one.metric == "temp_c" else 0.0 for one in names]
    told = origins or {}
    pods = tuple(dict.fromkeys([*(one.pod_uid for one in marks), *(uid for uid, _ in told)]))
    return Layout(names, marks, pods, told, np.array(low), np.array(high), np.array(tally_high), gpus)


def _high(metric: str) -> float:
    return 100.0 if metric in _UP_TO_100 else MOST


def numbers(cells: list[Any]) -> Floats:
    """Cells as float64, absent as NaN; raises ``ValueError`` if one is no number."""
    if not _NUMBERS.issuperset(map(type, cells)):
        raise ValueError("not a number")
    return np.array(cells, np.float64)


def check_header(plain: dict[str, Any], items: str) -> None:
    """Raise ``ValueError`` unless the tick's name and time, and its list ``items``, are what they should."""
    if type(plain[items]) is not list:
        raise ValueError(items)
    whole = (plain["seq"], plain["ts_ms"], plain["interval_ms"])
    if not all(type(one) is int and 0 <= one <= END_OF_TIME_MS for one in whole):
        raise ValueError("seq, ts_ms or interval_ms")
    if type(plain["node"]) is not str or type(plain["collector"]) is not str:
        raise ValueError("node or collector")


def explained(read: Callable[[dict[str, Any]], Tick], plain: dict[str, Any], topic: str) -> Tick:
    """``read(plain)``; where that fails, the strict codec says which field is wrong, by ``DecodeError``."""
    try:
        return read(plain)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        from_plain(TOPICS[topic].record, plain, topic)
        raise DecodeError(topic, "payload", Reason.SCHEMA, f"cannot be used: {error}") from error
