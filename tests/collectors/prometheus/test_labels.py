"""Goal: a pod has one key for all its life: its uid where anything tells it, else its names."""

import pytest

from collectors.prometheus.identity.exporters import Exporters
from collectors.prometheus.identity.labels import Workload
from collectors.prometheus.identity.pods import PodIndex
from dutycycle.contract.records.pods import is_name_key
from tests.support.data.prometheus_samples import IN_POD, UID, pod_info, sample

BERT = Workload("team", "bert-0", "main")
NEW = Workload("team", "new-0", "main")
NAMED = "name:team/new-0"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"namespace": "team", "pod": "bert-0", "container": "main"}, BERT),
        ({"pod_namespace": "team", "pod_name": "bert-0", "container_name": "main"}, BERT),
        (
            {"namespace": "gpu-operator", "pod": "dcgm-exporter-x", "container": "exporter",
             "exported_namespace": "team", "exported_pod": "bert-0", "exported_container": "main"},
            BERT,
        ),
        (
            {"namespace": "gpu-operator", "pod": "dcgm-exporter-x", "container": "exporter",
             "pod_namespace": "team", "pod_name": "bert-0", "container_name": "main"},
            BERT,
        ),
        (
            {"namespace": "gpu-operator", "pod": "dcgm-exporter-x", "container": "exporter",
             "exported_namespace": "team", "pod_name": "bert-0", "container_name": "main"},
            BERT,
        ),
        ({"namespace": "gpu-operator", "pod": "dcgm-exporter-x", "container": "exporter"}, None),
        ({"instance": "10.0.0.1:9400"}, None),
        ({"instance": "10.0.0.1:9400", "hpc_job": "4711_3"}, Workload("hpc", "4711_3")),
        ({"namespace": "monitoring", "pod": "dcgm-exporter-x", "hpc_job": "4711"}, Workload("hpc", "4711")),
        ({"namespace": "team", "pod": "bert-0", "container": "main", "hpc_job": "4711"}, BERT),
    ],
)  # fmt: skip
def test_names_are_those_of_the_exporter_s_labels(labels: dict[str, str], expected: Workload | None) -> None:
    assert Exporters().holder_of(labels) == expected


def test_a_label_with_the_uid_counts_first() -> None:
    assert PodIndex().find(BERT, {"pod_uid": UID}) == UID


def test_a_pod_whose_uid_nobody_tells_is_known_by_its_names() -> None:
    pod_index = PodIndex()
    for _ in range(3):
        assert pod_index.find(NEW, {}) == NAMED
        pod_index.learn_pods([])
    assert is_name_key(NAMED)
    assert not is_name_key(UID)


def test_a_key_by_names_is_not_taken_for_a_uid() -> None:
    pod_index = PodIndex()
    pod_index.learn_containers(
        [sample("container_memory_working_set_bytes", 1, namespace="team", pod="new-0")]
    )
    pod_index.learn_pods([pod_info("bert-0", UID)])
    assert pod_index.find(NEW, {}) is None


def test_where_others_have_uids_a_new_pod_waits_for_its_own() -> None:
    pod_index = PodIndex()
    pod_index.learn_pods([pod_info("bert-0", UID)])
    assert pod_index.find(BERT, {}) == UID
    for _ in range(3):
        assert pod_index.find(NEW, {}) is None
        pod_index.learn_pods([pod_info("bert-0", UID)])
    pod_index.learn_pods([pod_info("bert-0", UID), pod_info("new-0", "u2")])
    assert pod_index.find(NEW, {}) == "u2"


def test_a_uid_that_never_comes_is_not_waited_for_for_ever() -> None:
    pod_index = PodIndex()
    pod_index.learn_containers([sample("container_memory_working_set_bytes", 1, **IN_POD)])
    found = []
    for _ in range(6):
        found.append(pod_index.find(NEW, {}))
        pod_index.learn_pods([])
    assert found == [None] * 4 + [NAMED] * 2


def test_pods_that_are_gone_take_no_memory() -> None:
    pod_index = PodIndex()
    for number in range(1000):
        assert pod_index.find(Workload("team", f"pod-{number}"), {}) == f"name:team/pod-{number}"
        pod_index.learn_pods([])
        assert len(pod_index._unknown) <= 8


def test_the_api_server_knows_uids_and_what_it_does_not_know_has_none() -> None:
    known = {("team", "bert-0"): UID}
    asked = PodIndex(uid_of=lambda *name: known.get(name))
    assert (asked.find(BERT, {}), asked.find(NEW, {})) == (UID, None)


def test_a_path_that_is_no_pod_s_is_nobody_s() -> None:
    """The root cgroup, scraped without ``honor_labels``: the only pod in its labels is the exporter's own."""
    own = {"namespace": "monitoring", "pod": "cadvisor-x", "container": "cadvisor"}
    assert PodIndex().of({"id": "/", **own}) is None
    assert PodIndex().of(own) is not None
