"""Goal: each sample goes out once, in its node's record, under the right names."""

from collections import Counter
from math import inf, nan

import pytest

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.dcgm.devices import GpuReader
from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.identity.exporters import Exporters
from collectors.prometheus.identity.labels import Workload, workload_of
from collectors.prometheus.identity.nodes import NodeNames
from collectors.prometheus.identity.pods import PodIndex
from collectors.prometheus.records import by_node, cgroup_samples, nvml_samples
from collectors.prometheus.series import (
    NewSample,
    ScrapeCursor,
    ScrapedSeries,
    parse_matrix,
    samples_after,
    without_replicas,
)
from tests.support.data.prometheus_samples import IN_POD, TICK, dcgm, pod_info, sample

READER = GpuReader(Vocabulary(), Exporters())


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
    assert Exporters().holder_of(labels) == who


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"node": "a", "Hostname": "b", "instance": "c:1"}, "a"),
        ({"kubernetes_node": "a", "Hostname": "b", "instance": "c:1"}, "a"),
        ({"Hostname": "b", "instance": "c:1"}, "b"),
        ({"hostname": "b", "instance": "c:1"}, "b"),
        ({"Hostname": "localhost", "instance": "c:1"}, "c"),
        ({"Hostname": "exporter-x", "pod": "exporter-x", "instance": "c:1"}, "c"),
        ({"Hostname": "exporter-y", "instance": "c:1"}, "gpu-b"),
        ({"Hostname": "gpu-b", "instance": "10.0.0.9:1"}, "gpu-b"),
        ({"Hostname": "10.0.0.9", "instance": "c:1"}, "gpu-b"),
        ({"Hostname": "fd00::5"}, "gpu-c"),
        ({"Hostname": "10.0.0.8", "instance": "c:1"}, "10.0.0.8"),
        ({"Hostname": "gpu-b.example.org"}, "gpu-b"),
        ({"Hostname": "gpu-d"}, "gpu-d.example.org"),
        ({"Hostname": "gpu-d.example.com"}, "gpu-d.example.com"),
        ({"Hostname": "gpu-e"}, "gpu-e"),
        ({"Hostname": "10"}, "10"),
        ({"Hostname": "GPU-B", "instance": "c:1"}, "gpu-b"),
        ({"Hostname": "GPU-D"}, "gpu-d.example.org"),
        ({"Hostname": "GPU-B.Example.org"}, "gpu-b"),
        ({"Hostname": "GPU-X", "instance": "c:1"}, "GPU-X"),
        ({"k8s_node_name": "a", "Hostname": "b"}, "a"),
        ({"node_name": "a", "Hostname": "b"}, "a"),
        ({"exported_node": "a", "node": "where-it-runs"}, "a"),
        ({"Hostname": "odd", "exported_pod": "bert-0", "pod": "exporter-y", "namespace": "team"}, "gpu-b"),
        ({"instance": "known:1", "job": "node"}, "d"),
        ({"instance": "domain:1", "job": "node"}, "gpu-b"),
        ({"instance": "in-a-pod:1", "job": "node"}, "gpu-b"),
        ({"instance": "local:1", "job": "node"}, "local"),
        ({"instance": "10.0.0.1:9400"}, "10.0.0.1"),
        ({"instance": "prometheus:9090", "exported_instance": "10.0.0.1:9400"}, "10.0.0.1"),
        ({"instance": "p:1", "job": "federate", "exported_instance": "known:1", "exported_job": "node"}, "d"),
        ({"instance": "10.0.0.9:10250"}, "gpu-b"),
        ({"instance": "[fd00::5]:9400"}, "gpu-c"),
        ({"instance": "[fd00::6]:9400"}, ""),
        ({"Hostname": "GPU-Node_01.corp.local."}, ""),
        ({}, ""),
    ],
)
def test_the_node_of_a_series(labels: dict[str, str], node: str) -> None:
    names = NodeNames()
    hosts = {"known": "d", "domain": "gpu-b.example.org", "in-a-pod": "exporter-y", "local": "localhost"}
    for at, nodename in hosts.items():
        target = {"instance": f"{at}:1", "job": "node"}
        names.learn_hosts(
            [ScrapedSeries({"__name__": "node_uname_info", "nodename": nodename, **target}, ())]
        )
    names.learn_pods(
        [
            pod_info("exporter-y", "u1", node="gpu-b", host_ip="10.0.0.9"),
            pod_info("exporter-z", "u2", node="gpu-c", pod_ip="fd00::5"),
            pod_info("any-1", "u3", node="gpu-d.example.org"),
            pod_info("any-2", "u4", node="gpu-e.example.org"),
            pod_info("any-3", "u5", node="gpu-e.example.com"),
            pod_info("any-4", "u6", node="10.0.0.7"),
        ]
    )
    assert names.name_of(labels, samples=7) == node
    assert names.refused.total() == (0 if node else 7)


def gpu_at(host: str, uuid: str, *times_ms: int, **labels: str) -> ScrapedSeries:
    of = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": uuid, "Hostname": host, **labels}
    return ScrapedSeries(of, tuple((ts_ms, 5.0) for ts_ms in times_ms))


@pytest.mark.parametrize(
    ("series", "nodes"),
    [
        ([gpu_at("pod-x", "GPU-1", 0, 1), gpu_at("pod-y", "GPU-1", 2, 3)], ["pod-x", "pod-x"]),
        ([gpu_at("pod-x", "GPU-1", 0, 1), gpu_at("pod-y", "GPU-2", 2, 3)], ["pod-x", "pod-y"]),
        ([gpu_at("a", "GPU-1", 0, 5), gpu_at("b", "GPU-1", 2, 7)], ["a", "b"]),
        ([gpu_at("a", "GPU-1", 0, 1), gpu_at("b", "GPU-1", 900_002)], ["a", "b"]),
        ([gpu_at("a", "GPU-1", 0, 1), gpu_at("gpu-b", "GPU-1", 2)], ["a", "gpu-b"]),
    ],
    ids=["replaced", "another", "at one time", "much later", "a node's name"],
)
def test_a_gpu_that_an_exporter_of_another_name_shows_has_not_moved(
    series: list[ScrapedSeries], nodes: list[str]
) -> None:
    names = NodeNames()
    names.learn_pods([pod_info("any", "u", node="gpu-b")])
    names.learn_gpus(series)
    assert [names.name_of(one.labels) for one in series] == nodes
    later = NodeNames()
    later.learn_pods([pod_info("any", "u", node="gpu-b")])
    later.restore(*names.snapshot())
    assert [later.name_of(one.labels) for one in series] == nodes


def test_each_node_has_its_record_with_its_own_time() -> None:
    of = [
        dcgm("DEV_GPU_UTIL", 1, Hostname="a"),
        NewSample(dcgm("DEV_GPU_UTIL", 2, Hostname="b", UUID="GPU-2").labels, 2500, 2, 5000),
        dcgm("DEV_GPU_UTIL", 3, Hostname="no name!"),
    ]
    nodes = by_node(of, NodeNames(), 1000)
    assert [one.value for one in nodes.pop("")] == [3]
    found = {one.node: one for one in nvml_samples(nodes, READER, PodIndex(), TICK)}
    assert {node: (one.ts_ms, one.interval_ms, one.seq) for node, one in found.items()} == {
        "a": (1000, 1000, 7),
        "b": (2500, 5000, 7),
    }


def test_a_record_is_of_one_moment() -> None:
    of = [
        dcgm("DEV_GPU_UTIL", 1, Hostname="a"),
        NewSample(dcgm("DEV_GPU_UTIL", 2, Hostname="a", UUID="GPU-2").labels, 2500, 2),
        NewSample(dcgm("DEV_GPU_UTIL", 3, Hostname="a", UUID="GPU-3").labels, 1500, 3),
    ]
    assert [one.value for one in by_node(of, NodeNames(), 1000)["a"]] == [2, 3]


def test_node_exporter_speaks_for_the_hosts_that_it_knows() -> None:
    root = {"id": "/", "node": "a"}
    containers = by_node(
        [
            sample("container_memory_working_set_bytes", 5, **root),
            sample("container_memory_working_set_bytes", 5, **(root | {"node": "b"})),
        ],
        NodeNames(),
        1000,
    )
    hosts = {"a": (), "c": [sample("node_memory_MemTotal_bytes", 9, None, 3000)], "d": ()}
    found = {one.node: one for one in cgroup_samples(containers, hosts, PodIndex(), TICK, Counter())}
    assert {
        node: (one.host.mem_used_bytes, one.host.mem_total_bytes, one.ts_ms) for node, one in found.items()
    } == {"b": (5, None, 1000), "c": (None, 9, 3000)}


@pytest.mark.parametrize("source", ["cadvisor", "node_exporter"])
@pytest.mark.parametrize(
    ("cores", "used", "kept"), [(7.9, 64, (790, 64)), (33_333.0, 64, (None, 64)), (2.0, 90_000, (200, None))]
)
def test_a_container_has_no_more_than_its_node(
    cores: float, used: float, kept: tuple[float | None, float | None], source: str
) -> None:
    """A counter that leaps for one scrape became hours of CPU in the ledger."""
    used_by_pod = [
        sample("container_cpu_usage_seconds_total", 5, cores, node="a", **IN_POD),
        sample("container_memory_working_set_bytes", used, node="a", **IN_POD),
    ]
    hosts = {}
    size = [sample("machine_cpu_cores", 4, node="a"), sample("machine_memory_bytes", 64, node="a")]
    if source == "node_exporter":
        memory = sample("node_memory_MemTotal_bytes", 64, node="a")
        size, hosts = (
            [],
            {"a": [memory, *(sample("node_cpu_seconds_total", 1, cpu=f"{n}") for n in range(4))]},
        )
    left_out = Counter[tuple[str, str]]()
    (one,) = cgroup_samples({"a": [*used_by_pod, *size]}, hosts, PodIndex(), TICK, left_out)
    (container,) = one.pods[0].containers
    assert (container.cpu_util_pct, container.mem_used_bytes) == kept
    assert left_out.total() == kept.count(None)


def test_the_host_name_of_a_node_exporter() -> None:
    target = {"job": "node", "instance": "10.0.0.1:9100"}
    names = NodeNames()
    names.learn_hosts([ScrapedSeries({"__name__": "node_uname_info", "nodename": "gpu-a", **target}, ())])
    assert by_node([sample("node_memory_MemTotal_bytes", 1, **target)], names, 0).keys() == {"gpu-a"}
    assert by_node([sample("node_memory_MemTotal_bytes", 1, **target)], NodeNames(), 0).keys() == {"10.0.0.1"}


def matrix(*points: tuple[float, str], **labels: str) -> list[ScrapedSeries]:
    return parse_matrix(
        [{"metric": {"__name__": "m", **labels}, "values": [list(point) for point in points]}]
    )


def test_a_sample_is_new_once() -> None:
    newest = ScrapeCursor()
    assert newest.of(matrix((10.0, "5"))) == [NewSample({"__name__": "m"}, 10_000, 5)]
    assert newest.of(matrix((10.0, "5"))) == []
    assert newest.of(matrix((10.0, "5"), (25.5, "36"))) == [
        NewSample({"__name__": "m"}, 25_500, 36, 15_500, 2)
    ]
    assert newest.of(matrix((25.5, "36"))) == []
    assert newest.of([]) == []


@pytest.mark.parametrize(
    ("points", "per_s"),
    [
        ([(1, "10"), (3, "20")], 5),
        ([(1, "10"), (2, "10")], 0),
        ([(1, "10"), (2, "9")], None),
        ([(1, "900"), (2, "0"), (3, "904")], None),  # the reading in between failed
        ([(1, "0"), (2, "0"), (3, "4")], 4),
        ([(1, "10")], None),
        ([(1, "10"), (2, "NaN"), (3, "20")], 5),
        ([(1, "10"), (3, "19"), (3, "20")], 5),  # of a store that two agents write to
        ([(1, "10"), (3, "20"), (3.0004, "20"), (3, "NaN")], 5),
    ],
)
def test_the_growth_of_a_counter(points: list[tuple[float, str]], per_s: float | None) -> None:
    assert [one.per_s for one in ScrapeCursor().of(matrix(*points))] == [per_s]


@pytest.mark.parametrize(("values", "per_s"), [("900 0 904", None), ("900 0 0 4", 4), ("900 0 904 905", 1)])
def test_a_counter_that_reads_0_and_comes_back_did_not_grow_by_all_of_it(values: str, per_s: float) -> None:
    """By scrape, and by a range."""
    points = [(float(second), value) for second, value in enumerate(values.split())]
    cursor, (series,) = ScrapeCursor(), matrix(*points)
    by_scrape = [sample.per_s for point in points for sample in cursor.of(matrix(point))]
    assert by_scrape == [sample.per_s for sample in samples_after(series, -1, 300_000)]
    assert by_scrape[-1] == per_s


@pytest.mark.parametrize("points", [[], [(1.0, "NaN")], [(1.0, "+Inf")]])
def test_what_is_no_number_is_no_news(points: list[tuple[float, str]]) -> None:
    assert ScrapeCursor().of(matrix(*points)) == []


def test_series_that_ended_are_forgotten() -> None:
    newest = ScrapeCursor()
    newest.of(matrix((0, "1"), of="old"))
    newest.of(matrix((899, "1")))
    assert newest.of(matrix((0, "1"), of="old")) == []
    newest.of(matrix((900, "1")))
    assert len(newest.of(matrix((0, "1"), of="old"))) == 1


A, B = {"prometheus_replica": "p-0"}, {"prometheus_replica": "p-1"}


def every(start: int, end: int, step: int = 15) -> list[tuple[int, float]]:
    return [(second * 1000, float(second)) for second in range(start, end, step)]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (every(0, 60), every(7, 60), every(0, 60)),
        (every(0, 60), [], every(0, 60)),
        ([], every(7, 60), every(7, 60)),
        (every(0, 31), every(7, 120), every(0, 31) + every(52, 120)),
        (every(0, 31) + every(120, 180), every(7, 120), every(0, 31) + every(52, 120) + every(135, 180)),
        (every(60, 120), every(7, 120), every(7, 120)),
        ([(0, 0.0)], [(1, 1.0)], [(0, 0.0), (1, 1.0)]),
        ([(0, 0.0)], [(0, 1.0)], [(0, 0.0)]),
    ],
    ids=["both", "first", "second", "hand over", "and back", "later", "a scrape each", "one moment"],
)  # fmt: skip
def test_replicas_are_one_series(
    a: list[tuple[int, float]], b: list[tuple[int, float]], expected: list[tuple[int, float]]
) -> None:
    found = without_replicas(
        [ScrapedSeries({"__name__": "m", **of}, tuple(points)) for of, points in ((B, b), (A, a))]
    )
    assert found == [ScrapedSeries({"__name__": "m"}, tuple(expected))]


@pytest.mark.parametrize(
    ("a", "b", "points", "told"),
    [
        ((nan, 2.0), (3.0, 4.0), [(60_000, 3), (120_000, 2)], {"nan": 1}),
        ((1.0, 2.0), (inf, 4.0), [(60_000, 1), (120_000, 2)], {"inf": 1}),
        ((1.0, nan), (3.0, -inf), [(60_000, 1)], {"nan": 1, "-inf": 1}),
        ((nan, nan), (inf, inf), [], {"nan": 2, "inf": 2}),
    ],
    ids=["of the first", "of the second", "of both", "all"],
)  # fmt: skip
def test_what_is_no_number_is_counted_of_each_replica(
    a: tuple[float, ...], b: tuple[float, ...], points: list[tuple[int, float]], told: dict[str, int]
) -> None:
    answer = parse_matrix(
        {"metric": {"__name__": "m", **of}, "values": [(60, str(first)), (120, str(second))]}
        for of, (first, second) in ((A, a), (B, b))
    )
    (found,) = without_replicas(answer)
    assert list(found.points) == points
    reader = AnswerReader()
    reader.read({"hosts": [found]})
    assert reader.no_numbers == {("m", text): count for text, count in told.items()}


def test_what_has_no_replica_stays_as_it_is() -> None:
    series = [ScrapedSeries({"__name__": "m", "n": name}, ((0, 1.0),)) for name in "ab"]
    assert without_replicas(series) == series


@pytest.mark.parametrize(
    "label", ["prometheus_replica", "__replica__", "__replica", "receive_replica", "replica"]
)
def test_any_label_that_ends_in_replica_tells_replicas_apart(label: str) -> None:
    series = [ScrapedSeries({"__name__": "m", label: name}, ((0, 1.0),)) for name in "ab"]
    assert without_replicas(series) == [ScrapedSeries({"__name__": "m"}, ((0, 1.0),))]
    others = [ScrapedSeries({"__name__": "m", f"{label}_index": name}, ((0, 1.0),)) for name in "ab"]
    assert without_replicas(others) == others


@pytest.mark.parametrize(
    "text", ["<<<NULL>>>", "<<<NOT_SUPPORTED>>>", "[N/A]", "N/A", "<none>", "<nil>", "<no value>"]
)
def test_a_text_that_dcgm_does_not_have_is_no_label(text: str) -> None:
    assert matrix((1, "2"), GPU_I_PROFILE=text, pod="p")[0].labels == {"__name__": "m", "pod": "p"}


def test_a_label_is_as_long_as_a_record_may_have_it() -> None:
    assert matrix((1, "2"), modelName="N" * 5000)[0].labels["modelName"] == "N" * 1024
    assert matrix((1, "2"), UUID="N" * 5000)[0].labels["UUID"] == "N" * 512
    assert matrix((1, "2"), container="ma\nin é\u200b")[0].labels["container"] == "ma?in é?"
