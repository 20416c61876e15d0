"""Figures of one process: gauges and counters by name and labels, read whenever somebody scrapes them."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Labels = tuple[str, ...]
Read = Callable[[], float | Mapping[Labels, float] | None]
"""A figure as it is now, or one for each tuple of label values; None: there is none yet.

It is called in the thread of whoever scrapes: it waits for nothing and changes nothing.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A named figure, declared once. A name that ends in ``_total`` is a counter, every other a gauge.

    The unit is the last part of the name (before ``_total``). The values of a label are few: no pod, no key.
    Two of one name are two figures: not comparing names makes counting faster.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether it only ever grows."""
        return self.name.endswith("_total")


class Meter:
    """Holds the figures of one process. Safe to call from several threads."""

    def __init__(self) -> None:
        self._values: dict[Metric, dict[Labels, float]] = {}
        self._reads: dict[Metric, Read] = {}
        self._lock = threading.Lock()

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """The figure is ``value`` now."""
        with self._lock:
            self._of(metric)[_values(metric, labels)] = value

    def add(self, metric: Metric, amount: float = 1.0, **labels: str) -> None:
        """The figure grew by ``amount``."""
        key = _values(metric, labels)
        with self._lock:
            mine = self._of(metric)
            mine[key] = mine.get(key, 0.0) + amount

    def read(self, metric: Metric, read: Read) -> None:
        """Ask ``read`` for the figure whenever somebody wants it; the last one given counts."""
        with self._lock:
            self._reads[metric] = read

    def expect(self, metric: Metric, *labels: Labels) -> None:
        """Show the figure from now on, at 0 for each of ``labels``: what is counted later has a beginning."""
        with self._lock:
            mine = self._of(metric)
            for one in labels if metric.labels else [()]:
                mine.setdefault(one, 0.0)

    def now(self) -> dict[Metric, dict[Labels, float]]:
        """Every figure as it is now, by its label values; without any where it has none yet."""
        with self._lock:
            found = {metric: dict(values) for metric, values in self._values.items()}
            reads = list(self._reads.items())
        for metric, read in reads:
            found[metric] = _read(read)
        return found

    def _of(self, metric: Metric) -> dict[Labels, float]:
        return self._values.setdefault(metric, {})


def _values(metric: Metric, labels: Mapping[str, str]) -> Labels:
    return tuple([labels[name] for name in metric.labels])  # a generator would cost more than all the rest


def _read(read: Read) -> dict[Labels, float]:
    try:
        found = read()
    except Exception:  # noqa: BLE001 - it looks into what other threads change; the next scrape asks again
        return {}
    if isinstance(found, Mapping):
        return dict(found)
    return {} if found is None else {(): float(found)}


def product(*choices: Iterable[str]) -> list[Labels]:
    """Every combination of label values, for ``expect``."""
    found: list[Labels] = [()]
    for values in map(list, choices):
        found = [(*one, value) for one in found for value in values]
    return found
