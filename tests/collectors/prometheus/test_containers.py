"""Goal: cAdvisor's and node_exporter's metrics become the fields that a node's own collector measures."""

import pytest
from msgspec import structs

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.containers import CPU, MEMORY, pod_cgroups
from collectors.prometheus.host import from_node_exporter, from_root_cgroup
from collectors.prometheus.identity.pods import PodIndex
from collectors.prometheus.series import NewSample, ScrapedSeries
from dutycycle.contract.records.samples import Container, Host, PodCgroup
from tests.support.data.prometheus_samples import CID, IN_POD, SANDBOX, SLICE, UID, pod_info, sample


def test_a_pod_and_its_containers() -> None:
    (found,) = pod_cgroups(
        [
            sample("container_cpu_usage_seconds_total", 9, 1.518, cpu="total", **IN_POD),
            sample("container_memory_working_set_bytes", 5000, **IN_POD),
            sample("container_spec_memory_limit_bytes", 8000, **IN_POD),
            sample("container_cpu_cfs_periods_total", 9, 10, **IN_POD),
            sample("container_cpu_cfs_throttled_periods_total", 9, 1, **IN_POD),
            sample("container_fs_reads_bytes_total", 9, 100, device="/dev/sda", **IN_POD),
            sample("container_fs_reads_bytes_total", 9, 50, device="/dev/sdb", **IN_POD),
            sample("container_fs_reads_bytes_total", 9, 150, device="/dev/dm-0", **IN_POD),
            sample("container_fs_writes_bytes_total", 9, 7.4, device="/dev/sda", **IN_POD),
            sample("container_memory_working_set_bytes", 300, **SANDBOX),
            sample("container_memory_working_set_bytes", 5300, id=SLICE, namespace="team", pod="bert-0"),
            sample("container_network_receive_bytes_total", 9, 10, interface="eth0", **SANDBOX),
            sample("container_network_receive_bytes_total", 9, 30, interface="net1", **SANDBOX),
            sample("container_network_receive_bytes_total", 9, 999, interface="lo", **SANDBOX),
            sample("container_network_transmit_bytes_total", 9, 20, interface="eth0", **SANDBOX),
            sample("container_memory_working_set_bytes", 77, id="/system.slice/sshd.service"),
            sample("container_memory_working_set_bytes", 99, id="/"),
        ],
        PodIndex(),
    )
    container = Container(
        id=CID, cpu_util_pct=151.8, cpu_throttled_pct=10, mem_used_bytes=5000, mem_limit_bytes=8000,
        io_read_bytes_per_s=150, io_write_bytes_per_s=7,
    )  # fmt: skip
    assert found == PodCgroup(
        uid=UID, qos="burstable", net_rx_bytes_per_s=40, net_tx_bytes_per_s=20, containers=(container,)
    )


@pytest.mark.parametrize("limit", [0, 2.0**63 - 4096, None])
def test_a_container_without_limits_and_rates(limit: float | None) -> None:
    of = [sample("container_cpu_usage_seconds_total", 9, **IN_POD)]
    of += [sample("container_spec_memory_limit_bytes", limit, **IN_POD)] if limit is not None else []
    (found,) = pod_cgroups(of, PodIndex())
    assert found.containers == (Container(id=CID),)


@pytest.mark.parametrize(("periods", "throttled", "share"), [(0, 0, 0), (4, 2, 50), (4, 5, 100)])
def test_throttling_of_a_container_with_a_cpu_limit(periods: float, throttled: float, share: float) -> None:
    of = [
        sample("container_cpu_cfs_periods_total", 9, periods, **IN_POD),
        sample("container_cpu_cfs_throttled_periods_total", 9, throttled, **IN_POD),
    ]
    (found,) = pod_cgroups(of, PodIndex())
    assert found.containers[0].cpu_throttled_pct == share


def test_cpu_of_each_core_is_summed() -> None:
    (found,) = pod_cgroups(
        [sample("container_cpu_usage_seconds_total", 9, 0.5, cpu=f"cpu0{n}", **IN_POD) for n in range(3)],
        PodIndex(),
    )
    assert found.containers[0].cpu_util_pct == 150


def test_without_paths_the_uid_comes_from_kube_pod_info() -> None:
    pod_index = PodIndex()
    labels = {"namespace": "team", "pod": "bert-0", "container": "main", "name": CID}
    of = [sample("container_memory_working_set_bytes", 1, **labels)]
    (unknown,) = pod_cgroups(of, pod_index)
    assert unknown.uid == "name:team/bert-0"
    pod_index.learn_pods([pod_info("bert-0", UID), pod_info("nameless", "")])
    assert list(pod_cgroups(of, pod_index)) == [
        PodCgroup(uid=UID, containers=(Container(id=CID, mem_used_bytes=1),))
    ]


def test_a_pod_on_the_host_s_network_has_none_of_its_own() -> None:
    pod_index = PodIndex()
    pod_index.learn_pods([pod_info("bert-0", UID, host_network="true")])
    of = [sample("container_network_receive_bytes_total", 9, 10, interface="eth0", **SANDBOX)]
    for answer in ([], [pod_info("other", "u2", host_network="false")]):
        assert list(pod_cgroups(of, pod_index)) == [PodCgroup(uid=UID, qos="burstable")]
        pod_index.learn_pods(answer)  # kube-state-metrics is away for a while
    assert list(pod_cgroups(of, pod_index)) == [PodCgroup(uid=UID, qos="burstable")]


def test_a_host_by_node_exporter() -> None:
    idle = [
        sample("node_cpu_seconds_total", 9, rate, cpu=str(cpu), mode=mode)
        for cpu in range(4)
        for mode, rate in (("idle", 0.6), ("iowait", 0.1), ("steal", 0.05))
    ]
    others = [
        sample("node_memory_MemTotal_bytes", 1000),
        sample("node_memory_MemAvailable_bytes", 400),
        sample("node_disk_read_bytes_total", 9, 10, device="nvme0n1"),
        sample("node_disk_read_bytes_total", 9, 5, device="sda"),
        sample("node_disk_read_bytes_total", 9, 15, device="dm-0"),
        sample("node_disk_written_bytes_total", 9, 1, device="sda"),
        sample("node_network_receive_bytes_total", 9, 70, device="ens3"),
        sample("node_network_receive_bytes_total", 9, 70, device="veth12"),
        sample("node_network_receive_bytes_total", 9, 8, device="lo"),
        sample("node_network_transmit_bytes_total", 9, 60, device="ens3"),
    ]
    rest = Host(
        cpu_count=4, mem_used_bytes=600, mem_total_bytes=1000, disk_read_bytes_per_s=15,
        disk_write_bytes_per_s=1, net_rx_bytes_per_s=70, net_tx_bytes_per_s=60,
    )  # fmt: skip
    found = from_node_exporter([*idle, *others])
    assert found.cpu_util_pct == pytest.approx(100)
    assert {**structs.asdict(found), "cpu_util_pct": None} == structs.asdict(rest)
    began_anew = sample("node_cpu_seconds_total", 0, None, cpu="0", mode="irq")
    assert from_node_exporter([*idle, began_anew]).cpu_util_pct is None


def test_more_memory_available_than_there_is_tells_nothing_of_what_is_used() -> None:
    of = [sample("node_memory_MemTotal_bytes", 1000), sample("node_memory_MemAvailable_bytes", 1400)]
    assert from_node_exporter(of) == Host(mem_total_bytes=1000)


@pytest.mark.parametrize(
    ("name", "value", "counted"),
    [
        (MEMORY, 2.0**64 - 1, True),  # a working set that fell below zero
        (MEMORY, -1, True), (MEMORY, 5e9, False), ("machine_memory_bytes", 1e30, True),
        ("node_memory_MemAvailable_bytes", -1, True), (CPU, 1e40, True), (CPU, -5, True), (CPU, 1e9, False),
        ("node_network_speed_bytes", -125000, False),  # of a link whose speed is not known
        ("container_spec_memory_limit_bytes", 2.0**63 - 4096, False),
    ],
)  # fmt: skip
def test_what_no_machine_has_is_left_out_and_counted_once(name: str, value: float, counted: bool) -> None:
    reader, labels = AnswerReader(), {"__name__": name, "node": "gpu-a", **IN_POD}
    answers = {"containers": [ScrapedSeries(labels, ((1000, 7.0), (2000, value), (3000, 8.0)))]}
    for _ in range(2):
        (series,) = reader.read(answers)["containers"]
        assert len(series.points) == 3 - counted
    assert reader.no_numbers.total() == counted


def test_a_counter_that_grows_faster_than_a_machine_has_no_rate() -> None:
    of = [
        sample(CPU, 9, 1e15, cpu="total", **IN_POD),
        sample("container_fs_reads_bytes_total", 9, 1e15, **IN_POD),
    ]
    (found,) = pod_cgroups(of, PodIndex())
    assert found.containers == (Container(id=CID),)


def test_a_host_by_its_root_cgroup() -> None:
    found = from_root_cgroup(
        [
            sample("container_cpu_usage_seconds_total", 9, 8.125, id="/", cpu="total"),
            sample("container_memory_working_set_bytes", 600, id="/"),
            sample("container_network_receive_bytes_total", 9, 70, id="/", interface="eth0"),
            sample("container_network_receive_bytes_total", 9, 70, id="/", interface="cni0"),
            sample("container_memory_working_set_bytes", 5, **IN_POD),
            sample("machine_cpu_cores", 64),
            sample("machine_memory_bytes", 1000),
        ]
    )
    assert found == Host(
        cpu_util_pct=812.5, cpu_count=64, mem_used_bytes=600, mem_total_bytes=1000, net_rx_bytes_per_s=70
    )


POD_LEVEL = IN_POD | {"id": SLICE, "container": ""}


def read(*samples: NewSample) -> list[NewSample]:
    """The samples that an answer gives."""
    series = [ScrapedSeries(one.labels, ((one.ts_ms, one.value),)) for one in samples]
    kept = {id(one.labels) for one in AnswerReader().read({"containers": series})["containers"]}
    return [one for one in samples if id(one.labels) in kept]


def test_a_pod_of_which_only_its_own_cgroup_has_series_is_measured_by_it() -> None:
    cpu = sample(CPU, 7, 1.5, **POD_LEVEL, cpu="total")
    sandbox = sample(CPU, 7, 9.0, **SANDBOX, container="")
    (pod,) = pod_cgroups(read(cpu, sample(MEMORY, 5000, **POD_LEVEL), sandbox), PodIndex())
    assert pod.containers == (Container(id=UID, cpu_util_pct=150, mem_used_bytes=5000),)


def test_what_a_pod_s_cgroup_adds_up_is_not_added_again() -> None:
    inside = sample(CPU, 7, 1.5, **IN_POD, cpu="total")
    both = read(inside, sample(CPU, 9, 1.7, **POD_LEVEL, cpu="total"))
    assert both == [inside]
    (pod,) = pod_cgroups(both, PodIndex())
    assert [one.cpu_util_pct for one in pod.containers] == [150]


def test_what_is_inside_of_a_container_is_not_added_again() -> None:
    """Its own cgroup counts it; where that has no series, those inside of it tell."""
    inside = {**IN_POD, "id": f"{IN_POD['id']}/container"}
    both = read(sample(CPU, 7, 1.5, **IN_POD, cpu="total"), sample(CPU, 7, 1.4, **inside, cpu="total"))
    (pod,) = pod_cgroups(both, PodIndex())
    assert [container.cpu_util_pct for container in pod.containers] == [150]
    (pod,) = pod_cgroups(read(sample(CPU, 7, 1.4, **inside, cpu="total")), PodIndex())
    assert [container.cpu_util_pct for container in pod.containers] == [140]
