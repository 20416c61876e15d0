"""Goal: the CUDA calls of a pod have windows, a cycle and peaks, beside what other sources tell of it."""

from typing import Any

import orjson

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CudaPod, CudaSample
from dutycycle.contract.settings.load import load
from streams.local import LocalPipeline
from streams.topology import stages

START_MS = 1_700_000_000_000
SECONDS, CYCLE_S = 900, 20


def sample(second: int) -> ConsumerRecord:
    """A pod that launches kernels in half of each cycle, and one that does not say how many."""
    busy = second % CYCLE_S < CYCLE_S // 2
    pods = (
        CudaPod(uid="u", kernel_launches_per_s=20_000 if busy else 10, kernel_burst_pct=40 if busy else 0,
                memcpys_per_s=2, cuda_mem_used_bytes=2**30),
        CudaPod(uid="other", cuda_mem_used_bytes=5),
    )  # fmt: skip
    one = CudaSample(
        node="gpu-a", collector="c", seq=second, ts_ms=START_MS + 1000 * second, interval_ms=1000, pods=pods
    )
    return ConsumerRecord("cuda-samples", 0, second, "gpu-a", encode(one), one.ts_ms)


def test_windows_cycles_and_peaks_of_a_pod() -> None:
    pipeline = LocalPipeline(stages(load({})))
    pod = Pod(uid="u", namespace="team", name="bert-0", node="gpu-a", phase="Running")
    outs = pipeline.feed(ConsumerRecord("pods", 0, 0, "u", encode(pod), START_MS))
    for second in range(SECONDS):
        outs += pipeline.feed(sample(second))
    outs += pipeline.close()
    assert pipeline.happened == {}
    found: dict[str, list[tuple[str, Any]]] = {}
    for out in outs:
        found.setdefault(out.topic, []).append((out.key or "", orjson.loads(out.value or b"null")))
    minutes = [one for key, one in found["window-aggregates"] if key == "pod/u" and one["size_ms"] == 60_000]
    assert {one["source"] for one in minutes} == {"cuda"}
    launches = minutes[1]["metrics"]["kernel_launches_per_s"]
    assert (launches["count"], launches["mean"], launches["max"]) == (60, 10_005, 20_000)
    cycles = [one["metrics"] for key, one in found["cycles"] if key == "pod/u/cuda"]
    assert any(abs(of["kernel_launches_per_s"].get("period_s", 0) - CYCLE_S) < 0.5 for of in cycles)
    peaks = [one for key, one in found["pod-peaks"] if key == "u"][-1]
    assert peaks["pod"]["name"] == "bert-0"
    assert {metric: of["max"] for metric, of in peaks["metrics"].items()} == {
        "kernel_launches_per_s": 20_000, "kernel_burst_pct": 40, "memcpys_per_s": 2,
        "cuda_mem_used_bytes": 2**30,
    }  # fmt: skip
    others = [one for key, one in found["window-aggregates"] if key == "pod/other"]
    assert {metric for one in others for metric in one["metrics"]} == {"cuda_mem_used_bytes"}
    assert "insight-parts" not in found or {key for key, _ in found["insight-parts"]} == {"u"}
