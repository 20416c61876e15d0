"""A job whose GPUs are in use all of the time and do little is told so, wherever somebody looks."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS
from dutycycle.live.model.state import LiveState
from dutycycle.live.views.depth import depth
from dutycycle.report.build import gather_records, report_of
from dutycycle.report.page import html_of
from sinks.annotations.core import desired, keys
from sinks.annotations.core.diff import Present
from sinks.annotations.core.targets import job_target, pod_target
from sinks.prometheus.series import SeriesRows
from sinks.prometheus.view import MetricsView
from sinks.records.rows import rows_of
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.data.samples import cgroup, gpu, nvml, record
from tests.support.sinks.made import JOB

SECONDS = 240
NODE = "gpu-a"
UTIL, SM = 100, 12


def records(**counters: float) -> Iterator[ConsumerRecord]:
    """Two GPUs of a job's pod: always in use, one multiprocessor of eight at work."""
    yield record(
        "pods", "uid-1",
        {
            "v": 1, "uid": "uid-1", "namespace": "default", "name": "w-0", "node": NODE, "phase": "Running",
            "job": {"api_version": JOB.api_version, "kind": JOB.kind, "name": JOB.name, "uid": JOB.uid},
        },
    )  # fmt: skip
    process = {"pid": 1, "pod_uid": "uid-1", "gpu_util_pct": UTIL, "mem_used_bytes": 40e9}
    for second in range(1, SECONDS):
        gpus = [
            gpu(
                at, gpu_util_pct=UTIL, mem_used_bytes=40e9, mem_total_bytes=80e9, power_w=230 + second % 7,
                power_limit_w=700, processes=[process], model="NVIDIA H100 80GB HBM3", sm_clock_mhz=1755,
                **counters,
            )
            for at in range(2)
        ]  # fmt: skip
        containers = [{"id": "c", "name": "c", "cpu_util_pct": 130, "mem_used_bytes": 8e9}]
        host = {"cpu_util_pct": 140, "cpu_count": 64, "mem_used_bytes": 20e9, "mem_total_bytes": 500e9}
        yield record("nvml-samples", NODE, nvml(second, gpus, node=NODE), second)
        pods = [{"uid": "uid-1", "containers": containers}]
        yield record("cgroup-samples", NODE, cgroup(second, host, pods, node=NODE), second)


@cache
def outlets(**counters: float) -> dict[str, str]:
    """What each outlet says of the job in the end."""
    read, peaks = [*records(**counters)], dict[str, Any]()
    pipeline, screen = LocalPipeline(stages(Settings())), LiveState()
    annotations, view = desired.Annotations("k"), MetricsView(60_000)
    for source in read:
        everything: list[ConsumerRecord | ProducerRecord] = [source, *pipeline.feed(source)]
        for one in everything:
            screen.feed(one.topic, one.key or "", one.value, one.ts_ms)
            told: Any = decode(TOPICS[one.topic].record, one.value or b"", one.topic)
            if one.topic in ("pod-peaks", "job-peaks"):
                peaks[one.topic] = told
            if one.topic in desired.TOPICS:
                annotations.take(told)
            if one.topic in ("nvml-samples", "pods", "insights"):
                view.hear(one.topic, one.key or "", told)
    for last in pipeline.flush():
        if last.topic in ("pod-peaks", "job-peaks"):
            peaks[last.topic] = decode(TOPICS[last.topic].record, last.value or b"", last.topic)
            annotations.take(peaks[last.topic])
    target, of_pod = job_target(JOB, "default"), pod_target(peaks["pod-peaks"].pod)
    assert target is not None
    assert of_pod is not None
    written = annotations.wanted(target, Present({})).texts
    series = dict(SeriesRows(view, (), 60, 100).rows(1000 * SECONDS))
    rows = [
        f"{metric.name}{labels} {value:g}"
        for metric, of in series.items()
        if metric.name.startswith(("job_", "gpu_tensor"))
        for labels, value in of.items()
    ]
    shown = [screen.row(key) for key in (f"job/{JOB.uid}", f"gpu/{NODE}/GPU-0")]
    lines = [line for row in shown if row is not None for line in depth(screen, row, 200)]
    page = html_of(report_of(gather_records(read, Settings()), Settings(), "a trace", job=JOB.name))
    return {
        "screen": "\n".join("".join(text for text, _ in line) for line in lines),
        "annotation": f"{written['k/' + keys.BOTTLENECK]}: {written['k/' + keys.ADVICE]}",
        "maxima": "\n".join(
            f"{key} {value}"
            for one in (target, of_pod)
            for key, value in annotations.wanted(one, Present({})).texts.items()
        ),
        "peaks": "\n".join(
            f"{topic} {name} {peak.max} {peak.mean}"
            for topic, record in peaks.items()
            for name, peak in record.metrics.items()
        ),
        "sql": "\n".join(
            f"{row.table} {name} {value}"
            for record in peaks.values()
            for row in rows_of(record)
            for name, value in row.values.items()
            if value is not None
        ),
        "series": "\n".join(rows),
        "report": page[: page.index("<script")] if "<script" in page else page,
    }


@pytest.mark.parametrize(
    ("outlet", "words"),
    [
        ("screen", ["kernels too small, or too few", "utilization 100 %, SM 12 %", "CUDA graphs",
                    "tensor/peak 3.8 %"]),
        ("annotation", ["launch: ", "utilization 100 %, SM 12 %", "CUDA graphs"]),
        ("maxima", ['k/w-0 {"gpu', '"sm_active":12', "max_sm_active 12", "max_tensor_active 4"]),
        ("peaks", [f"{of}-peaks {metric}" for of in ("pod", "job") for metric in (
            "sm_active_pct 12 12", "tensor_active_pct 4 4", "dram_active_pct 7 7"
        )]),
        ("sql", [f"{of}_peaks {figure}" for of in ("pod", "job") for figure in (
            "max_sm_active_pct 12", "mean_tensor_active_pct 4", "mean_dram_active_pct 7"
        )]),
        ("series", ["'launch') 1", "job_gpu_sm_active_ratio", " 0.12", "job_gpu_utilization_ratio",
                    "gpu_tensor_of_peak_ratio('gpu-a', '0', 'GPU-0') 0.03836"]),
        (
            "report",
            [
                "held back by: launch",
                "SM 12\u00a0%, tensor cores 4\u00a0%, memory 7\u00a0% (means)",
                "4\u00a0% (by activity and clock; padding counts, so it is no MFU)",
                "utilization 100 %, SM 12 %",
                "in use, SM empty",
            ],
        ),
    ],
)  # fmt: skip
def test_a_job_that_is_in_use_and_does_little_is_told_so(outlet: str, words: list[str]) -> None:
    said = outlets(sm_active_pct=SM, tensor_active_pct=4, dram_active_pct=7, fp32_active_pct=2)[outlet]
    assert [one for one in words if one not in said] == [], said


def test_where_nothing_is_counted_nothing_of_it_is_told() -> None:
    said = outlets()
    assert not [name for name, text in said.items() if "SM 12 %" in text or "launch" in text]
    assert not [name for name, text in said.items() if "peak_ratio" in text or "tensor/peak" in text]
    assert "Tensor use of peak" not in said["report"]
    assert "as far as its utilization tells" in said["annotation"]
    for outlet in ("series", "peaks", "sql", "maxima"):
        assert "_active" not in said[outlet]
