"""Goal: exporters' metrics become the same fields as a node's own collectors measure; unknown is absent."""

from typing import Any

import pytest

from collectors.base import Tick
from collectors.prometheus_containers import pods
from collectors.prometheus_gpus import SELECTOR, gpus
from collectors.prometheus_host import from_node_exporter, from_root_cgroup
from collectors.prometheus_labels import Places, Workload, gpu_workload_of, node_of, workload_of
from collectors.prometheus_records import by_node, cgroup_samples, host_names, nvml_samples
from collectors.prometheus_series import Newest, News, Series, parse_matrix
from wire.samples import Container, Gpu, GpuProcess, Host, MigDevice, PodCgroup

UID = "11111111-2222-3333-4444-555555555555"
OTHER_UID = "99999999-2222-3333-4444-555555555555"
CID = "c" * 64
SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
IN_POD = {
    "id": f"{SLICE}/cri-containerd-{CID}.scope",
    "namespace": "team",
    "pod": "bert-0",
    "container": "main",
}
SANDBOX = {"id": f"{SLICE}/cri-containerd-{'5' * 64}.scope", "namespace": "team", "pod": "bert-0"}
TICK = Tick(node="me", collector="c", seq=7, ts_ms=1, interval_ms=1000, monotonic_s=0)


def news(name: str, value: float, per_s: float | None = None, ts_ms: int = 1000, /, **labels: str) -> News:
    return News({"__name__": name, **labels}, ts_ms, value, 15_000 if per_s is not None else None, per_s)


def dcgm(name: str, value: float, /, **labels: str) -> News:
    return news(
        f"DCGM_FI_{name}", value, **({"gpu": "0", "UUID": "GPU-1", "modelName": "NVIDIA H200"} | labels)
    )


def gpu(**fields: Any) -> Gpu:
    return Gpu(uuid="GPU-1", index=0, model="NVIDIA H200", **fields)


@pytest.mark.parametrize(
    ("name", "value", "fields"),
    [
        ("DEV_GPU_UTIL", 97, {"gpu_util_pct": 97}),
        ("DEV_GPU_UTIL", 0, {"gpu_util_pct": 0}),
        ("DEV_GPU_UTIL", 101, {"gpu_util_pct": 100}),
        ("DEV_MEM_COPY_UTIL", 41, {"mem_copy_util_pct": 41}),
        ("DEV_FB_USED", 1000, {"mem_used_bytes": 1_048_576_000}),
        ("DEV_POWER_USAGE", 612.3, {"power_w": 612.3}),
        ("DEV_POWER_MGMT_LIMIT", 700, {"power_limit_w": 700}),
        ("DEV_TOTAL_ENERGY_CONSUMPTION", 918_273_100, {"energy_j": 918_273.1}),
        ("DEV_GPU_TEMP", 61, {"temp_c": 61}),
        ("DEV_SM_CLOCK", 1980, {"sm_clock_mhz": 1980}),
        ("DEV_MEM_CLOCK", 3201, {"mem_clock_mhz": 3201}),
        ("DEV_PCIE_LINK_GEN", 5, {"pcie_gen": 5}),
        ("DEV_PCIE_LINK_WIDTH", 16, {"pcie_width": 16}),
        ("PROF_PCIE_RX_BYTES", 1e9, {"pcie_rx_bytes_per_s": 10**9}),
        ("PROF_PCIE_TX_BYTES", 0, {"pcie_tx_bytes_per_s": 0}),
        ("DEV_CLOCK_THROTTLE_REASONS", 4, {"throttle": ("sw_power_cap",)}),
        ("DEV_CLOCKS_EVENT_REASONS", 0, {"throttle": ()}),
    ],
)
def test_a_field_of_dcgm(name: str, value: float, fields: dict[str, Any]) -> None:
    assert gpus([dcgm(name, value)], Places()) == (gpu(**fields),)
    assert f"DCGM_FI_{name}" in SELECTOR


@pytest.mark.parametrize("blank", [2147483632, 2147483635, 140737488355328, 2.0**63, -1])
@pytest.mark.parametrize("name", ["DEV_GPU_UTIL", "DEV_FB_USED", "DEV_POWER_USAGE", "DEV_GPU_TEMP"])
def test_a_value_that_dcgm_does_not_have_is_absent(name: str, blank: float) -> None:
    assert gpus([dcgm(name, blank), dcgm("DEV_SM_CLOCK", 1)], Places()) == (gpu(sm_clock_mhz=1),)
    assert gpus([dcgm(name, blank)], Places()) == ()


@pytest.mark.parametrize(
    ("mib", "used", "total"),
    [
        ({"FB_USED": 1, "FB_FREE": 3}, 1, 4),
        ({"FB_USED": 1, "FB_FREE": 3, "FB_RESERVED": 1}, 1, 5),
        ({"FB_USED": 1}, 1, None),
        ({"FB_FREE": 3}, None, None),
    ],
)
def test_memory(mib: dict[str, int], used: int | None, total: int | None) -> None:
    (found,) = gpus([dcgm(f"DEV_{name}", value) for name, value in mib.items()], Places())
    assert found.mem_used_bytes == (None if used is None else used * 2**20)
    assert found.mem_total_bytes == (None if total is None else total * 2**20)


def test_gpus_are_ordered_by_index_and_one_without_a_number_is_left_out() -> None:
    found = gpus(
        [
            dcgm("DEV_GPU_UTIL", 1, gpu="10", UUID="GPU-10"),
            dcgm("DEV_GPU_UTIL", 2, gpu="2", UUID="GPU-2"),
            dcgm("DEV_GPU_UTIL", 3, gpu="x", UUID="GPU-x"),
            dcgm("DEV_GPU_UTIL", 3, gpu="3", UUID=""),
        ],
        Places(),
    )
    assert [(one.index, one.uuid, one.gpu_util_pct) for one in found] == [(2, "GPU-2", 2), (10, "GPU-10", 1)]


def test_mig_slices_do_not_speak_for_their_gpu() -> None:
    mig = {"GPU_I_ID": "7", "GPU_I_PROFILE": "1g.18gb"}
    (found,) = gpus(
        [
            dcgm("DEV_FB_USED", 100),
            dcgm("DEV_FB_USED", 3, **mig),
            dcgm("DEV_FB_FREE", 5, **mig),
            dcgm("PROF_GR_ENGINE_ACTIVE", 0.5, **mig),
        ],
        Places(),
    )
    piece = MigDevice(
        uuid="MIG-GPU-1/7/0", profile="1g.18gb", mem_used_bytes=3 * 2**20, mem_total_bytes=8 * 2**20,
        gpu_util_pct=50,
    )  # fmt: skip
    assert found == gpu(mem_used_bytes=100 * 2**20, mig=(piece,))


def pod_info(name: str, uid: str, **labels: str) -> Series:
    return Series({"__name__": "kube_pod_info", "namespace": "team", "pod": name, "uid": uid, **labels}, ())


@pytest.mark.parametrize(
    ("labels", "users"),
    [
        ([{}], None),
        ([{"namespace": "team", "pod": "bert-0", "container": "main"}], [(UID, CID)]),
        ([{"namespace": "team", "pod": "bert-0", "container": "other"}], [(UID, None)]),
        (
            [
                {
                    "exported_namespace": "team", "exported_pod": "bert-0", "exported_container": "main",
                    "namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x",
                    "container": "nvidia-dcgm-exporter",
                }
            ],
            [(UID, CID)],
        ),
        ([{"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x", "container": "exporter"}], None),
        (
            [{"namespace": "team", "pod": "bert-0"}, {"namespace": "team", "pod": "bert-1"}],
            [(UID, None), (OTHER_UID, None)],
        ),
        ([{"namespace": "team", "pod": "stranger"}], [(None, None)]),
        (
            [{"namespace": "team", "pod": "bert-0"}, {"namespace": "team", "pod": "stranger"}],
            [(UID, None), (None, None)],
        ),
    ],
)  # fmt: skip
def test_the_pods_that_a_gpu_was_given_to(labels: list[dict[str, str]], users: Any) -> None:
    places = Places()
    places.learn_pods([pod_info("bert-0", UID), pod_info("bert-1", OTHER_UID)])
    places.learn_containers([news("container_memory_working_set_bytes", 1, **IN_POD)])
    (found,) = gpus([dcgm("DEV_GPU_UTIL", 5, **one) for one in labels], places)
    expected = users and tuple(GpuProcess(pid=0, pod_uid=uid, container_id=cid) for uid, cid in users)
    assert found.processes == expected


@pytest.mark.parametrize(
    ("labels", "who"),
    [
        ({}, None),
        ({"namespace": "n", "pod": "p", "container": "c"}, Workload("n", "p", "c")),
        ({"namespace": "n", "pod": "p", "container": "POD"}, Workload("n", "p")),
        ({"namespace": "a", "pod": "b", "exported_namespace": "n", "exported_pod": "p"}, Workload("n", "p")),
        (
            {
                "container_label_io_kubernetes_pod_name": "p",
                "container_label_io_kubernetes_pod_namespace": "n",
                "container_label_io_kubernetes_container_name": "c", "pod": "cadvisor-x",
            },
            Workload("n", "p", "c"),
        ),
    ],
)  # fmt: skip
def test_whose_series_it_is(labels: dict[str, str], who: Workload | None) -> None:
    assert workload_of(labels) == who
    assert gpu_workload_of(labels) == who


@pytest.mark.parametrize(
    ("labels", "host_name", "node"),
    [
        ({"node": "a", "Hostname": "b", "instance": "c:1"}, "", "a"),
        ({"Hostname": "b", "instance": "c:1"}, "", "b"),
        ({"hostname": "b", "instance": "c:1"}, "", "b"),
        ({"instance": "c:1"}, "d", "d"),
        ({"instance": "10.0.0.1:9400"}, "", "10.0.0.1"),
        ({}, "", ""),
    ],
)
def test_the_node_of_a_series(labels: dict[str, str], host_name: str, node: str) -> None:
    assert node_of(labels, host_name) == node


def test_a_pod_and_its_containers() -> None:
    (found,) = pods(
        [
            news("container_cpu_usage_seconds_total", 9, 1.518, cpu="total", **IN_POD),
            news("container_memory_working_set_bytes", 5000, **IN_POD),
            news("container_spec_memory_limit_bytes", 8000, **IN_POD),
            news("container_cpu_cfs_periods_total", 9, 10, **IN_POD),
            news("container_cpu_cfs_throttled_periods_total", 9, 1, **IN_POD),
            news("container_fs_reads_bytes_total", 9, 100, device="/dev/sda", **IN_POD),
            news("container_fs_reads_bytes_total", 9, 50, device="/dev/sdb", **IN_POD),
            news("container_fs_writes_bytes_total", 9, 7.4, device="/dev/sda", **IN_POD),
            news("container_memory_working_set_bytes", 300, **SANDBOX),
            news("container_memory_working_set_bytes", 5300, id=SLICE, namespace="team", pod="bert-0"),
            news("container_network_receive_bytes_total", 9, 10, interface="eth0", **SANDBOX),
            news("container_network_receive_bytes_total", 9, 30, interface="net1", **SANDBOX),
            news("container_network_receive_bytes_total", 9, 999, interface="lo", **SANDBOX),
            news("container_network_transmit_bytes_total", 9, 20, interface="eth0", **SANDBOX),
            news("container_memory_working_set_bytes", 77, id="/system.slice/sshd.service"),
            news("container_memory_working_set_bytes", 99, id="/"),
        ],
        Places(),
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
    of = [news("container_cpu_usage_seconds_total", 9, **IN_POD)]
    of += [news("container_spec_memory_limit_bytes", limit, **IN_POD)] if limit is not None else []
    (found,) = pods(of, Places())
    assert found.containers == (Container(id=CID),)


@pytest.mark.parametrize(("periods", "share"), [(0, 0), (4, 50)])
def test_throttling_of_a_container_with_a_cpu_limit(periods: float, share: float) -> None:
    of = [
        news("container_cpu_cfs_periods_total", 9, periods, **IN_POD),
        news("container_cpu_cfs_throttled_periods_total", 9, 2 if periods else 0, **IN_POD),
    ]
    (found,) = pods(of, Places())
    assert found.containers[0].cpu_throttled_pct == share


def test_cpu_of_each_core_is_summed() -> None:
    (found,) = pods(
        [news("container_cpu_usage_seconds_total", 9, 0.5, cpu=f"cpu0{n}", **IN_POD) for n in range(3)],
        Places(),
    )
    assert found.containers[0].cpu_util_pct == 150


def test_without_paths_the_uid_comes_from_kube_pod_info() -> None:
    places = Places()
    labels = {"namespace": "team", "pod": "bert-0", "container": "main", "name": CID}
    of = [news("container_memory_working_set_bytes", 1, **labels)]
    assert list(pods(of, places)) == []
    places.learn_pods([pod_info("bert-0", UID), pod_info("nameless", "")])
    assert list(pods(of, places)) == [PodCgroup(uid=UID, containers=(Container(id=CID, mem_used_bytes=1),))]


def test_a_pod_on_the_host_s_network_has_none_of_its_own() -> None:
    places = Places()
    places.learn_pods([pod_info("bert-0", UID, host_network="true")])
    of = [news("container_network_receive_bytes_total", 9, 10, interface="eth0", **SANDBOX)]
    assert list(pods(of, places)) == [PodCgroup(uid=UID, qos="burstable")]


def test_a_host_by_node_exporter() -> None:
    idle = [
        news("node_cpu_seconds_total", 9, rate, cpu=str(cpu), mode=mode)
        for cpu in range(4)
        for mode, rate in (("idle", 0.6), ("iowait", 0.1), ("steal", 0.05))
    ]
    others = [
        news("node_memory_MemTotal_bytes", 1000),
        news("node_memory_MemAvailable_bytes", 400),
        news("node_disk_read_bytes_total", 9, 10, device="nvme0n1"),
        news("node_disk_read_bytes_total", 9, 5, device="sda"),
        news("node_disk_read_bytes_total", 9, 15, device="dm-0"),
        news("node_disk_written_bytes_total", 9, 1, device="sda"),
        news("node_network_receive_bytes_total", 9, 70, device="ens3"),
        news("node_network_receive_bytes_total", 9, 70, device="veth12"),
        news("node_network_receive_bytes_total", 9, 8, device="lo"),
        news("node_network_transmit_bytes_total", 9, 60, device="ens3"),
    ]
    rest = Host(
        cpu_count=4, mem_used_bytes=600, mem_total_bytes=1000, disk_read_bytes_per_s=15,
        disk_write_bytes_per_s=1, net_rx_bytes_per_s=70, net_tx_bytes_per_s=60,
    )  # fmt: skip
    found = from_node_exporter([*idle, *others])
    assert found.cpu_util_pct == pytest.approx(100)
    assert {**_plain(found), "cpu_util_pct": None} == _plain(rest)
    began_anew = news("node_cpu_seconds_total", 0, None, cpu="0", mode="irq")
    assert from_node_exporter([*idle, began_anew]).cpu_util_pct is None


def _plain(host: Host) -> dict[str, Any]:
    return {name: getattr(host, name) for name in Host.__slots__}


def test_a_host_by_its_root_cgroup() -> None:
    found = from_root_cgroup(
        [
            news("container_cpu_usage_seconds_total", 9, 8.125, id="/", cpu="total"),
            news("container_memory_working_set_bytes", 600, id="/"),
            news("container_network_receive_bytes_total", 9, 70, id="/", interface="eth0"),
            news("container_network_receive_bytes_total", 9, 70, id="/", interface="cni0"),
            news("container_memory_working_set_bytes", 5, **IN_POD),
            news("machine_cpu_cores", 64),
            news("machine_memory_bytes", 1000),
        ]
    )
    assert found == Host(
        cpu_util_pct=812.5, cpu_count=64, mem_used_bytes=600, mem_total_bytes=1000, net_rx_bytes_per_s=70
    )


def test_each_node_has_its_record_with_its_own_time() -> None:
    of = [
        dcgm("DEV_GPU_UTIL", 1, Hostname="a"),
        News(dcgm("DEV_GPU_UTIL", 2, Hostname="b", UUID="GPU-2").labels, 2500, 2, 5000),
        dcgm("DEV_GPU_UTIL", 3, Hostname="no name!"),
    ]
    nodes = by_node(of, {}, 1000)
    assert [one.value for one in nodes.pop("")] == [3]
    found = {one.node: one for one in nvml_samples(nodes, Places(), TICK)}
    assert {node: (one.ts_ms, one.interval_ms, one.seq) for node, one in found.items()} == {
        "a": (1000, 1000, 7),
        "b": (2500, 5000, 7),
    }


def test_a_record_is_of_one_moment() -> None:
    of = [
        dcgm("DEV_GPU_UTIL", 1, Hostname="a"),
        News(dcgm("DEV_GPU_UTIL", 2, Hostname="a", UUID="GPU-2").labels, 2500, 2),
        News(dcgm("DEV_GPU_UTIL", 3, Hostname="a", UUID="GPU-3").labels, 1500, 3),
    ]
    assert [one.value for one in by_node(of, {}, 1000)["a"]] == [2, 3]


def test_node_exporter_speaks_for_the_hosts_that_it_knows() -> None:
    root = {"id": "/", "node": "a"}
    containers = by_node(
        [
            news("container_memory_working_set_bytes", 5, **root),
            news("container_memory_working_set_bytes", 5, **(root | {"node": "b"})),
        ],
        {},
        1000,
    )
    hosts = {"a": (), "c": [news("node_memory_MemTotal_bytes", 9, None, 3000)], "d": ()}
    found = {one.node: one for one in cgroup_samples(containers, hosts, Places(), TICK)}
    assert {
        node: (one.host.mem_used_bytes, one.host.mem_total_bytes, one.ts_ms) for node, one in found.items()
    } == {
        "b": (5, None, 1000),
        "c": (None, 9, 3000),
    }


def test_the_host_name_of_a_node_exporter() -> None:
    target = {"job": "node", "instance": "10.0.0.1:9100"}
    names = host_names([Series({"__name__": "node_uname_info", "nodename": "gpu-a", **target}, ())])
    assert by_node([news("node_memory_MemTotal_bytes", 1, **target)], names, 0).keys() == {"gpu-a"}
    assert by_node([news("node_memory_MemTotal_bytes", 1, **target)], {}, 0).keys() == {"10.0.0.1"}


def matrix(*points: tuple[float, str], **labels: str) -> list[Series]:
    return parse_matrix(
        [{"metric": {"__name__": "m", **labels}, "values": [list(point) for point in points]}]
    )


def test_a_sample_is_news_once() -> None:
    newest = Newest()
    assert newest.of(matrix((10.0, "5"))) == [News({"__name__": "m"}, 10_000, 5)]
    assert newest.of(matrix((10.0, "5"))) == []
    assert newest.of(matrix((10.0, "5"), (25.5, "36"))) == [News({"__name__": "m"}, 25_500, 36, 15_500, 2)]
    assert newest.of(matrix((25.5, "36"))) == []
    assert newest.of([]) == []


@pytest.mark.parametrize(
    ("points", "per_s"),
    [
        ([(1, "10"), (3, "20")], 5),
        ([(1, "10"), (2, "10")], 0),
        ([(1, "10"), (2, "9")], None),
        ([(1, "10")], None),
        ([(1, "10"), (2, "NaN"), (3, "20")], 5),
    ],
)
def test_the_growth_of_a_counter(points: list[tuple[float, str]], per_s: float | None) -> None:
    assert [one.per_s for one in Newest().of(matrix(*points))] == [per_s]


@pytest.mark.parametrize("points", [[], [(1.0, "NaN")], [(1.0, "+Inf")]])
def test_what_is_no_number_is_no_news(points: list[tuple[float, str]]) -> None:
    assert Newest().of(matrix(*points)) == []


def test_series_that_ended_are_forgotten() -> None:
    newest = Newest()
    newest.of(matrix((0, "1"), of="old"))
    newest.of(matrix((899, "1")))
    assert newest.of(matrix((0, "1"), of="old")) == []
    newest.of(matrix((900, "1")))
    assert len(newest.of(matrix((0, "1"), of="old"))) == 1
