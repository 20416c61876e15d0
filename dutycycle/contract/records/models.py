"""Holds what models say that a user brings: forecasts, anomaly scores and events, each by the model's
name."""

from dutycycle.contract.records.base import RecordBase, VersionedRecord
from dutycycle.contract.records.derived import Subject
from dutycycle.contract.units import Amount, Count, Label, Millis, Number

BUILT_IN = "trends"
"""In tables and pictures the forecaster of the topic of that name: ours, and no user's."""


class ModelPoint(RecordBase, frozen=True, kw_only=True):
    """Holds the value that a model expects ``horizon_s`` after ``ts_ms``, in the metric's unit."""

    horizon_s: Amount
    value: Number


class ModelForecast(VersionedRecord, frozen=True, kw_only=True):
    """The forecasts of one model for one metric of a subject."""

    subject: Subject
    source: Label
    model: Label
    metric: Label
    ts_ms: Millis
    forecast: tuple[ModelPoint, ...]


class ModelScore(VersionedRecord, frozen=True, kw_only=True):
    """How unusual a model finds the ``metrics`` of a subject; the scale is the model's.

    ``score`` is that of the newest of ``count`` ticks since the last record, ``max`` the largest of them.
    """

    subject: Subject
    source: Label
    model: Label
    metrics: tuple[Label, ...]
    ts_ms: Millis
    score: Number
    max: Number
    at_ms: Millis
    count: Count


class ModelEvent(VersionedRecord, frozen=True, kw_only=True):
    """Something that a model noticed, or that happened to it.

    ``kind``: ``drift``, ``anomaly`` (the first tick that a filter calls one), ``failed`` (it raised an error,
    and begins anew after a pause), ``large`` (the same, as its state was over the limit).
    """

    subject: Subject
    source: Label
    model: Label
    metrics: tuple[Label, ...]
    ts_ms: Millis
    kind: Label
    detail: Label | None = None
