"""The catalogue of metrics against the records, the driver's calls, and the logs that it names."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

import collectors.nvml.gate as gate
from dutycycle.contract.metrics import CATALOGUE, GPU_METRICS, GPU_ROWS, MetricRow, unit_of
from dutycycle.contract.records.samples import Container, CudaPod, Gpu, Host, MigDevice, PodCgroup

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
    assert [row.field for row in GPU_ROWS if not row.nvml] == []
