"""Goal: what a Prometheus kept becomes the records that the collector would have written."""

import orjson
import pytest

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.history import Chunk, History
from collectors.prometheus.series import ScrapedSeries

GPU = {
    "__name__": "DCGM_FI_DEV_GPU_UTIL",
    "gpu": "0",
    "UUID": "GPU-1",
    "Hostname": "node-1",
    "instance": "a:9400",
}


@pytest.mark.parametrize(
    ("away_s", "interval_s"), [(15, 30), (30, 45), (60, 15), (240, 15)],
    ids=["a scrape failed", "two", "four", "many"],
)  # fmt: skip
def test_nobody_saw_a_gpu_while_scrapes_failed(away_s: int, interval_s: int) -> None:
    """As for a collector of ours, a tick after a gap is about its own interval alone."""
    at_s = [*range(0, 150, 15), *range(150 + away_s, 600, 15)]
    series = ScrapedSeries(GPU, tuple((1000 * second, 50.0) for second in at_s))
    none: list[ScrapedSeries] = []
    answers = {"gpus": [series], "hosts": none, "containers": none, "kube": none}
    history = History("c", 15_000, 60.0, AnswerReader())
    samples = [
        orjson.loads(out.payload or b"")
        for out in history.records(Chunk(-1, 600_000, 300_000, answers)) if out.topic == "nvml-samples"
    ]  # fmt: skip
    intervals = {sample["ts_ms"] // 1000: sample["interval_ms"] // 1000 for sample in samples}
    assert intervals.pop(150 + away_s) == interval_s
    assert set(intervals.values()) == {15}
