"""A replay in process and the same trace through Kafka and Faust: the same derived records."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson
import pytest

from bench.cluster_trace import Shape, records
from dutycycle.contract.settings.load import load
from dutycycle.contract.trace import TraceRecord
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.data.traces import read_trace, write_trace
from tests.support.faults.oracle import DERIVED, Results, difference, replayed, results
from tests.support.kafka import all_topics
from tests.support.processes.commands import Derived, dutycycle, environ, read_now, running
from tests.support.waiting import wait_until

SHAPE = Shape(nodes=4, gpus=2, seconds=130)


@pytest.mark.quick  # the streams as a process; on the real Kafka tests/faults compares with a replay
def test_on_the_embedded_broker(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "small.jsonl.zst", records(SHAPE))
    expected = replayed(trace, tmp_path)

    def got() -> Results:
        return results(read_now(reading, DERIVED))

    with EmbeddedBroker(all_topics(4, "test.")) as broker:
        env = environ(broker=broker.url, topic_prefix="test.", snapshot_interval="1s", partitions="4")
        reading = load({}, {"broker": broker.url, "topic_prefix": "test."})
        with running("stream", env=env, log=tmp_path / "stream.log"):
            dutycycle("replay", trace, "--broker", broker.url, env=env)
            wait_until(lambda: got() == expected, lambda: difference(expected, got()))
        assert got() == expected, "and ending the worker adds nothing"
    assert {topic for topic, _, _ in expected} == set(DERIVED)


MODELS = (
    "hw=gpu/gpu_util_pct: time_series.HoltWinters(alpha=0.1, beta=0.01);"
    "hst=gpu/gpu_util_pct,power_w: preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(n_trees=2);"
    "adwin=gpu_util_pct: drift.ADWIN(delta=0.5, grace_period=5)"
)


def test_models_say_the_same_through_kafka_and_after_a_restart(tmp_path: Path) -> None:
    lines = list(records(Shape(nodes=1, gpus=2, seconds=120)))
    traces = [write_trace(tmp_path / f"{name}.jsonl", part) for name, part in _halves(lines)]
    out = tmp_path / "replayed.jsonl"
    dutycycle(
        "replay", *traces, "--keep-open", "--out", out, env=environ(topic_prefix="test.", models=MODELS)
    )
    expected: dict[tuple[str, str], list[bytes]] = defaultdict(list)
    for one in read_trace(str(out)):
        if (name := one.topic.removeprefix("test.")).startswith("model-"):
            expected[name, one.key or ""].append(one.payload or b"")
    assert {name for name, _ in expected} >= {"model-forecasts", "model-scores"}
    topics = sorted({name for name, _ in expected})
    with EmbeddedBroker(all_topics(2, "test.")) as broker:
        env = environ(broker=broker.url, topic_prefix="test.", snapshot_interval="1s", models=MODELS)
        reading = load({}, {"broker": broker.url, "topic_prefix": "test."})
        half_ms = max(line.ts_ms or 0 for line in lines[: len(lines) // 2]) - 20_000
        for trace, until_ms in zip(traces, (half_ms, None), strict=True):
            with running("stream", env=env, log=tmp_path / f"{trace.name}.log"):
                dutycycle("replay", trace, "--broker", broker.url, env=env)
                wanted = _until(expected, until_ms)
                wait_until(
                    partial(_has, wanted, until_ms, lambda: read_now(reading, topics)),
                    lambda: "not yet what a replay says",
                )
        assert read_now(reading, topics) == expected


def _halves(lines: list[TraceRecord]) -> list[tuple[str, list[TraceRecord]]]:
    middle = len(lines) // 2
    return [("first", lines[:middle]), ("second", lines[middle:])]


def _until(found: Derived, ts_ms: int | None) -> Derived:
    """What was said up to a moment."""
    return {
        place: kept
        for place, payloads in found.items()
        if (kept := [one for one in payloads if ts_ms is None or orjson.loads(one)["ts_ms"] <= ts_ms])
    }


def _has(wanted: Derived, until_ms: int | None, read: Callable[[], Derived]) -> bool:
    return _until(read(), until_ms) == wanted
