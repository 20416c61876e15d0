"""The kustomize base is the chart's defaults, and the examples change what they say they change."""

import pytest

from dutycycle.contract.topics import TOPICS
from tests.support.deploy.generate_kustomize import files, portable, strimzi_topics
from tests.support.deploy.manifests import (
    KUSTOMIZE,
    NAMESPACE,
    TRIAL,
    TRIALS,
    by_key,
    environment,
    kustomize,
    objects,
    of_kind,
    pod_specs,
    render,
)

EXAMPLES = KUSTOMIZE / "examples"


def test_what_is_written_is_current() -> None:
    for name, text in files().items():
        assert (KUSTOMIZE / name).read_text() == text, (
            f"python -m tests.support.deploy.generate_kustomize: {name}"
        )
    assert {path.name for path in (KUSTOMIZE / "base").iterdir()} == {
        name.removeprefix("base/") for name in files() if name.startswith("base/")
    }


def test_the_base_is_the_chart() -> None:
    assert by_key(kustomize(KUSTOMIZE / "base")) == by_key(map(portable, render()))


def test_the_trial_is_the_charts_trial() -> None:
    ours, charts = by_key(kustomize(EXAMPLES / "trial")), by_key(map(portable, render(TRIAL)))
    assert {kind for kind, _, _ in ours.keys() - charts.keys()} == {"Namespace"}
    assert not charts.keys() - ours.keys()
    differing = {name for name in charts if ours[name] != charts[name]}
    # The spool may stay on the node, and the topics' Job has a name for each content.
    assert {kind for kind, _, _ in differing} <= {"DaemonSet"}


def test_job_trials_are_the_charts() -> None:
    things = by_key(kustomize(EXAMPLES / "job-trials"))
    assert things == by_key(map(portable, render(TRIALS)))


def test_gpu_nodes_get_their_runtime_class_and_nothing_else_changes() -> None:
    changed, base = by_key(kustomize(EXAMPLES / "gpu")), by_key(kustomize(KUSTOMIZE / "base"))
    (name,) = (name for name in base if base[name] != changed[name])
    spec = changed[name]["spec"]["template"]["spec"]
    assert (name[0], spec["runtimeClassName"]) == ("DaemonSet", "nvidia")
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "nvidia.com/gpu.present": "true"}


def test_strimzis_topics_are_those_of_the_code() -> None:
    things = kustomize(EXAMPLES / "strimzi")
    topics = [one for one in things if one["kind"] == "KafkaTopic"]
    names = {one["spec"]["topicName"] for one in topics}
    assert len(topics) == len(names)
    assert names == {one["spec"]["topicName"] for one in strimzi_topics()}
    assert {f"dutycycle.{name}" for name in TOPICS} < names
    assert {one["spec"]["partitions"] for one in topics} == {24}
    assert not [one for one in things if one["kind"] == "Job"]
    cluster = of_kind(things, "Kafka")["metadata"]["name"]
    assert {one["metadata"]["labels"]["strimzi.io/cluster"] for one in topics} == {cluster}
    broker = environment(pod_specs(things)["streams"]["containers"][0])["DUTYCYCLE_BROKER"]
    assert broker == f"kafka://{cluster}-kafka-bootstrap:9092"  # as Strimzi names its service


@pytest.mark.parametrize("file", ["keda.yaml", "prometheus-adapter.yaml"])
def test_the_autoscalers_know_our_group_and_figure(file: str) -> None:
    (thing,) = objects((EXAMPLES / "autoscaling" / file).read_text())
    if thing.get("kind") == "ScaledObject":
        target = of_kind(render(), "Deployment", thing["spec"]["scaleTargetRef"]["name"])
        assert target["metadata"]["name"] == "dutycycle-streams"
        (trigger,) = thing["spec"]["triggers"]
        assert trigger["metadata"]["consumerGroup"] == "dutycycle.streams"
        # KEDA asks from a namespace of its own.
        broker = environment(pod_specs(render())["streams"]["containers"][0])["DUTYCYCLE_BROKER"]
        service, port = broker.removeprefix("kafka://").split(":")
        assert trigger["metadata"]["bootstrapServers"] == f"{service}.{NAMESPACE}.svc:{port}"
    else:
        (rule,) = thing["rules"]["external"]
        hpa = of_kind(render({"streams": {"autoscaling": {"enabled": True}}}), "HorizontalPodAutoscaler")
        assert rule["name"]["as"] == hpa["spec"]["metrics"][0]["external"]["metric"]["name"]
        assert f'__name__="{rule["name"]["as"]}"' in rule["seriesQuery"]
