"""Goal: scores are what can be worked out by hand, and a wrong record is seen."""

from pathlib import Path

import msgspec
import orjson
import pytest

from bench.cluster_trace import START_MS, Shape, records
from dutycycle.cli.main import main
from dutycycle.contract.codec import encode
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.derived import (
    Cycle,
    CycleMetric,
    Forecast,
    Trend,
    TrendMetric,
    WindowAggregate,
    WindowMetric,
    gpu_subject,
)
from dutycycle.contract.records.models import ModelForecast, ModelPoint
from dutycycle.experiments.scores.cycles import CycleScorer, CycleTruth, f1, read_truth
from dutycycle.experiments.scores.forecasts import ForecastScorer
from dutycycle.experiments.scores.windows import WindowScorer
from dutycycle.traces.ticks import SampleReader
from tests.support.data.traces import consumed

GPU = gpu_subject("gpu-000", "GPU-0000-0")
METRIC = "gpu_util_pct"
WINDOW_MS = START_MS - START_MS % 60_000


def cycle(second: int, period_s: float | None) -> ProducerRecord:
    said = CycleMetric(cyclic=period_s is not None, period_s=period_s)
    record = Cycle(subject=GPU, source="nvml", ts_ms=1000 * second, metrics={METRIC: said})
    return ProducerRecord("cycles", GPU.key, encode(record), record.ts_ms)


def truth(from_s: int, to_s: int, period_s: float | None) -> CycleTruth:
    return CycleTruth(GPU.key, METRIC, 1000 * from_s, 1000 * to_s, period_s)


CYCLES = {
    "right": ([(50, 20.0)], [(0, 200, 20.4)], (1.0, 1, 0, 50 / 20.4)),
    "wrong": ([(50, 20.0)], [(0, 200, 40.0)], (0.0, 0, 1, None)),
    "missed": ([], [(0, 200, 40.0)], (0.0, 0, 0, None)),
    "said too late": ([(300, 20.0)], [(0, 200, 20.0)], (0.0, 0, 0, None)),
    "lost again": ([(50, 20.0), (100, None)], [(0, 200, 20.0)], (0.0, 0, 0, 2.5)),
    "a second one": ([(50, 20.0), (260, 30.0)], [(0, 200, 20.0), (200, 400, 30.0)], (1.0, 2, 0, 2.25)),
    "found again after a break": (
        [(50, 20.0), (250, None), (430, 20.0)],
        [(0, 200, 20.0), (200, 400, None), (400, 600, 20.0)],
        (1.0, 3, 0, 2.0),
    ),
    "none where there is none": ([], [(0, 200, None)], (None, 1, 0, None)),
    "one where there is none": ([(50, 20.0)], [(0, 200, None), (0, 200, 20.0)], (2 / 3, 1, 1, 2.5)),
}


@pytest.mark.parametrize(("said", "true", "expected"), CYCLES.values(), ids=CYCLES)
def test_cycles(
    said: list[tuple[int, float | None]],
    true: list[tuple[int, int, float | None]],
    expected: tuple[float | None, int, int, float | None],
) -> None:
    scorer = CycleScorer([truth(*one) for one in true])
    (measured,) = SampleReader().read(SAMPLES[0])
    scorer.tick("gpu-000", measured)
    for second, period_s in said:
        scorer.output(cycle(second, period_s))
    found = scorer.result()
    assert (found["f1"], found["right"], found["false_alarms"]) == expected[:3]
    assert found["delay_periods"] == (None if expected[3] is None else pytest.approx(expected[3]))


def test_f1_of_nothing() -> None:
    assert f1(0, 0, 0) is None


WRONG = {
    "no JSON": ('{"subject":', ":1: "),
    "a word of its own": ('{"subject":"a","metric":"m","from_ms":0,"to_ms":1,"period":3}', "unknown field"),
    "nothing missing": ('{"subject":"a","metric":"m","from_ms":0}', "to_ms"),
    "the wrong way round": ('{"subject":"a","metric":"m","from_ms":2,"to_ms":1}', "has to be later"),
    "no period": ('{"subject":"a","metric":"m","from_ms":0,"to_ms":1,"period_s":0}', "above 0"),
    "empty": ("", "no line"),
}


@pytest.mark.parametrize(("text", "why"), WRONG.values(), ids=WRONG)
def test_a_wrong_truth_is_named(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    path.write_text(text)
    with pytest.raises(DutycycleError) as refused:
        read_truth(str(path))
    assert why in str(refused.value)


SAMPLES = [
    record
    for record in consumed(records(Shape(nodes=1, gpus=1, seconds=60)))
    if record.topic == "nvml-samples"
]


def with_bursts(sample: ConsumerRecord) -> ConsumerRecord:
    """The same with samples of the driver, of which the first is 0: their mean is not what is read."""
    plain = orjson.loads(sample.value or b"")
    (gpu,) = plain["gpus"]
    gpu["util_burst"] = [[-500, 0], [0, gpu[METRIC]]]
    return msgspec.structs.replace(sample, value=orjson.dumps(plain))


@pytest.mark.parametrize("samples", [SAMPLES, [*map(with_bursts, SAMPLES)]], ids=["readings", "bursts"])
def test_forecasts_are_held_against_what_is_read_and_models_against_values(
    samples: list[ConsumerRecord],
) -> None:
    reader, scorer = SampleReader(), ForecastScorer()
    truths: dict[str, list[float]] = {"trends": [], "own": []}
    for second, sample in enumerate(samples):
        (tick,) = reader.read(sample)
        truths["own"].append(tick.values[tick.layout.series.index(("gpu", "GPU-0000-0", METRIC))])
        truths["trends"].append(orjson.loads(sample.value or b"")["gpus"][0][METRIC])
        scorer.tick("gpu-000", tick)
        if second in (10, 20):
            ahead = Forecast(horizon_s=5.0, value=50.0, p05=0.0 if second == 10 else 1000.0, p95=2000.0)
            metric = TrendMetric(level=1.0, slope_per_s=0.0, forecast=(ahead,))
            trend = Trend(subject=GPU, source="nvml", ts_ms=tick.ts_ms, metrics={METRIC: metric})
            scorer.output(ProducerRecord("trends", "k", encode(trend), tick.ts_ms))
            own = ModelForecast(
                model="own", subject=GPU, source="nvml", metric=METRIC, ts_ms=tick.ts_ms,
                forecast=(ModelPoint(horizon_s=5.0, value=50.0),),
            )  # fmt: skip
            scorer.output(ProducerRecord("model-forecasts", "k", encode(own), tick.ts_ms))
    rows = {row.pop("forecaster"): row for row in scorer.result()}
    assert rows.keys() == truths.keys()
    for who, values in truths.items():
        error = abs(values[15] - 50) + abs(values[25] - 50)
        persistence = abs(values[15] - values[10]) + abs(values[25] - values[20])
        assert rows[who] == {
            "metric": METRIC, "horizon_s": 5.0, "series": 1, "forecasts": 2,
            "error": pytest.approx(error / persistence), "coverage": 0.5 if who == "trends" else None,
        }  # fmt: skip


def test_where_nothing_is_read_forecasts_are_held_against_the_mean_of_the_samples() -> None:
    """One reading that fails, beside samples of the driver, makes no score unknown, and no miss."""
    reader, scorer = SampleReader(), ForecastScorer()
    for second, sample in enumerate(map(with_bursts, SAMPLES)):
        plain = orjson.loads(sample.value or b"")
        if second == 10:
            plain["gpus"][0][METRIC] = None
        (tick,) = reader.read(msgspec.structs.replace(sample, value=orjson.dumps(plain)))
        scorer.tick("gpu-000", tick)
        if second in (5, 10):  # of the tenth is one the truth, and the other begins there
            ahead = Forecast(horizon_s=5.0, value=50.0, p05=-1000.0, p95=2000.0)
            metric = TrendMetric(level=1.0, slope_per_s=0.0, forecast=(ahead,))
            trend = Trend(subject=GPU, source="nvml", ts_ms=tick.ts_ms, metrics={METRIC: metric})
            scorer.output(ProducerRecord("trends", "k", encode(trend), tick.ts_ms))
    (row,) = scorer.result()
    assert (row["forecasts"], row["coverage"]) == (2, 1.0)
    assert row["error"] is not None


def windows(change: str | None) -> dict[str, int]:
    """What is found of a minute of one GPU, of which one metric of one window is given; None: none is."""
    reader, scorer = SampleReader(), WindowScorer((60.0,), 0.0)
    values = []
    for sample in SAMPLES:
        (tick,) = reader.read(sample)
        if tick.ts_ms < WINDOW_MS + 60_000:
            values.append(float(tick.values[tick.layout.series.index(("gpu", "GPU-0000-0", METRIC))]))
        scorer.tick("gpu-000", "nvml", tick)
    start_ms = WINDOW_MS + (600_000 if change == "another window" else 0)
    said = WindowMetric(
        count=len(values) + (change == "count"), mean=sum(values) / len(values) + (change == "mean"),
        min=min(values), max=max(values),
    )  # fmt: skip
    window = WindowAggregate(
        subject=GPU, source="nvml", size_ms=60_000, start_ms=start_ms, end_ms=start_ms + 60_000,
        metrics={METRIC: said},
    )  # fmt: skip
    if change is not None:
        scorer.output(ProducerRecord("window-aggregates", GPU.key, encode(window), 0))
    found = scorer.result()
    assert found["equal"] == (found["unequal"] + found["missing"] + found["unexpected"] == 0)
    return {name: found[name] for name in ("unequal", "missing", "unexpected")}


@pytest.mark.parametrize(
    ("change", "unequal", "less_missing", "unexpected"),
    [("", 0, 1, 0), ("mean", 1, 1, 0), ("count", 1, 1, 0), ("another window", 1, 0, 1)],
)
def test_windows(change: str, unequal: int, less_missing: int, unexpected: int) -> None:
    missing = windows(None)["missing"]
    assert missing == 4  # the GPU and its pod, in two windows
    expected = {"unequal": unequal, "missing": missing - less_missing, "unexpected": unexpected}
    assert windows(change) == expected


@pytest.mark.slow  # three seconds of CPU: a demo of two minutes
def test_the_windows_of_a_replay_equal_its_samples_where_maxima_are_the_driver_s(tmp_path: Path) -> None:
    trace, truth = str(tmp_path / "demo.jsonl"), tmp_path / "truth.jsonl"
    assert main(["demo", "--out", trace, "--duration", "2m", "--start", "2026-11-20T10:00:00Z"]) == 0
    line = {
        "subject": "node/demo",
        "metric": "mem_used_bytes",
        "from_ms": 1795168840000,
        "to_ms": 1795168900000,
    }
    truth.write_bytes(orjson.dumps(line))
    out = tmp_path / "scored"
    assert main(["replay", trace, "--score", str(truth), "--out", str(out)]) == 0
    (run,) = out.glob("runs/*/run.json")
    found = orjson.loads(run.read_bytes())["scores"]["windows"]
    assert found["compared"] > 1000
    assert (found["unequal"], found["missing"], found["unexpected"]) == (0, 0, 0)
