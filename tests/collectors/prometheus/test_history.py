"""Goal: what a Prometheus kept becomes the records that the collector would have written."""

import orjson
import pytest

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.history import Chunk, History
from collectors.prometheus.series import ScrapedSeries
from tests.support.data.prometheus_samples import IN_POD

GPU = {
    "__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": "GPU-1", "Hostname": "node-1",
    "instance": "a:9400",
}  # fmt: skip


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
        orjson.loads(out.value or b"")
        for out in history.records(Chunk(-1, 600_000, 300_000, answers)) if out.topic == "nvml-samples"
    ]  # fmt: skip
    intervals = {sample["ts_ms"] // 1000: sample["interval_ms"] // 1000 for sample in samples}
    assert intervals.pop(150 + away_s) == interval_s
    assert set(intervals.values()) == {15}


@pytest.mark.parametrize("chunk_s", [30, 50, 300])
@pytest.mark.parametrize("after_s", [0, 7, 29])
def test_a_node_and_its_pods_are_in_one_record_whenever_each_is_scraped(chunk_s: int, after_s: int) -> None:
    def scraped(name: str, first_s: int, end_s: int, **labels: str) -> list[ScrapedSeries]:
        points = ((1000 * second, 10.0 * second) for second in range(first_s, end_s + 1, 30))
        return [ScrapedSeries({"__name__": name, "node": "a", **labels}, tuple(points))]

    history = History("c", 15_000, 60.0, AnswerReader())
    samples = []
    for end_s in range(chunk_s, 301, chunk_s):
        answers = {
            "gpus": [],
            "hosts": scraped("node_network_receive_bytes_total", after_s, end_s, device="eth0"),
            "containers": scraped("container_cpu_usage_seconds_total", 0, end_s, **IN_POD),
            "kube": [],
        }
        chunk = Chunk(1000 * (end_s - chunk_s), 1000 * end_s, 300_000, answers)
        samples += [orjson.loads(out.value or b"") for out in history.records(chunk) if out.key == "a"]
    assert [sample["ts_ms"] for sample in samples] == [*range(30_000, 300_001, 30_000)]
    assert all(sample["pods"] for sample in samples)
    assert all("net_rx_bytes_per_s" in sample["host"] for sample in samples[2:])
