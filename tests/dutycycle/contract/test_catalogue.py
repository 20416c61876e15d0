"""The catalogue of metrics against the records, the driver's calls, and the logs that it names."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import create_engine, text

import collectors.nvml.gate as gate
from collectors.prometheus.dcgm.fields import Vocabulary
from dutycycle.contract.catalogue import (
    CATALOGUE,
    GPU_METRICS,
    GPU_ROWS,
    NODE_ANNOTATIONS,
    NODE_GPU_ROWS,
    RESOLUTIONS,
    MetricRow,
    unit_of,
)
from dutycycle.contract.codec import from_plain
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.records.samples import Container, CudaPod, Gpu, Host, MigDevice, NvmlSample, PodCgroup
from dutycycle.imports.table.spellings import read_meaning
from dutycycle.report.charts.choice import charts_of
from dutycycle.report.gather import Gathered
from dutycycle.report.view import view_of
from dutycycle.view.newest import NewestRecords
from sinks.annotations.core.node import NodeView
from sinks.prometheus.series import SeriesRows
from sinks.prometheus.view import MetricsView
from sinks.records.writer import RecordsWriter
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from tests.support.data.samples import gpu, nvml, record

RECORDS = (
    ("nvml", "gpu", {Gpu}),
    ("nvml", "slice", {MigDevice}),
    ("cgroup", "node", {Host}),
    ("cgroup", "container", {Container}),
    ("cgroup", "pod", {Container, PodCgroup}),
    ("cuda", "pod", {CudaPod}),
)
NO_METRICS = {"gpu_util_max_pct", "net_speed_bytes_per_s"}
"""The largest of the time of which a metric is the mean; and what links could carry."""


def test_what_is_forecast_has_one_resolution_and_nothing_else_has_one() -> None:
    for row in CATALOGUE:
        assert (row.resolution > 0) == row.trend, row.field
        assert not row.trend or row.resolution == RESOLUTIONS[row.field], row.field


@pytest.mark.parametrize(("source", "subject", "records"), RECORDS)
def test_each_measured_field_has_a_row_and_each_row_a_field(
    source: str, subject: str, records: set[type]
) -> None:
    fields = {name for record in records for name in record.__struct_fields__}  # type: ignore[attr-defined]
    rows = {row.field for row in CATALOGUE if row.source == source and subject in row.subjects}
    assert rows <= fields
    assert {name for name in fields if unit_of(name).suffix} - rows <= NO_METRICS


def test_a_metric_has_a_title_and_a_unit_or_counts() -> None:
    assert [row.field for row in CATALOGUE if not row.title] == []
    assert {row.field for row in CATALOGUE if not unit_of(row.field).text} == {"pcie_gen", "pcie_width"}


def test_a_sum_over_gpus_is_of_a_metric_of_gpus() -> None:
    sums = {row.field: row.sum_of for row in CATALOGUE if row.sum_of}
    assert set(sums.values()) <= set(GPU_METRICS)
    assert {unit_of(name) == unit_of(of) for name, of in sums.items()} == {True}


def twice(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def names_of(row: MetricRow) -> dict[str, Iterable[str]]:
    spellings = (" ".join(sorted(one.split())) for one in row.smi.split("|") if one)
    return {
        "dcgm": row.dcgm, "smi": set(spellings), "dcgmi": row.dcgmi, "dmon": row.smi_dmon, "wandb": row.wandb,
    }  # fmt: skip


@pytest.mark.parametrize("vocabulary", ["dcgm", "smi", "dcgmi", "dmon", "wandb"])
def test_no_name_of_a_log_means_two_metrics(vocabulary: str) -> None:
    assert twice(name for row in GPU_ROWS for name in names_of(row)[vocabulary]) == set()


def test_no_series_and_no_annotation_of_a_gpu_is_of_two_metrics() -> None:
    assert twice(row.series.name for row in GPU_ROWS if row.series) == set()
    assert twice(row.annotation.key for row in GPU_ROWS if row.annotation) == set()


def test_the_driver_is_asked_as_the_catalogue_says() -> None:
    text = Path(gate.__file__).read_text(encoding="utf-8")
    assert [row.nvml for row in GPU_ROWS if isinstance(row.nvml, str) and row.nvml not in text] == []
    assert [row.field for row in GPU_ROWS if not row.nvml and not row.gpm and not row.dcgm] == []


VALUES = {row.field: round((row.limits[0] + min(row.limits[1], 1e13)) / 2) for row in GPU_ROWS}
WINDOWED = [row for row in GPU_ROWS if row.kind in ("gauge", "counter")]


@pytest.fixture(scope="module")
def derived() -> dict[str, list[dict[str, Any]]]:
    """What the streams make by topic of two minutes of a GPU with all figures."""
    operator = NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "a", NvmlReader("a"))
    counters = [row.field for row in GPU_ROWS if row.kind == "counter"]
    # They move: an energy counter that stands still while power is drawn is not read.
    moved = (VALUES | {name: VALUES[name] + seq for name in counters} for seq in range(120))
    ticks = (record("nvml-samples", "a", nvml(seq, [gpu(0, **values)])) for seq, values in enumerate(moved))
    outs = [out for tick in ticks for out in operator.update(tick)] + list(operator.close())
    found: dict[str, list[dict[str, Any]]] = {}
    for out in outs:
        if isinstance(out, ProducerRecord):
            found.setdefault(out.topic, []).append(orjson.loads(out.value or b""))
    return found


@pytest.mark.parametrize("row", WINDOWED, ids=lambda row: row.field)
def test_a_metric_of_gpus_has_windows(row: MetricRow, derived: dict[str, list[dict[str, Any]]]) -> None:
    window = derived["window-aggregates"][0]["metrics"][row.field]
    assert window["increase"] > 0 if row.kind == "counter" else window["mean"] == VALUES[row.field]


@pytest.mark.parametrize("row", NODE_GPU_ROWS, ids=lambda row: row.field)
def test_a_metric_of_nodes_has_peaks_there_and_in_the_database(
    row: MetricRow, derived: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    peaks = derived["node-peaks"][-1]
    value = VALUES[row.sum_of or row.field]
    assert peaks["metrics"][row.field]["max"] == value
    assert peaks["gpus"]["a/0"][row.sum_of or row.field]["max"] == value
    url = f"sqlite:///{tmp_path}/records.db"
    with RecordsWriter(url) as writer:
        writer.write("node-peaks", orjson.dumps(peaks))
    engine = create_engine(url)
    with engine.connect() as connection:
        columns = connection.execute(text(f"SELECT max_{row.field}, mean_{row.field} FROM node_days"))  # noqa: S608
        assert columns.one() == (value, value)
    engine.dispose()


@pytest.mark.parametrize("metric", NODE_ANNOTATIONS)
def test_the_maxima_of_an_hour_are_on_the_node(metric: str, derived: dict[str, list[dict[str, Any]]]) -> None:
    sample, newest = nvml(1, [gpu(0)]), NewestRecords()
    newest.put(sample["node"], from_plain(NvmlSample, sample, "nvml-samples"))
    newest.put(sample["node"], from_plain(NodePart, derived["node-parts"][-1], "node-parts"))
    assert NodeView(sample["node"], newest).values()["gpu-0"][NODE_ANNOTATIONS[metric]] == VALUES[metric]


@pytest.mark.parametrize("row", [row for row in GPU_ROWS if row.series], ids=lambda row: row.field)
def test_a_gauge_of_gpus_is_served_in_its_base_unit(row: MetricRow) -> None:
    sample = nvml(1, [gpu(0, **VALUES)])
    view = MetricsView(60_000)
    view.hear("nvml-samples", sample["node"], from_plain(NvmlSample, sample, "nvml-samples"))
    rows = {metric.name: values for metric, values in SeriesRows(view, (), 60, 10).rows(sample["ts_ms"])}
    assert row.series is not None
    assert [*rows[row.series.name].values()] == [VALUES[row.field] * row.series.factor]


@pytest.mark.parametrize("row", GPU_ROWS, ids=lambda row: row.field)
def test_each_name_of_dcgm_exporter_is_read_in_our_unit(row: MetricRow) -> None:
    vocabulary = Vocabulary()
    for name, factor in row.dcgm.items():
        reading = vocabulary.read({"__name__": name}, VALUES[row.field] / factor)
        assert reading is not None
        assert reading.field == row.field
        assert reading.value == pytest.approx(VALUES[row.field])


@pytest.mark.parametrize("row", [row for row in GPU_ROWS if row.smi], ids=lambda row: row.field)
def test_each_spelling_of_a_log_is_understood(row: MetricRow) -> None:
    meanings = [read_meaning(spelling.replace(" ", ".")) for spelling in row.smi.split("|")]
    assert {meaning.field for meaning in meanings if meaning} == {row.field}
    assert None not in meanings


def test_a_chart_of_a_report_shows_each_metric_that_has_one() -> None:
    gathered = Gathered()
    for seq in range(5):
        gathered.sample(record("nvml-samples", "a", nvml(seq, [gpu(0, **VALUES)])))
    charts = {chart.id: chart for chart in charts_of(gathered, view_of(gathered))}
    wanted = {row.chart: row.title for row in GPU_ROWS if row.chart}
    assert {name: charts[name].title for name in wanted} == wanted
