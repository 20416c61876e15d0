"""Goal: nodes, namespaces and pods of several clusters are never taken for one."""

import pytest

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.identity.clusters import Clusters, ClustersMixedError
from collectors.prometheus.identity.labels import namespace_of, workload_of
from collectors.prometheus.series import ScrapedSeries
from dutycycle.contract.settings.groups import PrometheusSettings


def gpu(uuid: str, *, start_ms: int = 0, **labels: str) -> ScrapedSeries:
    of = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": uuid, "Hostname": "node-1",
          "namespace": "team", "pod": "bert-0", "instance": f"{uuid}:9400", "job": "dcgm"}  # fmt: skip
    return ScrapedSeries(of | labels, ((start_ms, 1.0), (start_ms + 15_000, 1.0)))


def names(*series: ScrapedSeries, label: str | None = None) -> list[tuple[str, str]]:
    reader = AnswerReader(PrometheusSettings(prometheus_cluster=label))
    found = reader.read({"gpus": series})["gpus"]
    return [(reader.nodes.name_of(one.labels), namespace_of(one.labels)) for one in found]


@pytest.mark.parametrize("label", ["cluster", "k8s_cluster_name", "datacenter", "region", "__tenant_id__"])
def test_a_label_with_several_values_tells_clusters_apart(label: str) -> None:
    eu, us = gpu("GPU-eu"), gpu("GPU-us")
    series = (
        ScrapedSeries({**eu.labels, label: "eu"}, eu.points),
        ScrapedSeries({**us.labels, label: "us/1"}, us.points),
    )
    assert names(*series) == [("eu.node-1", "eu.team"), ("us-1.node-1", "us-1.team")]


@pytest.mark.parametrize(("one", "other"), [("東京", "大阪"), ("東京-1", "大阪-1"), ("?", "!")])
def test_clusters_whose_names_no_record_may_carry_are_two(one: str, other: str) -> None:
    (first, _), (second, _) = names(gpu("GPU-1", cluster=one), gpu("GPU-2", cluster=other))
    assert len({first, second, "node-1"}) == 3


def test_a_federation_of_two_clusters_keeps_their_targets_apart() -> None:
    """Each has a node_exporter of one job and address; neither names its node in other series."""
    labels = {
        "exported_job": "node",
        "exported_instance": "10.0.0.1:9100",
        "job": "federate",
        "instance": "p:1",
    }
    hosts = [
        ScrapedSeries({"__name__": name, "cluster": cluster, **labels, **more}, ((0, 1.0),))
        for cluster, node in (("eu", "a"), ("us", "b"))
        for name, more in (("node_uname_info", {"nodename": node}), ("node_memory_MemTotal_bytes", {}))
    ]
    reader = AnswerReader(PrometheusSettings())
    found = reader.read({"hosts": hosts})["hosts"]
    assert [reader.nodes.name_of(one.labels) for one in found] == ["eu.a", "eu.a", "us.b", "us.b"]


def test_a_cluster_without_a_label_is_apart_from_one_that_has_it() -> None:
    assert names(gpu("GPU-1", cluster="eu"), gpu("GPU-2")) == [("eu.node-1", "eu.team"), ("node-1", "team")]
    assert names(gpu("GPU-1", cluster="eu"), gpu("GPU-2", gpu="1")) == [("node-1", "team")] * 2, "no clash"


def test_each_scrape_may_have_a_usual_label_of_its_own() -> None:
    clusters = Clusters()
    gpus = [gpu("GPU-1", cluster="eu"), gpu("GPU-2", cluster="us")]
    info = {"__name__": "kube_pod_info", "namespace": "team", "pod": "p"}
    pods = [ScrapedSeries({**info, "cluster_name": name}, ()) for name in ("eu", "us")]
    apart = clusters.apart({"gpus": gpus, "kube": pods})
    for what in ("gpus", "kube"):
        assert [namespace_of(one.labels) for one in apart[what]] == ["eu.team", "us.team"]


def test_one_cluster_has_its_names_as_they_are() -> None:
    assert names(gpu("GPU-1", cluster="eu"), gpu("GPU-2", gpu="1", cluster="eu")) == [("node-1", "team")] * 2
    assert names(gpu("GPU-1", region="eu")) == [("node-1", "team")]


def test_a_label_that_is_given_counts_even_with_one_value() -> None:
    assert names(gpu("GPU-1", site="eu", cluster="x"), label="site") == [("eu.node-1", "eu.team")]


@pytest.mark.parametrize("label", ["kubernetes_node", "kubernetes_io_hostname", "node_name"])
def test_a_label_that_names_the_node_is_no_cluster(label: str) -> None:
    series = [gpu(f"GPU-{name}", Hostname="localhost") for name in "ab"]
    named = [ScrapedSeries({**of.labels, label: of.labels["UUID"][-1]}, of.points) for of in series]
    assert names(*named) == [("a", "team"), ("b", "team")]


def test_a_name_that_every_host_has_is_no_collision() -> None:
    series = [gpu(f"GPU-{rack}", Hostname="localhost", rack=rack, zone=f"z{rack}") for rack in "ab"]
    assert names(*series) == [("GPU-a", "team"), ("GPU-b", "team")]


def test_what_names_no_cluster_keeps_its_name() -> None:
    found = names(gpu("GPU-1", cluster="eu"), gpu("GPU-2", cluster="us"), gpu("GPU-3", Hostname="other"))
    assert found[-1] == ("other", "team")


def test_a_gpu_that_was_replaced_is_no_other_machine() -> None:
    assert names(gpu("GPU-1", rack="1"), gpu("GPU-2", start_ms=20_000, rack="2")) == [("node-1", "team")] * 2


def test_several_exporters_of_one_node_are_one_machine() -> None:
    """Each in a container with its own GPU, which is number 0 there."""
    assert names(gpu("GPU-1"), gpu("GPU-2", container="other", service="b")) == [("node-1", "team")] * 2


def test_labels_among_which_none_can_be_chosen_are_named() -> None:
    with pytest.raises(
        ClustersMixedError, match=r"called node-1.*labels env, region differ: give DUTYCYCLE_PR"
    ):
        names(gpu("GPU-1", env="a", region="eu"), gpu("GPU-2", env="b", region="us"))


def test_the_label_stays_known_and_names_all_that_is_asked_for_later() -> None:
    clusters = Clusters()
    clusters.apart({"gpus": [gpu("GPU-1", cluster="eu"), gpu("GPU-2", cluster="us")]})
    pod = ScrapedSeries({"__name__": "kube_pod_info", "namespace": "team", "pod": "p", "cluster": "eu"}, ())
    (found,) = clusters.apart({"kube": [pod]})["kube"]
    who = workload_of(found.labels)
    assert who is not None
    assert who.namespace == "eu.team"
