"""Goal: our banks are estimators that River's own checks accept, and say what the banks say.

========== ==================================================================
 checks     each of River's, for each of ours
 restored   pickled or stored for a changelog: the same answers to the last bit
 the same   as the banks of a stream, value for value
 missing    a value that is missing moves nothing but the time
 models     they run as ``--model``, beside what is built in
========== ==================================================================
"""

import pickle
from collections.abc import Callable, Iterator
from math import nan

import numpy as np
import pytest
from msgspec import msgpack
from river import checks, time_series

from dutycycle.contract.settings.load import load
from streams.models import models_of
from streams.operators.columns.arrays import Ints
from streams.operators.cycles.bank import CycleBank
from streams.operators.estimators.cycle import CycleForecaster
from streams.operators.estimators.exhaustion import ExhaustionForecaster
from streams.operators.estimators.trend import HORIZONS, TrendForecaster
from streams.operators.models.codec import StateCodec
from streams.operators.models.roles import Forecasting
from streams.operators.trends.bank import TrendBank
from streams.operators.trends.season import season_of

OURS: tuple[type[CycleForecaster], ...] = (CycleForecaster, TrendForecaster, ExhaustionForecaster)
COLUMN: Ints = np.zeros(1, np.int64)


def rivers_checks() -> Iterator[tuple[type[CycleForecaster], Callable[[time_series.base.Forecaster], None]]]:
    for kind in OURS:
        for check in checks.yield_checks(kind()):
            yield kind, check


@pytest.mark.parametrize(
    ("kind", "check"), [*rivers_checks()], ids=lambda one: getattr(one, "__name__", str(one))
)
def test_river_s_own_checks(
    kind: type[CycleForecaster], check: Callable[[time_series.base.Forecaster], None]
) -> None:
    check(kind().clone())


def series(seconds: int) -> list[float]:
    """A cycle of 17 and a bit on a climb, with noise."""
    noise = np.random.default_rng(1).normal(0, 1.5, seconds)
    return [20 + t / 40 + 25 * (t % 17.4 < 9) + noise[t] for t in range(seconds)]


def learnt(model: CycleForecaster, values: list[float]) -> CycleForecaster:
    for value in values:
        model.learn_one(value)
    return model


def said(model: CycleForecaster) -> str:
    found: list[object] = [model.period, model.confidence, model.forecast(40)]
    if isinstance(model, TrendForecaster):
        found.append(model.forecast_interval(40))
    if isinstance(model, ExhaustionForecaster):
        found.append(model.exhausts_in)
    return repr(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OURS)
def test_a_restored_one_goes_on_to_the_last_bit(kind: type[CycleForecaster]) -> None:
    values, codec = series(1200), StateCodec(("streams",))
    straight = learnt(kind(), values[:1001])
    pickled = pickle.loads(pickle.dumps(straight))  # noqa: S301 - it is ours
    stored = codec.decode(msgpack.decode(msgpack.encode(codec.encode(straight))))
    for value in values[1001:]:
        for one in (straight, pickled, stored):
            one.learn_one(value)
        assert said(pickled) == said(straight) == said(stored)
    assert straight.period == pytest.approx(17.4, rel=0.01)


def test_forecasts_and_intervals_are_those_of_the_banks() -> None:
    cycles, trends, model = CycleBank(1), TrendBank(1, HORIZONS), TrendForecaster()
    for second, value in enumerate(series(1200), start=1):
        evaluates = model._evaluated_at == second
        model.learn_one(value)
        values = np.array([value])
        cycles.update(1000 * second, values)
        trends.update(1000 * second, values)
        if evaluates:
            cycles.changes(1000 * second)
            bank = trends.forecast(season_of(cycles.locked(), COLUMN))
            if second > 1000:
                break
    path, intervals = model.forecast(300), model.forecast_interval(300)
    for row, horizon in enumerate(HORIZONS):
        interval = intervals[int(horizon) - 1]
        assert interval is not None
        assert path[int(horizon) - 1] == bank.value[row, 0]
        assert (interval.lower, interval.upper) == (bank.p05[row, 0], bank.p95[row, 0])


def test_nine_of_ten_values_are_within_and_errors_smaller_than_of_persistence() -> None:
    model, values = TrendForecaster(), series(3000)
    inside, errors, naive = [], [], []
    for at, value in enumerate(values[:-30]):
        model.learn_one(value)
        if at > 600 and at % 10 == 0:
            interval, truth = model.forecast_interval(30)[-1], values[at + 30]
            assert interval is not None
            inside.append(truth in interval)
            errors.append(abs(truth - model.forecast(30)[-1]))
            naive.append(abs(truth - value))
    assert 0.85 < np.mean(inside) < 0.96
    assert np.mean(errors) < 0.5 * np.mean(naive)


def test_asking_changes_nothing() -> None:
    asked, other = ExhaustionForecaster(capacity=120.0), ExhaustionForecaster(capacity=120.0)
    for at, value in enumerate(series(1400)):
        asked.learn_one(value)
        other.learn_one(value)
        if at % 7 == 0:
            said(asked)
    assert said(asked) == said(other)
    assert pickle.dumps(asked) == pickle.dumps(other)


def test_a_leak_is_announced_and_its_forecast_ends_at_the_capacity() -> None:
    model = ExhaustionForecaster(capacity=64.0)
    learnt(model, [20 + second / 40 for second in range(1500)])
    assert model.exhausts_in == pytest.approx((64 - 20 - 1499 / 40) * 40, rel=0.05)
    path = model.forecast(400)
    assert path == sorted(path)
    assert path[-1] == 64.0


@pytest.mark.parametrize("kind", OURS)
def test_what_is_missing_moves_nothing_but_the_time(kind: type[CycleForecaster]) -> None:
    model = learnt(kind(), [nan if t % 29 == 3 else 10.0 + 50 * (t % 20 < 9) for t in range(400)])
    assert model.period == pytest.approx(20, rel=0.01)
    assert model.forecast(12)[2:7] == pytest.approx([60] * 5, abs=1)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        CycleForecaster(window=50)
    with pytest.raises(ValueError, match="capacity has to be above 0"):
        ExhaustionForecaster(capacity=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["cycle:CycleForecaster", "trend:TrendForecaster", "exhaustion:ExhaustionForecaster"]
)
def test_they_run_as_models_of_a_replay(name: str) -> None:
    """The probe feeds one that is stored and restored on the way, and compares each answer."""
    text = f"ours=gpu_util_pct: streams.operators.estimators.{name}"
    (model,) = models_of(load({}, {"models": text})).models
    assert model.role is Forecasting
