"""Goal: the state of River's models comes back to the last bit, and nothing else is ever made of a state."""

import functools
import random
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from streams.operators.models.codec import StateCodec, UnsupportedStateError
from streams.operators.models.roles import Noticing, RoleConfig, role_of
from streams.state.codec import from_bytes, to_bytes
from tests.support.targets import slow_after

MODULES = "anomaly drift ensemble forest linear_model neighbors preprocessing time_series tree"
anomaly, drift, ensemble, forest, linear_model, neighbors, preprocessing, time_series, tree = (
    import_module(f"river.{name}") for name in MODULES.split()
)
CODEC = StateCodec()
MODELS: dict[str, Callable[[], Any]] = {
    "SNARIMAX": lambda: time_series.SNARIMAX(p=6, d=1, q=6, m=12, sp=1),
    "HoltWinters": lambda: time_series.HoltWinters(alpha=0.3, beta=0.1, gamma=0.5, seasonality=12),
    "HalfSpaceTrees": lambda: (
        preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=1, n_trees=3, height=4)
    ),
    "QuantileFilter": lambda: anomaly.QuantileFilter(anomaly.OneClassSVM(nu=0.2), q=0.9),
    "GaussianScorer": lambda: anomaly.GaussianScorer(),
    "LocalOutlierFactor": lambda: anomaly.LocalOutlierFactor(),
    "PredictiveAnomalyDetection": lambda: anomaly.PredictiveAnomalyDetection(
        time_series.HoltWinters(0.3, 0.1)
    ),
    "ADWIN": lambda: drift.ADWIN(),
    "KSWIN": lambda: drift.KSWIN(seed=1),
    "PageHinkley": lambda: drift.PageHinkley(),
    "linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
    "bayesian": lambda: linear_model.BayesianLinearRegression(),
    "ARF": lambda: forest.ARFRegressor(seed=1, n_models=2),
    "AMF": lambda: forest.AMFRegressor(seed=1, n_estimators=2),
    "Hoeffding": lambda: tree.HoeffdingTreeRegressor(),
    "KNN": lambda: neighbors.KNNRegressor(),
    "bagging": lambda: ensemble.BaggingRegressor(linear_model.LinearRegression(), n_models=2, seed=1),
}


@pytest.mark.parametrize("name", slow_after(6, MODELS))
def test_a_model_goes_on_as_if_it_had_not_been_stored(name: str) -> None:
    build = MODELS[name]
    chance = random.Random(3)  # noqa: S311 - made-up load
    load = [50 + 40 * (second % 12 < 7) + chance.gauss(0, 3) for second in range(240)]
    config = RoleConfig(("gpu_util_pct",), (1, 4), 5, CODEC)
    role = role_of(build())
    straight = role(build, config)
    for value in load[:120]:
        straight.learn([value])
    stored = to_bytes(straight.snapshot())
    restored = role(build, config)
    restored.restore(from_bytes(stored))
    assert to_bytes(restored.snapshot()) == stored
    said = []
    for value in load[120:]:
        said.append((straight.learn([value]), straight.forecast()))
        assert repr((restored.learn([value]), restored.forecast())) == repr(said[-1])
    assert to_bytes(restored.snapshot()) == to_bytes(straight.snapshot())
    assert role is Noticing or any(step.score is not None or forecast for step, forecast in said)


PLAIN = {
    "big": 1 << 80,
    "nested": {"a": [1, (2.5, None, {"b"})], 3: frozenset({1, 2}), (1, 2): b"x"},
    "bounded": deque([1, 2, 3], maxlen=3),
    "partial": functools.partial(deque, (1, 2), maxlen=2),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "scalar": np.float32(1.5),
    "chance": random.Random(5),  # noqa: S311 - it is stored
}


def test_plain_values() -> None:
    restored = CODEC.decode(from_bytes(to_bytes(CODEC.encode(PLAIN))))
    for name in ("big", "nested", "bounded"):
        assert restored[name] == PLAIN[name]
    assert restored["bounded"].maxlen == 3
    assert restored["partial"]() == deque([1, 2])
    assert restored["columns"].flags.f_contiguous
    assert restored["columns"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert type(restored["scalar"]) is np.float32
    assert restored["chance"].getstate() == PLAIN["chance"].getstate()  # type: ignore[attr-defined]


def test_what_is_shared_stays_shared_and_circles_are_closed() -> None:
    one: list[Any] = [1]
    one.append(one)
    restored = CODEC.decode(CODEC.encode({"a": one, "b": one}))
    assert restored["a"] is restored["b"] is restored["a"][1]


def test_a_chain_that_is_longer_than_the_stack() -> None:
    chain: list[Any] = []
    for _ in range(50_000):
        chain = [chain]
    depth, restored = 0, CODEC.decode(from_bytes(to_bytes(CODEC.encode(chain))))
    while restored:
        (restored,) = restored
        depth += 1
    assert depth == 50_000


class Own:
    """A class of a user."""

    def __init__(self) -> None:
        self.value = 1


def test_what_is_no_part_of_river_is_refused_by_name_or_trusted_by_package() -> None:
    with pytest.raises(UnsupportedStateError, match="Own, which is no part of River"):
        CODEC.encode({"a": Own()})
    trusting = StateCodec([Own.__module__.partition(".")[0]])
    assert trusting.decode(trusting.encode(Own())).value == 1


@pytest.mark.parametrize("held", [lambda: None, open, random.random, np.random.default_rng(1), iter([])])
def test_what_cannot_be_stored(held: Any) -> None:
    with pytest.raises(UnsupportedStateError, match="holds "):
        CODEC.encode([held])


NAMES = [
    "os:system", "builtins:eval", "builtins:open", "builtins:getattr", "subprocess:Popen", "posix:system",
    "river.datasets:Bikes", "river.stream.iter_csv:iter_csv", "river.datasets.base:RemoteDataset",
    "river.base.base:inspect.os.system", "river.compose.pipeline:typing", "river.utils.math:__builtins__",
    "functools:partial", "collections:abc", "random:_os", "numpy:load", "builtins:__import__", "river:api",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["object", "like", "name"])
def test_a_state_from_elsewhere_makes_nothing_else(name: str, how: str) -> None:
    rows: dict[str, list[Any]] = {
        "object": [["object", "call", name, [1], None, None, None], ["tuple", "echo"]],
        "like": [["like", [1]], ["shape", name]],
        "name": [["partial", [1], [2], [3]], ["name", name], ["tuple"], ["dict"]],
    }
    with pytest.raises(UnsupportedStateError):
        CODEC.decode(rows[how])


DAMAGED = {
    "empty": [],
    "no row": [["list", [7]]],
    "no kind": [["nothing"]],
    "no table": 5,
    "objects as bytes": [["array", "|O8", [1], "C", b"12345678"]],
    "a method of another": [["method", [1], "clear"], ["list"]],
    "an endless tuple": [["tuple", [0]]],
    "a function as a class": [
        ["object", "call", "river.utils.math:minkowski_distance", None, None, None, None]
    ],
}


@pytest.mark.parametrize("rows", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_state_is_one_kind_of_error(rows: Any) -> None:
    with pytest.raises(UnsupportedStateError):
        CODEC.decode(rows)
