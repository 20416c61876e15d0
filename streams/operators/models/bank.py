"""Runs the models of one node: one of each for every subject that has its metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Any

from msgspec import msgpack

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.models import ModelEvent, ModelForecast, ModelPoint, ModelScore
from dutycycle.telemetry.events import MODEL_FAILED, MODEL_LARGE
from streams.operators.base import CountedEvent, Emission, NodeModels, Snapshot
from streams.operators.columns.series import Series, subject_of
from streams.operators.columns.tick import Layout, TickRow
from streams.operators.models.codec import StateCodec
from streams.operators.models.roles import Build, ModelRole, RoleConfig
from streams.operators.rounding import tidy

SIZED_EVERY = 300
"""Ticks of a model between two looks at the size of its state."""
PAUSE_MS, LONGEST_PAUSE_MS = 60_000, 3_600_000
"""A model that failed begins anew after this; the pause doubles with each further failure."""
_FORGIVEN = 3600
"""Ticks without a failure after which earlier ones do not count."""
_DETAIL = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Describes a model that runs for each subject of ``kind`` (None: of any) that has all of its
    ``metrics``.

    ``text`` is its specification: with another one it begins anew. ``build`` makes one estimator, ``role``
    what is done with it.
    """

    name: str
    text: str
    kind: str | None
    metrics: tuple[str, ...]
    build: Build
    role: Callable[[Build, RoleConfig], ModelRole]
    codec: StateCodec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsConfig:
    """Says which models run. ``horizons_s``: how far ahead forecasts reach. ``lags``: newest values that a
    regressor gets. ``state_bytes``: the most that one model's state of one subject may have."""

    models: tuple[Model, ...] = ()
    horizons_s: tuple[float, ...] = ()
    lags: int = 12
    state_bytes: int = 1_000_000


Place = tuple[str, str, str]
"""A model's name, and kind and member of a subject."""


@dataclass(slots=True)
class _Running:
    """Holds one model of one subject; without a ``role`` it pauses until ``resume_ms``. ``ts_ms``: of the
    newest tick. ``scores``: newest, largest, when that was, and how many since the last record."""

    model: Model
    role: ModelRole | None
    ts_ms: int = -1
    ticks: int = 0
    failures: int = 0
    resume_ms: int = 0
    scores: tuple[float, float, int, int] | None = None


class ModelBank(NodeModels):
    """Runs every model of every subject of a node. A model that raises is dropped and begins anew; the
    others, and the banks beside it, go on."""

    def __init__(self, node: str, source: str, config: ModelsConfig) -> None:
        self._node, self._source, self._config = node, source, config
        self._running: dict[Place, _Running] = {}
        self._layout: Layout | None = None
        self._cells: list[tuple[Place, Model, list[int]]] = []
        self._interval_ms = 0
        self._unstored: list[tuple[Place, Exception]] = []
        """Models whose state could not be stored or restored, and why."""

    def add(self, tick: TickRow) -> list[Emission]:
        """Take a tick that is newer than the last."""
        if tick.interval_ms != self._interval_ms:  # horizons are counted in ticks
            self._running, self._interval_ms = {}, tick.interval_ms
        if tick.layout is not self._layout:
            # Which models each subject gets, and which columns they read.
            self._layout, self._cells = tick.layout, []
            columns = {series: column for column, series in enumerate(tick.layout.series)}
            subjects = dict.fromkeys((series.kind, series.member) for series in columns)
            for model in self._config.models:
                for kind, member in subjects:
                    wanted = [Series(kind, member, metric) for metric in model.metrics]
                    if model.kind in (None, kind) and all(series in columns for series in wanted):
                        place = model.name, kind, member
                        self._cells.append((place, model, [columns[series] for series in wanted]))
        outs = [out for place, error in self._unstored for out in self._failed(place, tick.ts_ms, error)]
        self._unstored = []
        for place, model, of_model in self._cells:
            row = tick.values[of_model].tolist()
            if not any(map(isnan, row)):
                outs += self._learn(place, model, row, tick.ts_ms)
        return outs

    def _learn(self, place: Place, model: Model, row: list[float], ts_ms: int) -> list[Emission]:
        running = self._running.get(place)
        try:
            if running is None:
                running = self._running[place] = _Running(model, None)
            if running.role is None:
                if ts_ms < running.resume_ms:
                    return []
                running.role = self._begun(model)
            step = running.role.learn(row)
            running.ts_ms, running.ticks = ts_ms, running.ticks + 1
            if running.ticks == _FORGIVEN:
                running.failures = 0
            if (
                running.ticks % SIZED_EVERY == 0
                and len(msgpack.encode(running.role.snapshot())) > self._config.state_bytes
            ):
                return self._dropped(place, running, ts_ms, "large", f"over {self._config.state_bytes} bytes")
        except Exception as error:  # noqa: BLE001 - a user's model may raise anything: it costs itself alone
            return self._failed(place, ts_ms, error)
        if step.score is not None:
            _, largest, at_ms, count = running.scores or (0.0, step.score, ts_ms, 0)
            if step.score > largest:
                largest, at_ms = step.score, ts_ms
            running.scores = step.score, largest, at_ms, count + 1
        return [] if step.event is None else [self._event(place, model, ts_ms, step.event)]

    def _begun(self, model: Model) -> ModelRole:
        ahead = self._config.horizons_s
        steps = tuple(max(1, round(seconds * 1000 / self._interval_ms)) for seconds in ahead)
        return model.role(model.build, RoleConfig(model.metrics, steps, self._config.lags, model.codec))

    def _failed(self, place: Place, ts_ms: int, error: Exception) -> list[Emission]:
        detail = "".join(char if char.isprintable() else " " for char in f"{type(error).__name__}: {error}")
        return self._dropped(place, self._running[place], ts_ms, "failed", detail)

    def _dropped(self, place: Place, running: _Running, ts_ms: int, kind: str, detail: str) -> list[Emission]:
        """Forget what a model has learnt of a subject, and say why."""
        running.ticks, running.scores, running.role = 0, None, None
        running.resume_ms = ts_ms + min(PAUSE_MS << min(running.failures, 6), LONGEST_PAUSE_MS)
        running.failures += 1
        event = MODEL_LARGE if kind == "large" else MODEL_FAILED
        return [CountedEvent(event.name), self._event(place, running.model, ts_ms, kind, detail)]

    def _event(
        self, place: Place, model: Model, ts_ms: int, kind: str, detail: str | None = None
    ) -> ProducerRecord:
        subject = subject_of(self._node, *place[1:])
        record = ModelEvent(
            subject=subject, source=self._source, model=model.name, metrics=model.metrics, ts_ms=ts_ms,
            kind=kind, detail=detail[:_DETAIL] if detail else None,
        )  # fmt: skip
        return ProducerRecord("model-events", subject.key, encode(record), ts_ms)

    def evaluate(self, ts_ms: int) -> list[Emission]:
        """Return forecasts and scores, as of the last tick at ``ts_ms``; none of what it did not measure."""
        outs: list[Emission] = []
        for place, running in self._running.items():
            model, subject = running.model, subject_of(self._node, *place[1:])
            if running.scores is not None:
                newest, largest, at_ms, count = running.scores
                running.scores = None
                score = ModelScore(
                    subject=subject, source=self._source, model=model.name, metrics=model.metrics,
                    ts_ms=running.ts_ms, score=tidy(newest), max=tidy(largest), at_ms=at_ms, count=count,
                )  # fmt: skip
                outs.append(ProducerRecord("model-scores", subject.key, encode(score), running.ts_ms))
            if running.role is None or running.ts_ms != ts_ms:
                continue
            try:
                values = running.role.forecast()
            except Exception as error:  # noqa: BLE001 - a user's model may raise anything: it costs itself alone
                outs += self._failed(place, ts_ms, error)
                continue
            if values:
                points = zip(map(tidy, self._config.horizons_s), map(tidy, values), strict=True)
                forecast = ModelForecast(
                    subject=subject, source=self._source, model=model.name, metric=model.metrics[0],
                    ts_ms=ts_ms,
                    forecast=tuple(ModelPoint(horizon_s=ahead_s, value=value) for ahead_s, value in points),
                )  # fmt: skip
                outs.append(ProducerRecord("model-forecasts", subject.key, encode(forecast), ts_ms))
        return outs

    def retain(self, members: set[str]) -> None:
        """Forget the subjects that are not among ``members``."""
        self._running = {place: running for place, running in self._running.items() if place[2] in members}

    def snapshot(self) -> Snapshot:
        """Return plain data."""
        rows: list[list[Any]] = []
        for place, running in self._running.items():
            state = None
            try:
                state = None if running.role is None else running.role.snapshot()
            except Exception as error:  # noqa: BLE001 - the model is dropped: what is built in keeps its state
                running.role = None
                self._unstored.append((place, error))
            rows.append([
                list(place), self._identity(running.model), running.ts_ms, running.ticks,
                running.failures, running.resume_ms,
                None if running.scores is None else list(running.scores), state,
            ])  # fmt: skip
        return {"interval_ms": self._interval_ms, "running": rows}

    def _identity(self, model: Model) -> list[Any]:
        """Return what a state has to be of: with other figures it is another model's."""
        return [model.text, list(self._config.horizons_s), self._config.lags]

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot. A model that is another one now begins anew, and so does one whose state
        cannot be read."""
        known = {model.name: model for model in self._config.models}
        self._interval_ms = plain["interval_ms"]
        for (name, kind, member), identity, *counts, scores, state in plain["running"]:
            model = known.get(name)
            if model is None or self._identity(model) != identity:
                continue
            place = name, kind, member
            running = _Running(model, None, *counts)
            running.scores = None if scores is None else tuple(scores)
            self._running[place] = running
            if state is None:
                continue
            try:
                role = self._begun(model)
                role.restore(state)
                running.role = role
            except Exception as error:  # noqa: BLE001 - whatever stands there costs this model alone
                self._unstored.append((place, error))
