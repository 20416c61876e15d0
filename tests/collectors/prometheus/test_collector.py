"""Goal: the records of the nodes that a real Prometheus scrapes."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from collectors.prometheus.query import QueryError
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Allocation, Container
from dutycycle.contract.settings.secret import Secret
from dutycycle.telemetry.events import ATTRIBUTION_FAILED, NOT_MEASURED
from tests.support.data.prometheus_ticks import SCRAPE_S, Records, Start
from tests.support.fakes.exporter_pages import CID, UID, cadvisor, dcgm, line, old_dcgm, pod_info, pod_state
from tests.support.servers.exposition import MetricsPage, serve_metrics
from tests.support.servers.kafka.certificates import make_certificates
from tests.support.servers.prometheus import PASSWORD, USER, Prometheus, scrape


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
    server.wait_for("count(DCGM_FI_DEV_GPU_UTIL) == 2")
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
    raw = server.query("DCGM_FI_DEV_GPU_UTIL[1h]")[0]
    scraped = {round(float(at) * 1000) for at, _ in raw["values"]}
    assert len(set(times)) == len(times)
    assert times == sorted(times)
    assert set(times) <= scraped
    assert len({one.seq for one in records.gpus}) == len(times)
    steps = [one.interval_ms for one in records.gpus[1:]]
    assert steps == [after - before for before, after in pairwise(times)]


def test_the_past_is_not_given_out_as_new(server: Prometheus, page: MetricsPage) -> None:
    page.text = dcgm("gpu-a", util_pct=10, used_bytes=0, energy_j=0)
    server.wait_for("DCGM_FI_DEV_GPU_UTIL")
    page.text = dcgm("gpu-b", util_pct=10, used_bytes=0, energy_j=0)
    server.wait_for('DCGM_FI_DEV_GPU_UTIL{Hostname="gpu-b"}')
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
    server.wait_for("up == 0")
    records.tick()
    seen = len(records.gpus)
    scrapes = server.query("count_over_time(up[1m])")[0]["value"][1]
    server.wait_for(f"count_over_time(up[1m]) > {scrapes} + 3")
    records.tick()
    assert len(records.gpus) == seen
    page.text = both
    records.until(lambda: len(records.gpus) > seen)
    assert len(records.gpus[-1].gpus) == 2


def test_containers_with_rates_over_their_own_times(server: Prometheus, page: MetricsPage) -> None:
    start_ms = round(time.time() * 1000) - 20_000
    page.text = cadvisor("gpu-b", cpu_s=100, ts_ms=start_ms)
    records = Records(server.url)
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
            id=CID, cpu_util_pct=pod.containers[0].cpu_util_pct, mem_used_bytes=5000, mem_limit_bytes=8000,
            io_read_bytes_per_s=152,
        ),
    )  # fmt: skip
    assert pod.containers[0].cpu_util_pct == pytest.approx(151.8)
    own = JobRef(api_version="v1", kind="Pod", name="bert-0", uid=UID)
    assert records.pods == [
        Pod(uid=UID, namespace="team", name="bert-0", node="gpu-b", phase="Running", job=own)
    ]


def given(uid: str | None) -> Allocation:
    return Allocation(pod_uid=uid, namespace="team", pod="bert-0", container="main")


def test_a_gpu_s_pod_by_cadvisor_or_by_kube_pod_info(server: Prometheus, page: MetricsPage) -> None:
    gpu = dcgm("gpu-b", util_pct=97, used_bytes=0, energy_j=0)
    page.text = gpu
    records = Records(server.url)
    records.until(lambda: records.gpus)
    assert records.gpus[-1].gpus[0].allocated == (given("name:team/bert-0"),)
    page.text = gpu + cadvisor("gpu-b", cpu_s=1, ts_ms=round(time.time() * 1000))
    records.until(lambda: records.gpus[-1].gpus[0].allocated == (given(UID),))
    page.text = gpu + pod_info("bert-0", UID)
    server.wait_for("kube_pod_info")
    others = Records(server.url)
    others.until(lambda: others.gpus and others.gpus[-1].gpus[0].allocated == (given(UID),))


def test_values_that_are_no_numbers_are_told(server: Prometheus, page: MetricsPage) -> None:
    gpu = dcgm("gpu-a", util_pct=50, used_bytes=0, energy_j=0)
    util = next(row for row in gpu.splitlines() if row.startswith("DCGM_FI_DEV_GPU_UTIL{"))
    page.text = gpu.replace(util, util.rsplit(" ", 1)[0] + " +Inf")
    server.wait_for("DCGM_FI_DEV_GPU_UTIL")
    records = Records(server.url)
    records.until(lambda: records.gpus and records.telemetry.count(NOT_MEASURED))
    assert records.gpus[0].gpus[0].gpu_util_pct is None
    assert records.telemetry.counts.keys() == {("not_measured", ("prometheus", "no_number"))}


def test_a_pod_without_a_uid_and_a_node_without_a_name_are_told(
    server: Prometheus, page: MetricsPage
) -> None:
    stranger = {"namespace": "team", "pod": "stranger", "container": "main", "node": "gpu-a"}
    page.text = (
        line("container_memory_working_set_bytes", stranger, 5)
        + dcgm("no name!", util_pct=1, used_bytes=0, energy_j=0)
        + pod_info("bert-0", UID)
    )
    server.wait_for("DCGM_FI_DEV_GPU_UTIL")
    records = Records(server.url)
    records.until(
        lambda: records.telemetry.count(ATTRIBUTION_FAILED) and records.telemetry.count(NOT_MEASURED)
    )
    assert (records.gpus, records.use) == ([], [])
    kinds = {("attribution_failed", ("no_uid",)), ("not_measured", ("node", "no_name"))}
    assert records.telemetry.counts.keys() == kinds


def test_an_old_exporter_and_kube_state_metrics_are_enough(server: Prometheus, page: MetricsPage) -> None:
    page.text = old_dcgm() + pod_info("bert-0", UID) + pod_state("bert-0", UID, "Running", 1_700_000_003)
    server.wait_for("kube_pod_start_time")
    records = Records(server.url)
    records.until(lambda: records.gpus and records.pods)
    (gpu,) = records.gpus[-1].gpus
    assert records.gpus[-1].node == "127.0.0.1"  # it names no host, so the target's has to do
    assert (gpu.gpu_util_pct, gpu.mem_copy_util_pct, gpu.temp_c, gpu.power_w) == (88, 12, 34, 31.737)
    assert (gpu.energy_j, gpu.mem_total_bytes, gpu.allocated) == (7824.041, 16_160 * 2**20, (given(UID),))
    (pod,) = records.pods
    assert (pod.uid, pod.phase, pod.started_ms) == (UID, "Running", 1_700_000_003_000)
    assert (pod.gpu_request, pod.cpu_request, pod.mem_request_bytes, pod.cpu_limit) == (1, 4, 2**30, None)
    page.text = old_dcgm() + pod_info("bert-0", UID) + pod_state("bert-0", UID, "Succeeded", 1_700_000_003)
    server.wait_for('kube_pod_status_phase{phase="Succeeded"} == 1')
    later = Records(server.url)
    later.until(lambda: later.pods)
    assert later.pods[-1].phase == "Succeeded"


def test_two_replicas_are_read_as_one(prometheus: Start, page: MetricsPage) -> None:
    """What Thanos shows of two servers that scrape the same targets."""
    page.text = dcgm("gpu-a", util_pct=10, used_bytes=0, energy_j=0) + cadvisor(
        "gpu-a", cpu_s=1, ts_ms=round(time.time() * 1000)
    )
    config = scrape([page.target], SCRAPE_S)
    (job,) = config["scrape_configs"]
    config["scrape_configs"] = [
        job | {"job_name": name, "honor_labels": True, "relabel_configs": [
            {"target_label": "job", "replacement": "dcgm"},
            {"target_label": "prometheus_replica", "replacement": f"prometheus-{name}"},
        ]} for name in "ab"
    ]  # fmt: skip
    server = prometheus(config)
    server.wait_for("count(DCGM_FI_DEV_GPU_UTIL) == 2")
    records = Records(server.url)
    records.until(lambda: len(records.gpus) >= 8)
    steps = [after.ts_ms - before.ts_ms for before, after in pairwise(records.gpus)]
    # On a busy machine a replica may miss a scrape, which the other has, or be late with one.
    replicas = server.query("DCGM_FI_DEV_GPU_UTIL[1h]")
    scraped = [[round(float(at) * 1000) for at, _ in raw["values"]] for raw in replicas]
    shortest = min(after - before for times in scraped for before, after in pairwise(times))
    assert min(steps) >= min(shortest, SCRAPE_S * 1000 / 2)
    assert {sample.ts_ms for sample in records.gpus} <= {ts_ms for times in scraped for ts_ms in times}


def test_tls_and_a_password(prometheus: Start, page: MetricsPage, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    page.text = dcgm("gpu-a", util_pct=10, used_bytes=0, energy_j=0)
    server = prometheus(scrape([page.target], SCRAPE_S), certificates=certificates)
    ca = str(certificates.authority)
    with pytest.raises(QueryError, match=r"no TLS: .*DUTYCYCLE_PROMETHEUS_CA"):
        Records(server.url).tick()
    with pytest.raises(QueryError, match=r"HTTP 401\): give DUTYCYCLE_PROMETHEUS_USERNAME"):
        Records(server.url, prometheus_ca=ca).tick()
    records = Records(
        server.url, prometheus_ca=ca, prometheus_username=USER, prometheus_password=Secret(PASSWORD)
    )
    records.until(lambda: records.gpus)
    assert records.gpus[0].node == "gpu-a"
