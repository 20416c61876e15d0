"""Goal: what is counted is what is shown, by Prometheus' rules for names, units and types."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from collectors.expected import expect as expect_of_collector
from contract.settings.settings import load
from streams.runtime.events import expect as expect_of_stream
from streams.topology import stages
from telemetry import events, metrics
from telemetry.events import BROKER_UNREACHABLE, DEAD_LETTER, SAMPLE_LATE, TICK_LATE, Event, Telemetry
from telemetry.exposition import Exposition
from telemetry.meter import Metric
from telemetry.metrics import LAG, RECORDS_TAKEN, SNAPSHOT_AGE
from tests.support.servers.prometheus import check

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(page: bytes) -> Samples:
    """Every value by name and labels."""
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(page.decode())
        for one in family.samples
    }


def test_every_kind_of_figure() -> None:
    telemetry = Telemetry("test")
    telemetry.emit(DEAD_LETTER, topic="pods", reason="decode")
    telemetry.emit(DEAD_LETTER, count=2, topic="pods", reason="decode")
    telemetry.expect(TICK_LATE)
    telemetry.raise_condition(BROKER_UNREACHABLE, "refused", "x")
    telemetry.raise_condition(BROKER_UNREACHABLE, "timeout", "x")
    telemetry.meter.add(RECORDS_TAKEN, 7, topic="pods")
    telemetry.meter.read(LAG, lambda: {("pods",): 3.0})
    telemetry.meter.read(SNAPSHOT_AGE, lambda: None)
    page = Exposition(telemetry).page()
    found = {key: value for key, value in samples(page).items() if key[0].startswith("dutycycle_")}
    assert found == {
        ("dutycycle_dead_letter_total", (("reason", "decode"), ("topic", "pods"))): 3,
        ("dutycycle_tick_late_total", ()): 0,
        ("dutycycle_broker_unreachable_total", (("reason", "refused"),)): 1,
        ("dutycycle_broker_unreachable_total", (("reason", "timeout"),)): 1,
        ("dutycycle_conditions", (("event", "broker_unreachable"),)): 2,
        ("dutycycle_records_taken_total", (("topic", "pods"),)): 7,
        ("dutycycle_consumer_lag_records", (("topic", "pods"),)): 3,
    }
    assert b"# TYPE dutycycle_snapshot_age_seconds gauge" in page, "known, and without a value"
    assert samples(page)["process_start_time_seconds", ()] > 1.7e9


def test_a_condition_that_is_over_is_no_longer_shown() -> None:
    telemetry = Telemetry("test")
    telemetry.raise_condition(BROKER_UNREACHABLE, "refused", "x")
    telemetry.clear_condition(BROKER_UNREACHABLE, "refused")
    page = samples(Exposition(telemetry).page())
    assert ("dutycycle_conditions", (("event", "broker_unreachable"),)) not in page
    assert page["dutycycle_broker_unreachable_total", (("reason", "refused"),)] == 1


def test_what_may_be_counted_is_there_from_the_start() -> None:
    telemetry = Telemetry("stream")
    expect_of_stream(telemetry, stages(load({})))
    page = samples(Exposition(telemetry).page())
    for topic, reason in (("nvml-samples", "decode"), ("pods", "key"), ("job-parts", "operator")):
        assert page["dutycycle_dead_letter_total", (("reason", reason), ("topic", topic))] == 0
    assert page["dutycycle_sample_late_total", (("topic", "nvml-samples"),)] == 0
    assert page["dutycycle_records_used_total", (("topic", "cgroup-samples"),)] == 0
    telemetry.emit(SAMPLE_LATE, topic="nvml-samples")
    page = samples(Exposition(telemetry).page())
    assert page["dutycycle_sample_late_total", (("topic", "nvml-samples"),)] == 1


def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    telemetry = Telemetry("test")
    expect_of_stream(telemetry, stages(load({})))
    expect_of_collector(telemetry)
    for event in vars(events).values():
        if isinstance(event, Event):
            telemetry.expect(event, [("x",) * len(event.labels)])
    for metric in vars(metrics).values():
        if isinstance(metric, Metric):
            telemetry.meter.set(metric, 1, **dict.fromkeys(metric.labels, "x"))
    page = tmp_path / "metrics"
    page.write_bytes(Exposition(telemetry).page())
    check("metrics", page)


def test_names_are_unique_and_labels_few() -> None:
    names = [one.name for one in vars(metrics).values() if isinstance(one, Metric)]
    names += [f"{one.name}_total" for one in vars(events).values() if isinstance(one, Event)]
    assert len(names) == len(set(names))
    labels = {label for one in vars(metrics).values() if isinstance(one, Metric) for label in one.labels}
    assert labels <= {"version", "event", "topic", "stage", "sink", "collector"}
