"""Goal: the records of a real Prometheus' nodes; its absence and its errors are told, and are no values."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, pairwise
from threading import Thread
from typing import Any

import pytest

from collectors.base import Tick
from collectors.prometheus import PrometheusCollector, Source, prometheus_collector
from collectors.prometheus_query import QueryError
from collectors.prometheus_series import Series
from tests.collectors.exporter_pages import CID, UID, cadvisor, dcgm, line, pod_info
from tests.servers.exposition import MetricsPage, serve_metrics
from tests.servers.prometheus import Prometheus, scrape
from wire.codec import decode
from wire.events import ATTRIBUTION_FAILED, NOT_MEASURED, PROMETHEUS_QUERY_FAILED, Telemetry
from wire.pods import Pod
from wire.samples import CgroupSample, Container, GpuProcess, NvmlSample
from wire.settings import load

SCRAPE_S = 0.25
PATIENCE_S = 60
GB = 10**9
Start = Callable[[dict[str, Any]], Prometheus]


class Records:
    """Ticks a collector, and keeps what it gives out."""

    def __init__(self, url: str, *, name_pods: bool = False) -> None:
        self.telemetry = Telemetry("test")
        settings = load({"DUTYCYCLE_PROMETHEUS": url})
        found = prometheus_collector(settings, self.telemetry, name_pods=name_pods)
        assert found is not None
        self.collector: PrometheusCollector = found
        self.gpus: list[NvmlSample] = []
        self.use: list[CgroupSample] = []
        self.pods: list[Pod] = []
        self._seq = count()

    def tick(self) -> None:
        tick = Tick(
            node="me", collector="c", seq=next(self._seq), ts_ms=round(time.time() * 1000), interval_ms=1000,
            monotonic_s=time.monotonic(),
        )  # fmt: skip
        for one in self.collector.collect(tick):
            assert one.payload is not None
            if one.topic == "nvml-samples":
                self.gpus.append(decode(NvmlSample, one.payload, one.topic))
                assert (one.key, one.ts_ms) == (self.gpus[-1].node, self.gpus[-1].ts_ms)
            elif one.topic == "cgroup-samples":
                self.use.append(decode(CgroupSample, one.payload, one.topic))
                assert (one.key, one.ts_ms) == (self.use[-1].node, self.use[-1].ts_ms)
            else:
                self.pods.append(decode(Pod, one.payload, one.topic))
                assert one.key == self.pods[-1].uid

    def until(self, reached: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < deadline, "not reached"
            time.sleep(0.05)
            self.tick()


@pytest.fixture
def page() -> Iterator[MetricsPage]:
    with serve_metrics("") as found:
        yield found


@pytest.fixture
def server(prometheus: Start, page: MetricsPage) -> Prometheus:
    config = scrape([page.target], SCRAPE_S)
    config["scrape_configs"][0]["honor_labels"] = True
    return prometheus(config)


def test_gpus_of_two_nodes(server: Prometheus, page: MetricsPage) -> None:
    page.text = dcgm("gpu-a", util_pct=97, used_bytes=2**30, energy_j=918_273) + dcgm(
        "gpu-b", util_pct=0, used_bytes=0, energy_j=5, index=3
    )
    server.wait_for("count(DCGM_FI_DEV_GPU_UTIL) == 2", PATIENCE_S)
    (shown,) = server.query('timestamp(DCGM_FI_DEV_GPU_UTIL{Hostname="gpu-a"})')
    records = Records(server.url)
    records.until(lambda: records.gpus)
    first = {one.node: one for one in records.gpus}
    assert first.keys() == {"gpu-a", "gpu-b"}
    (busy,), (idle,) = first["gpu-a"].gpus, first["gpu-b"].gpus
    assert (busy.uuid, busy.index, busy.model, busy.gpu_util_pct) == ("GPU-gpu-a-0", 0, "NVIDIA H200", 97)
    assert (busy.mem_used_bytes, busy.mem_total_bytes) == (2**30, 143_000 * 2**20)
    assert (busy.power_w, busy.energy_j, busy.temp_c) == (612.3, 918_273, 61)
    assert (busy.sm_clock_mhz, busy.mem_clock_mhz, busy.mem_copy_util_pct) == (1980, 3201, 41)
    assert (idle.index, idle.gpu_util_pct, idle.mem_used_bytes) == (3, 0, 0)
    assert first["gpu-a"].collector == "c"
    assert first["gpu-a"].ts_ms >= round(float(shown["value"][1]) * 1000)


def test_a_scrape_is_given_out_once_and_with_its_own_time(server: Prometheus, page: MetricsPage) -> None:
    page.text = dcgm("gpu-a", util_pct=10, used_bytes=0, energy_j=0)
    records = Records(server.url)
    records.until(lambda: len(records.gpus) >= 6)
    times = [one.ts_ms for one in records.gpus]
    raw = server.query("DCGM_FI_DEV_GPU_UTIL[2m]")[0]
    scraped = {round(float(at) * 1000) for at, _ in raw["values"]}
    assert len(set(times)) == len(times)
    assert times == sorted(times)
    assert set(times) <= scraped
    assert len({one.seq for one in records.gpus}) == len(times)
    steps = [one.interval_ms for one in records.gpus[1:]]
    assert steps == [after - before for before, after in pairwise(times)]


def test_the_past_is_not_given_out_as_new(server: Prometheus, page: MetricsPage) -> None:
    page.text = dcgm("gpu-a", util_pct=10, used_bytes=0, energy_j=0)
    server.wait_for("DCGM_FI_DEV_GPU_UTIL", PATIENCE_S)
    page.text = dcgm("gpu-b", util_pct=10, used_bytes=0, energy_j=0)
    server.wait_for('DCGM_FI_DEV_GPU_UTIL{Hostname="gpu-b"}', PATIENCE_S)
    records = Records(server.url)
    records.until(lambda: len(records.gpus) > 2)
    assert {one.node for one in records.gpus} == {"gpu-b"}


def test_what_is_not_scraped_any_more_is_absent_and_comes_back(server: Prometheus, page: MetricsPage) -> None:
    both = dcgm("gpu-a", util_pct=10, used_bytes=0, energy_j=0) + dcgm(
        "gpu-a", util_pct=20, used_bytes=0, energy_j=0, index=1
    )
    page.text = both
    records = Records(server.url)
    records.until(lambda: records.gpus and len(records.gpus[-1].gpus) == 2)
    page.text = dcgm("gpu-a", util_pct=30, used_bytes=0, energy_j=0)
    records.until(lambda: len(records.gpus[-1].gpus) == 1)
    assert records.gpus[-1].gpus[0].gpu_util_pct == 30
    page.text = None
    server.wait_for("up == 0", PATIENCE_S)
    records.tick()
    seen = len(records.gpus)
    scrapes = server.query("count_over_time(up[1m])")[0]["value"][1]
    server.wait_for(f"count_over_time(up[1m]) > {scrapes} + 3", PATIENCE_S)
    records.tick()
    assert len(records.gpus) == seen
    page.text = both
    records.until(lambda: len(records.gpus) > seen)
    assert len(records.gpus[-1].gpus) == 2


def test_containers_with_rates_over_their_own_times(server: Prometheus, page: MetricsPage) -> None:
    start_ms = round(time.time() * 1000) - 20_000
    page.text = cadvisor("gpu-b", cpu_s=100, ts_ms=start_ms)
    records = Records(server.url, name_pods=True)
    records.until(lambda: records.use)
    first = records.use[-1]
    assert (first.node, first.host.cpu_util_pct, first.host.cpu_count) == ("gpu-b", None, 64)
    assert (first.host.mem_used_bytes, first.host.mem_total_bytes) == (70_000, 100_000)
    page.text = cadvisor("gpu-b", cpu_s=115.18, ts_ms=start_ms + 10_000)
    records.until(lambda: records.use[-1].host.cpu_util_pct is not None)
    second = records.use[-1]
    assert second.host.cpu_util_pct == pytest.approx(303.6)
    (pod,) = second.pods
    assert (pod.uid, pod.qos) == (UID, "burstable")
    assert (pod.net_rx_bytes_per_s, pod.net_tx_bytes_per_s) == (15, 30)
    assert pod.containers == (
        Container(
            id=CID,
            cpu_util_pct=pod.containers[0].cpu_util_pct,
            mem_used_bytes=5000,
            mem_limit_bytes=8000,
            io_read_bytes_per_s=152,
        ),
    )
    assert pod.containers[0].cpu_util_pct == pytest.approx(151.8)
    assert records.pods == [Pod(uid=UID, namespace="team", name="bert-0", node="gpu-b", phase="Running")]


def test_a_gpu_s_pod_by_cadvisor_or_by_kube_pod_info(server: Prometheus, page: MetricsPage) -> None:
    gpu = dcgm("gpu-b", util_pct=97, used_bytes=0, energy_j=0)
    page.text = gpu
    records = Records(server.url)
    records.until(lambda: records.gpus)
    assert records.gpus[-1].gpus[0].processes == (GpuProcess(pid=0),)
    page.text = gpu + cadvisor("gpu-b", cpu_s=1, ts_ms=round(time.time() * 1000))
    known = (GpuProcess(pid=0, pod_uid=UID, container_id=CID),)
    records.until(lambda: records.gpus[-1].gpus[0].processes == known)
    page.text = gpu + pod_info("bert-0", UID)
    server.wait_for("kube_pod_info", PATIENCE_S)
    others = Records(server.url)
    others.until(
        lambda: others.gpus and others.gpus[-1].gpus[0].processes == (GpuProcess(pid=0, pod_uid=UID),)
    )


def test_a_pod_without_a_uid_and_a_node_without_a_name_are_told(
    server: Prometheus, page: MetricsPage
) -> None:
    stranger = {"namespace": "team", "pod": "stranger", "container": "main", "node": "gpu-a"}
    page.text = line("container_memory_working_set_bytes", stranger, 5) + dcgm(
        "no name!", util_pct=1, used_bytes=0, energy_j=0
    )
    server.wait_for("DCGM_FI_DEV_GPU_UTIL", PATIENCE_S)
    records = Records(server.url)
    records.until(
        lambda: records.telemetry.count(ATTRIBUTION_FAILED) and records.telemetry.count(NOT_MEASURED)
    )
    assert (records.gpus, records.use) == ([], [])
    kinds = {("attribution_failed", ("no_uid",)), ("not_measured", ("node", "no_name"))}
    assert records.telemetry.counts.keys() == kinds


def test_prometheus_goes_away(prometheus: Start, page: MetricsPage) -> None:
    page.text = dcgm("gpu-a", util_pct=10, used_bytes=0, energy_j=0)
    server = prometheus(scrape([page.target], SCRAPE_S))
    records = Records(server.url)
    records.until(lambda: records.gpus)
    server.stop()
    seen = len(records.gpus)
    with pytest.raises(QueryError, match="does not answer"):
        records.tick()
    assert len(records.gpus) == seen
    assert records.telemetry.conditions == {}


class Scripted(Source):
    """A Prometheus that answers the query for GPUs from a script; None stands for a failure."""

    def __init__(self, *answers: list[tuple[int, float]] | None) -> None:
        self.answers = iter(answers)

    def samples(self, selector: str, seconds: float, deadline_s: float) -> list[Series]:
        if "DCGM" not in selector:
            raise QueryError("nothing else is asked for here")
        if (points := next(self.answers)) is None:
            raise QueryError("away")
        labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1", "gpu": "0", "Hostname": "gpu-a"}
        return [Series(labels, tuple(points))]

    def now(self, selector: str, deadline_s: float) -> list[Series]:
        return []

    def close(self) -> None:
        """Nothing is held."""


def test_after_an_outage_the_time_in_between_is_not_made_up_for() -> None:
    scripted = Scripted([(1000, 1)], [(1000, 1), (2000, 2)], None, [(60_000, 3)], [(60_000, 3), (61_000, 4)])
    collector = PrometheusCollector(scripted, Telemetry("test"), name_pods=False, retire_s=60)
    given: list[Any] = []
    for seq in range(5):
        tick = Tick(node="me", collector="c", seq=seq, ts_ms=0, interval_ms=1000, monotonic_s=seq)
        try:
            of = [decode(NvmlSample, one.payload or b"", one.topic) for one in collector.collect(tick)]
            given.append([(one.ts_ms, one.gpus[0].gpu_util_pct, one.interval_ms) for one in of])
        except QueryError:
            given.append("away")
    assert given == [[], [(2000, 2, 1000)], "away", [], [(61_000, 4, 1000)]]


def test_nothing_listens_there() -> None:
    with pytest.raises(QueryError, match=r"^http://127\.0\.0\.1:1 does not answer: .*refused"):
        Records("http://user:hunter2@127.0.0.1:1").tick()


@contextmanager
def answering(code: int, body: bytes, only: str = "") -> Iterator[str]:
    """A server that answers queries that contain ``only`` like this, and others with no samples."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fits = only in self.path
            self.send_response(code if fits else 200)
            text = body if fits else b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """A query is no news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://user:hunter2@127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (401, b"Unauthorized", r"refuses the credentials \(HTTP 401\): give them as DUTYCYCLE_PROMETHEUS="),
        (403, b"Forbidden", r"refuses the credentials \(HTTP 403\)"),
        (404, b"not found", r"is no Prometheus \(HTTP 404\): DUTYCYCLE_PROMETHEUS is the URL above /api/v1"),
        (422, b"too many samples", r"HTTP Status Code 422 .*too many samples"),
        (503, b"starting", r"HTTP Status Code 503"),
        (200, b"<html>login</html>", r"is no Prometheus \(its answer is no JSON\)"),
        (200, b"[]", r"is no Prometheus \(its answer holds no samples\)"),
        (200, b"{}", r"is no Prometheus \(its answer holds no samples\)"),
        (200, b'{"data":{"result":[{"metric":{}}]}}', r"is no Prometheus \(its answer holds no samples\)"),
    ],
)
def test_what_answers_is_no_help(code: int, body: bytes, says: str) -> None:
    with answering(code, body) as url:
        records = Records(url)
        with pytest.raises(QueryError, match=says) as caught:
            records.tick()
        records.collector.close()
    assert "hunter2" not in str(caught.value)
    assert records.telemetry.conditions == {}


def test_one_query_that_fails_is_told_and_the_others_go_on() -> None:
    with answering(422, b"too many samples", only="container_cpu") as url:
        records = Records(url)
        records.tick()
        records.tick()
        records.collector.close()
    assert [name for _, name in records.telemetry.conditions] == ["containers"]
    assert records.telemetry.count(PROMETHEUS_QUERY_FAILED) == 1
    assert "hunter2" not in str(records.telemetry.conditions)


def test_without_the_setting_there_is_no_collector() -> None:
    assert prometheus_collector(load({}), Telemetry("test"), name_pods=False) is None
