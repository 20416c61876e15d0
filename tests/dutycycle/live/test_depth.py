"""One subject in depth."""

import pytest
from msgspec.structs import replace

from dutycycle.live.model.subjects import GpuRow, Row
from dutycycle.live.views.depth import depth
from dutycycle.live.views.figures import job_history
from dutycycle.live.views.spans import text_of, width_of
from tests.support.fleet import START_MS, fleet
from tests.support.live import POD, cgroup, fed, feed

WINDOW = {"count": 10, "mean": 61.2, "std": 1, "min": 3, "max": 97, "p50": 66, "p95": 96, "p99": 97}


def test_a_gpu_has_figures_findings_history_forecast_cycle_windows_and_processes() -> None:
    state = fleet(8)
    subject = {"kind": "gpu", "node": "gpu-a", "gpu": "GPU-gpu-a-1"}
    for size_ms in (60_000, 10_000):
        window = {"subject": subject, "source": "nvml", "size_ms": size_ms, "start_ms": START_MS,
                  "end_ms": START_MS + size_ms, "metrics": {"gpu_util_pct": WINDOW}}  # fmt: skip
        feed(state, "window-aggregates", "gpu/gpu-a/GPU-gpu-a-1", window)
    row = state.row("gpu/gpu-a/GPU-gpu-a-1")
    assert row is not None
    text = "\n".join(text_of(line) for line in depth(state, row, 120))
    for part in (
        "GPU gpu-a:1  NVIDIA H200  GPU-gpu-a-1", "96.0 %, max 96.0 %", "34.0 of 141.0 GiB", "666 W of 700 W",
        "training: GPU waits for input, slowed by power, cycle 16 s, 61 % in 5m",
        "ml/bert-worker-a: training (90% sure), CPU waiting 88 %, GPU util 61 %",
        "advice        the GPU waits while one CPU core is busy", "the forecast with its 90 % interval",
        "One cycle of 16 s, 97% sure",
        "  10s GPU use               61.2 %      66.0 %      96.0 %      97.0 %",
        "  1m GPU use", "     4001  python                 96.0 %    34.0 GiB  ml/bert-worker-a",
    ):  # fmt: skip
        assert part in text, f"{part!r} is not in\n{text}"
    assert text.index("10s GPU use") < text.index("1m GPU use")


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("pod/gpu-a-1", ("pod ml/chat-a", "Deployment chat", "uses 3 of 4", "asks for 4 GPUs", "gpu-a:7")),
        ("job/job-bert", ("job ml/bert", "PyTorchJob", "uses 4 of 4", "ml/bert-worker-a")),
        ("node/gpu-a", ("node gpu-a", "of 64 cores", "ml/chat-a", "gpu-a:0", "read 400.00 MB/s, write ·")),
    ],
)
def test_other_subjects_have_what_is_inside_of_them(key: str, parts: tuple[str, ...]) -> None:
    state = fleet(8)
    row = state.row(key)
    assert row is not None
    text = "\n".join(text_of(line) for line in depth(state, row, 120))
    for part in parts:
        assert part in text, f"{part!r} is not in\n{text}"


def test_the_history_of_a_job_adds_up_its_pods_whenever_their_ticks_come() -> None:
    """One node ticks now late, now early in a second, the other every two seconds."""
    job = {"api_version": "v1", "kind": "MPIJob", "name": "cfd", "uid": "j"}
    state = fed(*(("pods", uid, POD | {"uid": uid, "node": uid, "job": job}) for uid in ("a", "b")))
    for second in range(10, 40):
        of_a = cgroup(1000 * second + (1 if second % 2 else 999)) | {"node": "a"}
        of_b = cgroup(1000 * second + 500) | {"node": "b", "interval_ms": 2000}
        for sample in (of_a, of_b) if second % 2 else (of_a,):
            container = {"id": "1", "cpu_util_pct": 100}
            sample["pods"] = [{"uid": sample["node"], "containers": [container]}]
            feed(state, "cgroup-samples", sample["node"], sample)
    (row,) = state.jobs()
    times, values = job_history(row)
    assert len(times) > 10
    assert set(values[1:]) == {200}


def test_a_long_name_of_a_figure_is_apart_from_its_value() -> None:
    state = fleet(8)
    row = state.row("gpu/gpu-a/GPU-gpu-a-1")
    assert isinstance(row, GpuRow)
    row.now = replace(row.now, nvlink_rx_bytes_per_s=40_000_000_000)
    text = "\n".join(text_of(line) for line in depth(state, row, 160))
    assert "NVLink received 40.00 GB/s" in text


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_charts_and_paragraphs_fit(width: int) -> None:
    state = fleet(8)
    rows: list[Row] = [*state.gpus(), *state.pods(), *state.jobs(), *state.node_rows()]
    for row in rows:
        lines = depth(state, row, width)
        charted = [line for line in lines if "█" in text_of(line) or "░" in text_of(line)]
        assert charted
        assert max(width_of(line) for line in charted) <= max(width, 80)


def test_what_was_just_seen_for_the_first_time_is_shown_without_what_takes_time() -> None:
    state = fleet(1, ticks=1)
    (row,) = state.gpus()
    assert "memory" in "\n".join(text_of(line) for line in depth(state, row, 80))


def test_peaks_of_a_pod() -> None:
    state = fleet(8)
    pod = {"v": 1, "uid": "gpu-a-0", "namespace": "ml", "name": "x", "node": "gpu-a", "phase": "Running"}
    peak = {"max": 97, "mean": 61, "at_ms": START_MS, "p95": 93}
    record = {"pod": pod, "first_ms": START_MS, "last_ms": START_MS + 3_600_000, "samples": 9, "final": False,
              "metrics": {"gpu_util_pct": peak}}  # fmt: skip
    feed(state, "pod-peaks", "gpu-a-0", record)
    row = state.row("pod/gpu-a-0")
    assert row is not None
    text = "\n".join(text_of(line) for line in depth(state, row, 120))
    assert "At most, in 1h00m" in text
    assert "GPU use                   97.0 %      93.0 %      61.0 %" in text
