"""Holds what was read for a picture: which series there are at all, and the points of those that are
wanted."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from dutycycle.contract.errors import DutycycleError, did_you_mean
from dutycycle.contract.records.pods import Pod
from dutycycle.traces.frames import Frame
from dutycycle.traces.subject import qualified
from dutycycle.words import listed

KINDS = ("gpu/", "node/", "pod/", "job/")
"""What a subject's key begins with."""
BOUNDED = ("value", "low", "high")
_NAMED = 12
"""So many names are listed where none fits."""
_MOST_LINES = 16
"""With more lines a picture could not be read."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Says what to read. ``subjects``: keys, in which ``*`` stands for anything; none: all. ``horizon_s``: of
    the forecasts."""

    subjects: Collection[str]
    metrics: Collection[str]
    horizon_s: float | None = None


def _bounded() -> Frame:
    return Frame(BOUNDED)


@dataclass(slots=True)
class CollectedSeries:
    """Collects series by the key of their subject and their metric."""

    wanted: Wanted
    metrics: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Every subject, wanted or not, with all of its metrics."""
    names: dict[str, str] = field(default_factory=dict)
    """What people call a subject, where that is known."""
    samples: dict[tuple[str, str], Frame] = field(
        default_factory=lambda: defaultdict(lambda: Frame(("value",)))
    )
    windows: dict[tuple[str, str], dict[int, Frame]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_bounded))
    )
    """By their size in milliseconds; at the moment at which a window begins."""
    cycles: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """The records of a subject, as plain objects."""
    forecasts: dict[tuple[str, str], dict[str, Frame]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_bounded))
    )
    """By who made them; at the moment that they are about."""
    horizons: set[float] = field(default_factory=set)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """By metric the subjects for which a picture has no room."""
    _fits: dict[str, bool] = field(default_factory=dict)

    def is_subject(self, subject: str) -> bool:
        """Tell whether it is wanted."""
        if subject not in self._fits:
            patterns = self.wanted.subjects or ("*",)
            self._fits[subject] = any(fnmatchcase(subject, pattern) for pattern in patterns)
        return self._fits[subject]

    def is_wanted(self, subject: str, metric: str) -> bool:
        """Tell whether a series is."""
        return metric in self.wanted.metrics and self.is_subject(subject)

    def note(self, subject: str, metric: str) -> None:
        """Note that a series is there."""
        self.metrics[subject].add(metric)

    def is_wanted_there(self, subject: str, metric: str) -> bool:
        """Tell whether a series is that is there."""
        self.note(subject, metric)
        return self.is_wanted(subject, metric)

    def window(
        self, place: tuple[str, str], size_ms: int, start_ms: int, figures: Sequence[float | None]
    ) -> None:
        """Take a window of a series, if that is wanted. ``figures``: mean, min, max, and the increase that a
        counter has instead of a mean."""
        mean, least, most, increase = figures
        value = increase if mean is None else mean
        if self.is_wanted_there(*place) and value is not None:
            low, high = (value if end is None else end for end in (least, most))
            self.windows[place][size_ms].add(start_ms, {"value": value, "low": low, "high": high})

    def forecast(self, place: tuple[str, str], who: str, ts_ms: int, point: dict[str, float]) -> None:
        """Take what was forecast at ``ts_ms`` of a wanted series, if it is so far ahead. ``point`` has
        ``horizon_s``, ``value`` and, where there is an interval, ``p05`` and ``p95``."""
        horizon_s, value = point["horizon_s"], point["value"]
        self.horizons.add(horizon_s)
        if horizon_s == self.wanted.horizon_s:
            values = {"value": value, "low": point.get("p05", value), "high": point.get("p95", value)}
            self.forecasts[place][who].add(ts_ms + round(1000 * horizon_s), values)

    def chosen(self) -> dict[str, list[str]]:
        """Choose of each wanted metric the subjects that have it, GPUs first, at most ``_MOST_LINES``.

        The others are in ``left_out``. Raises ``DutycycleError`` where there is none.
        """
        if not self.metrics:
            raise DutycycleError("there is no series to draw: expected samples, windows or forecasts")
        for pattern in self.wanted.subjects:
            if not any(fnmatchcase(name, pattern) for name in self.metrics):
                known = sorted(map(self._called, self.metrics))
                raise DutycycleError(f"no subject {pattern}; there are {listed(known, _NAMED)}")
        places = {*self.samples, *self.windows, *self.forecasts}
        wanted = [subject for subject in sorted(self.metrics) if self.is_subject(subject)]
        subjects_by_metric = {
            metric: [subject for subject in wanted if (subject, metric) in places]
            for metric in self.wanted.metrics
        }
        metrics = {metric for subject in wanted for metric in self.metrics[subject]}
        there = f"there are {', '.join(sorted(metrics))}"
        if not subjects_by_metric:
            raise DutycycleError(f"give --metric; {there}")
        for metric, subjects in subjects_by_metric.items():
            if not subjects:
                whose = ", ".join(self.wanted.subjects) or "any subject"
                meant = did_you_mean(metric, metrics) or f"; {there}"
                raise DutycycleError(f"no metric {metric} of {whose}{meant}")
            if more := subjects[_MOST_LINES:]:
                self.left_out[metric] = more
        if self.wanted.horizon_s is not None and not self.forecasts:
            there = listed([f"{horizon:g}s" for horizon in sorted(self.horizons)], _NAMED)
            raise DutycycleError(f"no forecast {self.wanted.horizon_s:g}s ahead; there are {there}")
        return {metric: subjects[:_MOST_LINES] for metric, subjects in subjects_by_metric.items()}

    def explain_left_out(self) -> list[str]:
        """Say of which metrics not all subjects are drawn, and how to choose others."""
        return [
            f"{len(more) + _MOST_LINES} subjects have {metric}, and a picture shows the first {_MOST_LINES}: "
            f"not {listed(sorted(map(self._called, more)), _NAMED)}; choose by --subject"
            for metric, more in self.left_out.items()
        ]

    def named(self, pod: Pod) -> None:
        """Take who a pod is."""
        self.names[f"pod/{pod.uid}"] = qualified(pod, pod.name)

    def label(self, subject: str) -> str:
        """Return the name, or the key where there is none."""
        return self.names.get(subject, subject)

    def _called(self, subject: str) -> str:
        return f"{subject} ({self.names[subject]})" if subject in self.names else subject
