"""Says what each kind of River's estimators does with a tick: forecast, score, or notice."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol, TypeVar

from streams.operators.models.codec import Rows, StateCodec

Plain = dict[str, Any]
Build = Callable[[], Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OutputStep:
    """Holds what a tick gave: an anomaly ``score``, and an event that it is."""

    score: float | None = None
    event: str | None = None


NOTHING = OutputStep()
WARM_UP = 10_000
"""Ticks in which a model may raise an error instead of its first answer: it has not learnt enough."""


class ModelRole(Protocol):
    """Runs one model of one subject. Raises whatever the model raises."""

    def learn(self, row: Sequence[float]) -> OutputStep:
        """Take a tick: the values of the model's metrics."""
        ...

    def forecast(self) -> list[float]:
        """Return values of the first metric, one for each of ``steps``; none where it does not forecast."""
        ...

    def snapshot(self) -> Plain:
        """Return plain data, for ``restore``."""
        ...

    def restore(self, plain: Plain) -> None:
        """Go on from a snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class RoleConfig:
    """Configures a role. ``metrics``: of the model. ``steps``: ticks ahead, ascending. ``lags``: newest
    values that a regressor gets."""

    metrics: tuple[str, ...]
    steps: tuple[int, ...]
    lags: int
    codec: StateCodec


class _Single:
    """Is a role with one estimator."""

    def __init__(self, build: Build, config: RoleConfig) -> None:
        self._config = config
        self._model: Any = build()
        self._warming = 0
        """Ticks without any answer; -1 after the first one."""

    def forecast(self) -> list[float]:
        return []

    def _answer(self, ask: Callable[[], T]) -> T | None:
        """Return what the model says; None while it warms up."""
        try:
            answer = ask()
        except Exception:
            if not 0 <= self._warming < WARM_UP:
                raise
            self._warming += 1
            return None
        self._warming = -1
        return answer

    def snapshot(self) -> Plain:
        return {"models": [self._config.codec.encode(self._model)], "warming": self._warming}

    def restore(self, plain: Plain) -> None:
        (rows,) = plain["models"]
        self._model = self._config.codec.decode(rows)
        self._warming = plain["warming"]


class Forecasting(_Single):
    """Forecasts by ``time_series``: learns the first metric; the others are features of the moment."""

    def __init__(self, build: Build, config: RoleConfig) -> None:
        super().__init__(build, config)
        self._now: list[float] = []

    def _features(self) -> dict[str, float]:
        return dict(zip(self._config.metrics[1:], self._now, strict=True))

    def learn(self, row: Sequence[float]) -> OutputStep:
        self._now = [*row[1:]]
        self._model.learn_one(y=row[0], x=self._features())
        return NOTHING

    def forecast(self) -> list[float]:
        return self._answer(self._path) or []

    def _path(self) -> list[float]:
        steps = self._config.steps
        # What the other metrics will be is not known: what they are now stays.
        features = [self._features()] * steps[-1] if self._now else None
        path = self._model.forecast(horizon=steps[-1], xs=features)
        return [_finite(path[step - 1]) for step in steps]

    def snapshot(self) -> Plain:
        return {**super().snapshot(), "now": self._now}

    def restore(self, plain: Plain) -> None:
        super().restore(plain)
        self._now = plain["now"]


class Scoring(_Single):
    """Runs ``anomaly``: scores a tick, then learns it. A filter notices the first of the ticks that it
    refuses."""

    def __init__(self, build: Build, config: RoleConfig) -> None:
        super().__init__(build, config)
        self._anomalous = False

    def _of(self, row: Sequence[float]) -> tuple[Any, ...]:
        return (dict(zip(self._config.metrics, row, strict=True)),)

    def learn(self, row: Sequence[float]) -> OutputStep:
        arguments = self._of(row)
        score = self._answer(lambda: _finite(self._model.score_one(*arguments)))
        if isinstance(self._model, _river().base.AnomalyFilter):
            anomalous = score is not None and bool(self._model.classify(score))
        else:
            anomalous = False
        self._model.learn_one(*arguments)
        begins, self._anomalous = anomalous and not self._anomalous, anomalous
        return OutputStep(score, "anomaly" if begins else None)

    def snapshot(self) -> Plain:
        return {**super().snapshot(), "anomalous": self._anomalous}

    def restore(self, plain: Plain) -> None:
        super().restore(plain)
        self._anomalous = plain["anomalous"]


class ScoringAgainst(Scoring):
    """Scores by a detector that judges the first metric, given the others."""

    def _of(self, row: Sequence[float]) -> tuple[Any, ...]:
        return dict(zip(self._config.metrics[1:], row[1:], strict=True)), row[0]


class Noticing(_Single):
    """Runs ``drift``: notices that the first metric changed."""

    def learn(self, row: Sequence[float]) -> OutputStep:
        self._model.update(row[0])
        return OutputStep(event="drift") if self._model.drift_detected else NOTHING


class Regressing:
    """Trains a regressor for each horizon, over the newest values of the first metric and those of the others
    now.

    It learns each tick from what was known when the tick would have been forecast.
    """

    def __init__(self, build: Build, config: RoleConfig) -> None:
        self._config = config
        self._models: list[Any] = [build() for _ in config.steps]
        self._rows: deque[tuple[float, ...]] = deque(maxlen=config.steps[-1] + config.lags)

    def learn(self, row: Sequence[float]) -> OutputStep:
        self._rows.append(tuple(row))
        for step, model in zip(self._config.steps, self._models, strict=True):
            features = self._features(step)
            if features is not None:
                model.learn_one(features, row[0])
        return NOTHING

    def _features(self, ago: int) -> dict[str, float] | None:
        """Return what was known so many ticks ago; None if that is not long enough after the beginning."""
        newest = len(self._rows) - 1 - ago
        if newest + 1 < self._config.lags:
            return None
        features = {f"lag_{lag}": self._rows[newest - lag][0] for lag in range(self._config.lags)}
        return features | dict(zip(self._config.metrics[1:], self._rows[newest][1:], strict=True))

    def forecast(self) -> list[float]:
        features = self._features(0)
        if features is None or len(self._rows) < self._rows.maxlen:  # type: ignore[operator]  # it has one
            return []
        return [_finite(model.predict_one(features)) for model in self._models]

    def snapshot(self) -> Plain:
        models: list[Rows] = [self._config.codec.encode(model) for model in self._models]
        return {"models": models, "rows": [list(row) for row in self._rows]}

    def restore(self, plain: Plain) -> None:
        self._models = [self._config.codec.decode(rows) for rows in plain["models"]]
        self._rows.extend(tuple(row) for row in plain["rows"])


def _finite(value: Any) -> float:
    number = float(value)
    if not isfinite(number):
        raise ArithmeticError(f"it says {number}")
    return number


def _river() -> Any:
    """Return River, imported where a model asks for it: who has none need not wait for it."""
    import river.base
    import river.compose
    import river.time_series

    return river


def role_of(estimator: Any) -> Callable[[Build, RoleConfig], ModelRole]:
    """Return the role of an estimator. Raises ``TypeError`` for one that has none."""
    river = _river()
    base, last = river.base, estimator
    while isinstance(last, river.compose.Pipeline):
        last = list(last.steps.values())[-1]
    roles: dict[type, Callable[[Build, RoleConfig], ModelRole]] = {
        river.time_series.base.Forecaster: Forecasting,
        base.AnomalyFilter: Scoring,
        base.AnomalyDetector: Scoring,
        base.SupervisedAnomalyDetector: ScoringAgainst,
        base.DriftDetector: Noticing,
        base.Regressor: Regressing,
    }
    chosen = next((role for kind, role in roles.items() if isinstance(last, kind)), None)
    if chosen is Scoring and isinstance(
        getattr(last, "anomaly_detector", None), base.SupervisedAnomalyDetector
    ):
        chosen = ScoringAgainst
    if chosen is None or (chosen is Noticing and last is not estimator):  # a pipeline has no ``update``
        raise TypeError(
            f"{type(last).__name__} is none of River's forecasters, regressors, anomaly and drift detectors"
        )
    return chosen
