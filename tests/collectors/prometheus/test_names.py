"""Goal: pods have their names, and the job that kube-state-metrics knows; else each pod is its own job."""

from dataclasses import replace as changed

from msgspec.structs import replace

from collectors.prometheus.identity.labels import Workload
from collectors.prometheus.kube_state import KubeState, OwnerIndex
from collectors.prometheus.names import PodNames
from collectors.prometheus.series import ScrapedSeries
from dutycycle.contract.codec import decode
from dutycycle.contract.records.pods import JobRef, Pod
from tests.support.data.prometheus_samples import TICK, UID

Answer = tuple[ScrapedSeries, ...]
WEB = Workload("team", "web-7d4-x")


def series(metric: str, **labels: str) -> ScrapedSeries:
    return ScrapedSeries({"__name__": metric, "namespace": "team", **labels}, ())


def info(pod: str, kind: str, name: str) -> ScrapedSeries:
    return series("kube_pod_info", pod=pod, uid=UID, created_by_kind=kind, created_by_name=name)


REPLICA_SET = series("kube_replicaset_owner", replicaset="web-7d4", owner_kind="Deployment", owner_name="web")
JOB = series("kube_job_owner", job_name="nightly-1", owner_kind="CronJob", owner_name="nightly")
DEPLOYMENT = JobRef(
    api_version="apps/v1", kind="Deployment", name="web", uid="name:team/Deployment/web", revision="web-7d4"
)


def owners(*answer: ScrapedSeries) -> OwnerIndex:
    found = OwnerIndex()
    found.learn(answer)
    return found


def test_the_topmost_owner_is_the_job() -> None:
    found = owners(info(WEB.pod, "ReplicaSet", "web-7d4"), REPLICA_SET, info("n", "Job", "nightly-1"), JOB)
    assert found.job_of(WEB) == DEPLOYMENT
    nightly = found.job_of(Workload("team", "n"))
    assert nightly == JobRef(
        api_version="batch/v1", kind="CronJob", name="nightly", uid="name:team/CronJob/nightly",
        revision="nightly-1",
    )  # fmt: skip
    assert found.job_of(Workload("other", "n")) is None


def test_without_the_upper_owner_the_lower_one_is_the_job() -> None:
    found = owners(info(WEB.pod, "ReplicaSet", "web-7d4")).job_of(WEB)
    assert found is not None
    assert (found.kind, found.name) == ("ReplicaSet", "web-7d4")


def test_an_owner_of_an_unknown_kind_is_a_job_too() -> None:
    found = owners(info(WEB.pod, "PyTorchJob", "bert")).job_of(WEB)
    assert found is not None
    assert (found.kind, found.api_version) == ("PyTorchJob", "unknown")


def test_nobody_and_a_node_own_no_job() -> None:
    found = owners(info("a", "<none>", "<none>"), info("b", "Node", "gpu-a"), info("c", "", ""))
    assert [found.job_of(Workload("team", name)) for name in "abc"] == [None] * 3


def test_names_of_a_scrape_without_honor_labels() -> None:
    renamed = ScrapedSeries(
        {
            "__name__": "kube_replicaset_owner", "namespace": "monitoring", "pod": "kube-state-metrics-x",
            "exported_namespace": "team", "replicaset": "web-7d4", "owner_kind": "Deployment",
            "owner_name": "web",
        },
        (),
    )  # fmt: skip
    own = {"pod": "kube-state-metrics-x", "namespace": "monitoring", "exported_namespace": "team"}
    who = {"exported_pod": WEB.pod, "created_by_kind": "ReplicaSet", "created_by_name": "web-7d4"}
    pod = ScrapedSeries({"__name__": "kube_pod_info", "uid": UID, **own, **who}, ())
    assert owners(renamed, pod).job_of(WEB) == DEPLOYMENT


def test_what_is_said_of_a_pod_from_its_first_to_its_last_scrape() -> None:
    names, kube = PodNames(retire_s=60), KubeState()
    none: Answer = ()
    known = (info(WEB.pod, "ReplicaSet", "web-7d4"), REPLICA_SET)
    seen = [("name:team/web-7d4-x", "gpu-a", WEB)]

    def said(at_s: float, *, there: bool, of: Answer) -> list[Pod | None]:
        kube.learn(of)
        outs = names.update(
            seen if there else [], kube, changed(TICK, monotonic_s=at_s, ts_ms=round(at_s * 1000))
        )
        return [None if out.value is None else decode(Pod, out.value, out.topic) for out in outs]

    first = Pod(
        uid="name:team/web-7d4-x", namespace="team", name=WEB.pod, node="gpu-a", phase="Running",
        job=JobRef(api_version="v1", kind="Pod", name=WEB.pod, uid="name:team/web-7d4-x"),
    )  # fmt: skip
    owned = replace(first, job=DEPLOYMENT)
    assert said(0, there=True, of=none) == [first]
    assert said(1, there=True, of=none) == []
    assert said(2, there=True, of=known) == [owned]
    assert said(3, there=True, of=none) == [], "what is known stays known"
    assert said(183, there=False, of=none) == []
    assert said(184, there=False, of=none) == [replace(owned, finished_ms=184_000)]
    assert said(244, there=False, of=none) == [None]
    assert said(245, there=True, of=none) == [first]
