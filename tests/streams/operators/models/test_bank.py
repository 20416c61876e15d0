"""Goal: models run beside the banks, their state is exact and bounded, and an error costs its model alone."""

from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from river import base

from dutycycle.contract.log import ProducerRecord
from streams.operators.base import Emission
from streams.operators.columns.nvml import NvmlReader
from streams.operators.models.bank import SIZED_EVERY, Model, ModelBank, ModelsConfig
from streams.operators.models.codec import StateCodec
from streams.operators.models.roles import role_of
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import gpu, nvml, record
from tests.support.streams.emitted import counts_of, plain_of

MODULES = "anomaly drift linear_model preprocessing time_series"
anomaly, drift, linear_model, preprocessing, time_series = (
    import_module(f"river.{name}") for name in MODULES.split()
)
PACKAGE = __name__.partition(".")[0]
HORIZONS_S = (5.0, 20.0)


def model(
    name: str,
    build: Callable[[], Any],
    metrics: tuple[str, ...] = ("gpu_util_pct",),
    text: str = "",
    kind: str | None = None,
) -> Model:
    return Model(
        name=name, text=text, kind=kind, metrics=metrics, build=build, role=role_of(build()),
        codec=StateCodec([PACKAGE]),
    )  # fmt: skip


def operator(*models: Model, **more: Any) -> NodeOperator:
    config = ModelsConfig(models=models, horizons_s=HORIZONS_S, **more)
    return NodeOperator(
        NodeConfig(
            topic="nvml-samples", source="nvml", models=lambda node, source: ModelBank(node, source, config)
        ),
        "a",
        NvmlReader("a"),
    )


def sample(second: int, **fields: Any) -> dict[str, Any]:
    util = 95 if second % 10 < 6 else 5
    return nvml(
        second,
        [
            gpu(0, gpu_util_pct=util, power_w=100 + 5 * util, **fields),
            gpu(1, gpu_util_pct=50 if second < 300 else 99),
        ],
    )


def run(node: NodeOperator, seconds: range) -> list[Emission]:
    return [
        one for second in seconds for one in node.update(record("nvml-samples", "a", sample(second), second))
    ]


HOLT = model("hw", lambda: time_series.HoltWinters(alpha=0.1, beta=0.01, gamma=0.3, seasonality=10))
LINEAR = model("lin", lambda: preprocessing.StandardScaler() | linear_model.LinearRegression())
TREES = model(
    "hst", lambda: preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=1, n_trees=2, height=3),
    ("gpu_util_pct", "power_w"),
)  # fmt: skip
FILTER = model("filter", lambda: anomaly.QuantileFilter(anomaly.StandardAbsoluteDeviation(), q=0.9))
ADWIN = model("adwin", lambda: drift.ADWIN(delta=0.3, grace_period=5))
ALL = (HOLT, LINEAR, TREES, FILTER, ADWIN)


def test_a_forecaster_that_knows_the_cycle_is_right() -> None:
    said = plain_of(run(operator(HOLT), range(600)), "model-forecasts")
    gpu_0 = [one for one in said if one["subject"]["gpu"] == "GPU-0"]
    assert {one["model"] for one in gpu_0} == {"hw"}
    last = gpu_0[-1]
    second = last["ts_ms"] // 1000
    assert [point["horizon_s"] for point in last["forecast"]] == [5, 20]
    for point in last["forecast"]:
        then = second + point["horizon_s"]
        assert point["value"] == pytest.approx(95 if then % 10 < 6 else 5, abs=10)
    assert {later["ts_ms"] - one["ts_ms"] for one, later in pairwise(gpu_0)} == {10_000}


def test_a_regressor_learns_what_came_after_so_many_ticks() -> None:
    class Last(base.Regressor):
        """Remembers what it learnt last."""

        pairs: list[tuple[float, float]] = []  # noqa: RUF012 - one list for all

        def learn_one(self, x: dict[Any, Any], y: Any) -> None:
            self.pairs.append((x["lag_0"], y))

        def predict_one(self, x: dict[Any, Any]) -> Any:
            return x["lag_1"]

    said = plain_of(run(operator(model("last", Last), lags=2), range(60)), "model-forecasts")
    one = next(one for one in said if one["subject"]["gpu"] == "GPU-0")
    before = one["ts_ms"] // 1000 - 1
    assert [point["value"] for point in one["forecast"]] == [95 if before % 10 < 6 else 5] * 2
    assert (50, 50) in Last.pairs
    assert {(95, 5), (5, 95)} < set(Last.pairs)  # five seconds later
    assert {(95, 95), (5, 5)} < set(Last.pairs)  # twenty seconds later


def test_scores_are_collected_until_the_next_evaluation() -> None:
    said = plain_of(run(operator(TREES), range(120)), "model-scores")
    assert {one["subject"]["gpu"] for one in said} == {"GPU-0"}, "GPU-1 has no power"
    assert said[-1]["metrics"] == ["gpu_util_pct", "power_w"]
    assert {one["count"] for one in said[1:]} == {10}
    assert all(one["max"] >= one["score"] and one["at_ms"] <= one["ts_ms"] for one in said)


def test_a_filter_notices_where_an_anomaly_begins_and_a_detector_a_drift() -> None:
    said = plain_of(run(operator(FILTER, ADWIN), range(360)), "model-events")
    began = [one for one in said if one["subject"]["gpu"] == "GPU-1"]
    assert {(one["model"], one["kind"]) for one in began} == {("filter", "anomaly"), ("adwin", "drift")}
    assert min(one["ts_ms"] for one in began) == 300_000


@pytest.mark.slow
@pytest.mark.parametrize("cut", [1, 77, 150, 305])
def test_restart_equals_no_restart(cut: int) -> None:
    straight, first = operator(*ALL), operator(*ALL)
    expected = [one for one in run(straight, range(340)) if isinstance(one, ProducerRecord)]
    said = run(first, range(cut))
    second = operator(*ALL)
    second.restore(from_bytes(to_bytes(first.snapshot())))
    said += run(second, range(cut, 340))
    assert [one for one in said if isinstance(one, ProducerRecord)] == expected
    assert to_bytes(second.snapshot()) == to_bytes(straight.snapshot())
    assert {one.topic for one in expected} >= {"model-forecasts", "model-scores", "model-events"}


def test_what_is_built_in_says_the_same_beside_models() -> None:
    def built_in(node: NodeOperator) -> list[Emission]:
        said = run(node, range(200)) + node.close()
        return [one for one in said if isinstance(one, ProducerRecord) and not one.topic.startswith("model-")]

    assert built_in(operator(*ALL)) == built_in(operator())


def test_another_model_of_the_same_name_begins_anew_and_the_others_go_on() -> None:
    first = operator(HOLT, TREES)
    run(first, range(100))
    other = model("hw", lambda: time_series.HoltWinters(alpha=0.5), text="another")
    second = operator(other, TREES)
    second.restore(from_bytes(to_bytes(first.snapshot())))
    kept = {tuple(place[0]): place[3] for place in second.snapshot()["models"]["running"]}
    assert {name for name, *_ in kept} == {"hst"}
    assert set(kept.values()) == {100}
    assert not counts_of(run(second, range(100, 130)))


class Raises(base.DriftDetector):
    """Raises at every twentieth value."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def update(self, x: float) -> None:
        self.seen += 1
        if self.seen == 20:
            raise RuntimeError("no more\nof this")


class Grows(base.DriftDetector):
    """Keeps everything."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[float] = []

    def update(self, x: float) -> None:
        self.all.append(x + 0.5)


class Unstorable(base.DriftDetector):
    """Its state cannot be stored."""

    def __init__(self) -> None:
        super().__init__()
        self.held = lambda: None

    def update(self, x: float) -> None:
        pass


def test_a_model_that_raises_begins_anew_after_ever_longer_pauses() -> None:
    node = operator(model("raises", Raises), HOLT)
    said = run(node, range(200))
    events = [one for one in plain_of(said, "model-events") if one["subject"]["gpu"] == "GPU-0"]
    assert [one["kind"] for one in events] == ["failed", "failed"]
    assert [one["ts_ms"] // 1000 for one in events] == [19, 19 + 60 + 19]
    assert events[0]["detail"] == "RuntimeError: no more of this"
    assert counts_of(said) == {"model_failed": 4}
    assert plain_of(said, "model-forecasts") == plain_of(run(operator(HOLT), range(200)), "model-forecasts")
    again = operator(model("raises", Raises), HOLT)
    again.restore(from_bytes(to_bytes(node.snapshot())))
    (event, _) = plain_of(run(again, range(200, 300)), "model-events")
    assert event["ts_ms"] // 1000 == 98 + 120 + 19, "a restart does not wake it"


def test_a_state_over_the_limit_is_dropped() -> None:
    said = run(operator(model("grows", Grows), state_bytes=2_000), range(SIZED_EVERY + 10))
    assert counts_of(said) == {"model_large": 2}
    (event, _) = plain_of(said, "model-events")
    assert (event["kind"], event["detail"]) == ("large", "over 2000 bytes")
    assert event["ts_ms"] == 1000 * (SIZED_EVERY - 1)


def test_a_state_that_cannot_be_stored_costs_the_model_and_not_the_node() -> None:
    node = operator(model("unstorable", Unstorable), HOLT)
    run(node, range(50))
    node.snapshot()
    said = run(node, range(50, 60))
    assert counts_of(said) == {"model_failed": 2}
    assert "<lambda>" in plain_of(said, "model-events")[0]["detail"]
    restored = operator(HOLT)
    restored.restore(from_bytes(to_bytes(node.snapshot())))


def test_a_stored_state_that_cannot_be_read_costs_the_model_and_not_the_node() -> None:
    node = operator(HOLT)
    run(node, range(50))
    stored = node.snapshot()
    stored["models"]["running"][0][-1]["models"][0][0] = ["name", "os:system"]
    restored = operator(HOLT)
    restored.restore(stored)
    said = run(restored, range(50, 60))
    assert counts_of(said) == {"model_failed": 1}
    assert "os:system, which is no part of River" in plain_of(said, "model-events")[0]["detail"]


def test_the_kind_of_a_subject_chooses() -> None:
    process = {"pid": 7, "pod_uid": "p", "gpu_util_pct": 90, "mem_used_bytes": 1000}
    found = {}
    for kind in (None, "gpu", "pod"):
        node = operator(model("hw", HOLT.build, kind=kind))
        for second in range(100):
            node.update(
                record(
                    "nvml-samples", "a", nvml(second, [gpu(0, gpu_util_pct=50, processes=[process])]), second
                )
            )
        found[kind] = [place[0][1] for place in node.snapshot()["models"]["running"]]
    assert found == {None: ["gpu", "pod"], "gpu": ["gpu"], "pod": ["pod"]}
