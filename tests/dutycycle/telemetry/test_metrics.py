"""Goal: what is counted, set or read is what is shown, by Prometheus' rules for names, units and types."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from collectors.metrics import CollectorMetrics
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.kafka.faust import logs
from dutycycle.telemetry import events, metrics
from dutycycle.telemetry.events import BROKER_UNREACHABLE, DEAD_LETTER, SAMPLE_LATE, Event, Telemetry
from dutycycle.telemetry.metrics import CONDITIONS, LAG, RECORDS_TAKEN, SNAPSHOT_AGE, Labels, Metric, Metrics
from streams.runtime import events as state_events
from streams.topology import stages
from tests.support.servers.prometheus import check

UP = Metric("up", "for the test", ("source",))
AGE = Metric("age_seconds", "for the test")
DONE = Metric("done_total", "for the test", ("topic",))

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(page: bytes) -> Samples:
    """Every value of ours by name and labels."""
    return {
        (one.name.removeprefix("dutycycle_"), tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(page.decode())
        for one in family.samples
        if one.name.startswith("dutycycle_")
    }


def shown(page: bytes) -> list[str]:
    """The samples of the page, by line."""
    return [line for line in page.decode().splitlines() if line.startswith("dutycycle_")]


def test_a_name_says_what_a_metric_is() -> None:
    assert [one.is_counter for one in (UP, AGE, DONE)] == [False, False, True]


def test_counters_begin_at_zero_and_gauges_hold_what_was_set_last() -> None:
    own = Metrics()
    own.counter(DONE, topic="a")
    own.counter(DONE, topic="t").inc()
    own.counter(DONE, topic="t").inc(2)
    own.gauge(UP, source="a").set(1)
    own.gauge(UP, source="a").set(0)
    assert shown(own.page()) == [
        'dutycycle_done_total{topic="a"} 0.0',
        'dutycycle_done_total{topic="t"} 3.0',
        'dutycycle_up{source="a"} 0.0',
    ]


def test_what_is_read_is_read_at_each_scrape() -> None:
    values: Iterator[float | Mapping[Labels, float] | None] = iter([None, 3, {("x",): 1.0}])
    own = Metrics()
    own.read(UP, lambda: next(values))
    own.read(AGE, lambda: 7)
    age = "dutycycle_age_seconds 7.0"
    assert shown(own.page()) == [age], "not known yet"
    assert shown(own.page()) == ["dutycycle_up 3.0", age]
    assert shown(own.page()) == ['dutycycle_up{source="x"} 1.0', age]
    assert shown(own.page()) == [age], "reading that fails makes it absent, and the others stay"
    own.read(UP, lambda: {("y",): 2.0})
    assert shown(own.page()) == ['dutycycle_up{source="y"} 2.0', age], "the last one given counts"


def test_every_kind_of_metric() -> None:
    telemetry = Telemetry("collect")
    telemetry.emit(DEAD_LETTER, topic="pods", reason="decode")
    telemetry.emit(DEAD_LETTER, count=2, topic="pods", reason="decode")
    telemetry.raise_condition(BROKER_UNREACHABLE, "refused", "x")
    telemetry.raise_condition(BROKER_UNREACHABLE, "timeout", "x")
    telemetry.metrics.counter(RECORDS_TAKEN, topic="pods").inc(7)
    telemetry.metrics.read(LAG, lambda: {("pods",): 3.0})
    telemetry.metrics.read(SNAPSHOT_AGE, lambda: None)
    page = telemetry.metrics.page()
    assert samples(page) == {
        ("dead_letter_total", (("reason", "decode"), ("topic", "pods"))): 3,
        ("broker_unreachable_total", (("reason", "refused"),)): 1,
        ("broker_unreachable_total", (("reason", "timeout"),)): 1,
        ("conditions", (("event", "broker_unreachable"),)): 2,
        ("records_taken_total", (("topic", "pods"),)): 7,
        ("consumer_lag_records", (("topic", "pods"),)): 3,
    }
    assert b"# TYPE dutycycle_snapshot_age_seconds gauge" in page, "known, and without a value"
    assert b"\nprocess_start_time_seconds 1" in page


def test_a_condition_that_is_over_is_no_longer_shown() -> None:
    telemetry = Telemetry("test")
    telemetry.raise_condition(BROKER_UNREACHABLE, "refused", "x")
    telemetry.clear_condition(BROKER_UNREACHABLE, "refused")
    assert samples(telemetry.metrics.page()) == {("broker_unreachable_total", (("reason", "refused"),)): 1}


def expecting(process: str) -> Telemetry:
    """The telemetry of ``process`` as it begins."""
    telemetry = Telemetry(process)
    every = stages(load({}))
    telemetry.expect(
        events, state_events, logs, topic=[one.source for one in every], stage=[one.name for one in every]
    )
    return telemetry


def test_what_may_be_counted_is_there_from_the_start() -> None:
    telemetry = expecting("stream")
    page = samples(telemetry.metrics.page())
    for topic, reason in (("nvml-samples", "decode"), ("pods", "key"), ("job-parts", "operator")):
        assert page["dead_letter_total", (("reason", reason), ("topic", topic))] == 0
    assert page["sample_late_total", (("topic", "nvml-samples"),)] == 0
    assert page["library_said_total", (("library", "faust"),)] == 0
    assert page["state_reset_total", (("stage", "pods"),)] == 0
    assert not [name for name, _ in page if name in ("spooled_total", "tick_late_total")]
    telemetry.emit(SAMPLE_LATE, topic="nvml-samples")
    page = samples(telemetry.metrics.page())
    assert page["sample_late_total", (("topic", "nvml-samples"),)] == 1


def test_a_source_that_has_not_measured_yet_is_down_and_counted_from_zero() -> None:
    telemetry = Telemetry("collect")
    telemetry.expect(events, topic=SAMPLE_TOPICS, collector=["nvml"])
    CollectorMetrics(telemetry, 1.0).expect("nvml")
    page = samples(telemetry.metrics.page())
    for name in ("source_up", "source_restarts_total", "measures_total", "measure_seconds_total"):
        assert page[name, (("collector", "nvml"),)] == 0
    assert page["collector_failed_total", (("collector", "nvml"), ("reason", "slow"))] == 0
    assert page["ticks_total", ()] == 0
    assert page["record_too_large_total", (("topic", "pods"),)] == 0


def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    telemetry = expecting("stream")
    telemetry.raise_condition(BROKER_UNREACHABLE, "timeout", "x")
    for event in vars(events).values():
        if isinstance(event, Event):
            labels: Any = dict.fromkeys(event.labels, "x")
            telemetry.emit(event, **labels)
    for metric in vars(metrics).values():
        if isinstance(metric, Metric) and metric is not CONDITIONS:  # which is there by itself
            make = telemetry.metrics.counter if metric.is_counter else telemetry.metrics.gauge
            make(metric, **dict.fromkeys(metric.labels, "x")).inc()
    page = tmp_path / "metrics"
    page.write_bytes(telemetry.metrics.page())
    check("metrics", page)


def test_names_are_unique_and_labels_few() -> None:
    names = [one.name for one in vars(metrics).values() if isinstance(one, Metric)]
    names += [f"{one.name}_total" for one in vars(events).values() if isinstance(one, Event)]
    assert len(names) == len(set(names))
    labels = {label for one in vars(metrics).values() if isinstance(one, Metric) for label in one.labels}
    assert labels <= {"version", "event", "topic", "stage", "sink", "collector", "code", "verb", "result"}
