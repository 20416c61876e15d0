"""Parses the names of metrics that autoscalers ask for: ``<metric>[_max][_in_<seconds>s]``. Pure."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from dutycycle.contract.catalogue import METRICS
from dutycycle.contract.errors import did_you_mean
from sinks.adapter.seasonal_load import SLOT_MS, SLOTS

_SHOWN_HORIZON_S = 300
"""The horizon of the forecasts that discovery lists; others are answered too."""
_LONGEST_S = SLOTS * SLOT_MS // 1000
"""Nothing is forecast beyond the longest cycle."""
_NAME = re.compile(r"(?P<field>.+?)(?P<max>_max)?(?:_in_(?P<horizon_s>[1-9][0-9]{0,4})s)?")


class UnknownMetricError(Exception):
    """Says that there can never be such a metric, and which one may be meant."""


class MetricName(NamedTuple):
    """Names a metric. ``field``: of windows. ``is_max``: the largest of an object's pods or GPUs, not their
    mean. ``horizon_s``: 0 for now."""

    field: str
    is_max: bool = False
    horizon_s: int = 0

    def __str__(self) -> str:
        ahead = f"_in_{self.horizon_s}s" if self.horizon_s else ""
        return f"{self.field}{'_max' if self.is_max else ''}{ahead}"


def parse(text: str) -> MetricName:
    """Parse ``gpu_util_pct``, ``gpu_util_pct_max``, ``gpu_util_pct_in_300s``. Raises
    ``UnknownMetricError``."""
    match = _NAME.fullmatch(text)
    field = match["field"] if match else text
    horizon_s = int(match["horizon_s"] or 0) if match else 0
    if field not in METRICS:
        raise UnknownMetricError(f"there is no metric {field}{did_you_mean(field, METRICS)}")
    if horizon_s > _LONGEST_S:
        raise UnknownMetricError(f"{text}: forecasts reach {_LONGEST_S} s, the longest cycle")
    return MetricName(field, bool(match and match["max"]), horizon_s)


def listed(fields: Iterable[str], *, of_objects: bool, forecast: bool = True) -> list[str]:
    """Return the names that discovery lists for metrics that there are. ``of_objects``: of several pods or
    GPUs."""
    names = {
        MetricName(field, is_max)
        for field in fields
        for is_max in ((False, True) if of_objects else (False,))
    }
    ahead = {name._replace(horizon_s=_SHOWN_HORIZON_S) for name in names} if forecast else set()
    return sorted(map(str, names | ahead))
