"""The example of deploy/examples/hpa, through the real APIService: the real API server and autoscaler."""

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.derived import gpu_subject
from dutycycle.contract.records.pods import JobRef, Pod, name_key
from tests.support.kube.autoscaling import CUSTOM, EXTERNAL, Adapter, VisionApi, values, window
from tests.support.kube.cluster import Cluster
from tests.support.kube.contents import SPEC
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kafka.certificates import make_certificate
from tests.support.servers.kube.accounts import grant, service_account
from tests.support.servers.kube.client import Client, Object, Refused
from tests.support.servers.kube.controllers import Controllers
from tests.support.servers.kube.server import FRONT_PROXY_CA, Kube
from tests.support.waiting import DEADLINE_S, wait_until


@pytest.fixture(scope="module")
def adapter(
    kafka_server: RunningBroker, kube_server: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Adapter]:
    """The adapter of the chart, which the API server asks. It serves all tests: each asks about a namespace
    of its own."""
    kafka_server.ensure_running()
    kube_server.ensure_running()
    prefix = kafka_server.new_prefix()
    one = Adapter(kafka_server, prefix, kube_server, tmp_path_factory.mktemp("adapter"))
    with one.run():
        yield one
    kafka_server.delete_topics(prefix)


def test_the_examples_scale_under_load_and_not_while_nothing_is_measured(
    kube: Kube, cluster: Cluster, adapter: Adapter, controllers: Controllers
) -> None:
    """By the mean of the pods, and by that of the Deployment, beside one another: each waits most of the
    time."""

    def scales(where: Cluster, manifest: str, failed: str) -> None:
        api = VisionApi(where, kube.admin, adapter, controllers, manifest)
        api.under(0, replicas=2)  # the minimum
        api.under(240, replicas=8)  # 30 % each
        assert api.most == 8, "it did not overshoot, though figures are older than the new pods"
        api.under(900, replicas=12)  # the maximum, at 75 % each
        wait_until(lambda: f"not {failed}" in api.conditions.values(), lambda: str(api.conditions))
        assert api.replicas == 12
        api.under(0, replicas=2)  # idle is 0, which is a figure

    other = Cluster(kube, kube.new_namespace())
    try:
        with ThreadPoolExecutor() as both:
            by_pods = both.submit(scales, cluster, "hpa.yaml", "FailedGetPodsMetric")
            scales(other, "hpa-object.yaml", "FailedGetObjectMetric")
            by_pods.result()
    finally:
        kube.empty(other.namespace)


def test_a_source_that_stalls_moves_neither_figures_nor_replicas(
    kube: Kube, cluster: Cluster, adapter: Adapter, controllers: Controllers
) -> None:
    """After a burst: what is known of a longer time was more, and is older.

    Five replicas are neither the least nor the most: either mistake would move them."""
    api = VisionApi(cluster, kube.admin, adapter, controllers)
    path = f"{CUSTOM}/namespaces/{cluster.namespace}/pods/*/gpu_util_pct?labelSelector=app%3Dvision-api"

    def figures() -> dict[str, str]:
        return values(kube.admin.request("GET", path))

    settled: dict[str, str] = {}

    def is_settled() -> bool:
        settled.clear()
        settled.update((pod["metadata"]["name"], "30") for pod in api.moment(150))
        return len(settled) == api.replicas == 5 and figures() == settled

    wait_until(is_settled, lambda: f"{figures()}, not {settled}")
    end_ms = round((time.time() - api.LAG_S) * 1000)
    uids = [pod["metadata"]["uid"] for pod in api.pods()]
    burst = {f"pod/{uid}": window(uid, end_ms, 60_000, gpu_util_pct=95) for uid in uids}
    adapter.publish("window-aggregates", burst)
    seen: list[dict[str, str]] = []
    silent_from = time.monotonic()
    while {} not in seen:  # after a while nothing is known any more
        assert time.monotonic() < silent_from + DEADLINE_S, seen[-1]
        seen.append(figures())
        assert api.replicas == 5
        time.sleep(0.5)
    assert seen[0] == settled
    assert all(moment.items() <= settled.items() for moment in seen)


def test_a_node_whose_clock_is_an_hour_ahead_hides_no_other_and_is_known_no_longer(
    kube: Kube, cluster: Cluster, adapter: Adapter
) -> None:
    ahead_ms = {"right": 0, "ahead": 3_600_000}
    uids = {name: cluster.pod(name, labels={"app": "a"})["metadata"]["uid"] for name in ahead_ms}
    path = f"{CUSTOM}/namespaces/{cluster.namespace}/pods/*/gpu_util_pct"

    def figures() -> dict[str, str]:
        return values(kube.admin.request("GET", path))

    def are_both_known() -> bool:
        now_ms = round(time.time() * 1000)
        for name, uid in uids.items():  # the one that is ahead comes last
            record = window(uid, now_ms + ahead_ms[name], gpu_util_pct=50)
            adapter.publish("window-aggregates", {f"pod/{uid}": record})
        return figures() == dict.fromkeys(uids, "50")

    for _ in range(3):
        wait_until(are_both_known, lambda: f"{figures()}\n{adapter.said}")
    wait_until(lambda: figures() == {}, lambda: str(figures()))


def test_kubectl_reads_the_figures_and_only_who_may(kube: Kube, cluster: Cluster, adapter: Adapter) -> None:
    busy, idle, unmeasured = (
        cluster.pod(name, labels={"app": "a"}) for name in ("busy", "idle", "unmeasured")
    )
    cluster.pod("other", labels={"app": "b"})
    now_ms = round(time.time() * 1000)
    windows = (
        window(busy["metadata"]["uid"], now_ms, gpu_util_pct=48.5),
        window(idle["metadata"]["uid"], now_ms, gpu_util_pct=0),
        # Known by its name alone, as from a Prometheus without uids.
        window(name_key(cluster.namespace, "other"), now_ms, gpu_util_pct=7),
    )
    adapter.publish("window-aggregates", {record.subject.key: record for record in windows})
    path = f"{CUSTOM}/namespaces/{cluster.namespace}/pods"

    def read(name: str, query: str = "") -> Object:
        found: Object = json.loads(kube.admin.kubectl("get", "--raw", f"{path}/{name}/gpu_util_pct{query}"))
        return found

    wait_until(lambda: len(values(read("*"))) == 3, lambda: str(read("*")))
    assert values(read("*", "?labelSelector=app%3Da")) == {"busy": "48500m", "idle": "0"}
    assert values(read("*", "?labelSelector=app+in+(b,c)")) == {"other": "7"}
    (item,) = read("busy")["items"]
    assert item["describedObject"]["uid"] == busy["metadata"]["uid"]
    assert item["window"] == 1
    said = kube.admin.kubectl("get", "--raw", f"{path}/unmeasured/gpu_util_pct", check=False)
    assert f"gpu_util_pct of pod {cluster.namespace}/unmeasured is not measured now" in said
    external = kube.admin.request(
        "GET", f"{EXTERNAL}/namespaces/{cluster.namespace}/gpu_util_pct?labelSelector=app%3Da"
    )
    assert {one["metricLabels"]["pod"]: one["value"] for one in external["items"]} == {
        "busy": "48500m",
        "idle": "0",
    }
    names = {one["name"] for one in kube.admin.request("GET", CUSTOM)["resources"]}
    assert {"pods/gpu_util_pct", "pods/gpu_util_pct_in_300s", "deployments.apps/gpu_util_pct_max"} <= names
    for typo in ("gpu_utl_pct", "gpu_util_pct_in_99999s"):
        for asked in (f"{path}/*/{typo}", f"{EXTERNAL}/namespaces/{cluster.namespace}/{typo}"):
            with pytest.raises(Refused) as absent:
                kube.admin.request("GET", asked)
            assert absent.value.status == 404
    nobody = service_account(kube, cluster.namespace, "nobody")
    with pytest.raises(Refused) as refused:
        nobody.request("GET", f"{path}/*/gpu_util_pct")
    assert refused.value.status == 403
    assert unmeasured["metadata"]["name"] not in values(read("*"))


def test_a_right_that_is_taken_from_the_adapter_is_named_until_it_is_given_back(
    kube: Kube, cluster: Cluster, adapter: Adapter
) -> None:
    cluster.pod("p")
    reader = service_account(kube, cluster.namespace, "reader")
    rules = [{"apiGroups": ["custom.metrics.k8s.io"], "resources": ["*"], "verbs": ["get"]}]
    grant(kube, reader, cluster.namespace, "reader", rules)
    path = f"{CUSTOM}/namespaces/{cluster.namespace}/pods/*/gpu_util_pct"
    rights = {"subjectaccessreviews authorization.k8s.io": "create", "pods": "list"}
    bindings = [
        kube.admin.get(
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
             "metadata": {"name": f"dutycycle-adapter{suffix}"}}
        ) for suffix in ("-auth-delegator", "")
    ]  # fmt: skip

    before = len(adapter.said)

    def is_said(said: str) -> bool:
        reader.answers(path), kube.admin.answers(path)  # who may everything is not asked about
        return all(
            f"permission_missing {verb} {what}: {said}" in adapter.said[before:]
            for what, verb in rights.items()
        )

    wait_until(lambda: reader.answers(path), lambda: adapter.said)
    try:
        for binding in bindings:
            kube.admin.delete(binding)
        wait_until(lambda: is_said("403: "), lambda: adapter.said)
        with pytest.raises(Refused) as refused:
            kube.admin.request("GET", path)
        assert refused.value.status == 503
    finally:
        for binding in bindings:
            kube.admin.create(binding | {"metadata": {"name": binding["metadata"]["name"]}})
    wait_until(lambda: is_said("allowed now"), lambda: adapter.said)
    assert reader.answers(path)


def test_objects_have_the_mean_and_the_largest_of_their_pods_or_gpus(
    kube: Kube, cluster: Cluster, adapter: Adapter
) -> None:
    """Of what controls a pod, what is above that by the records, the namespace, and the node."""
    job = cluster.make("batch/v1", "Job", "js-w-0", **SPEC)
    busy, idle = (cluster.pod(name, job) for name in ("busy", "idle"))
    away = cluster.pod("away")  # of another owner, which the records alone tell of
    now_ms = round(time.time() * 1000)
    adapter.publish(
        "window-aggregates",
        {
            one.subject.key: one
            for one in (
                window(busy["metadata"]["uid"], now_ms, gpu_util_pct=90),
                window(idle["metadata"]["uid"], now_ms, gpu_util_pct=0),
                window(away["metadata"]["uid"], now_ms, gpu_util_pct=30),
                *(
                    replace(window("", now_ms, gpu_util_pct=value), subject=gpu_subject(cluster.node, uuid))
                    for uuid, value in (("GPU-1", 90), ("GPU-2", 10))
                ),
            )
        },
    )
    owner = JobRef(api_version="apps/v1", kind="StatefulSet", name="db", uid="uid-of-db")
    uid, node = away["metadata"]["uid"], cluster.node
    adapter.publish(
        "pods",
        {uid: Pod(uid=uid, namespace=cluster.namespace, name="away", node=node, phase="Running", job=owner)},
    )
    of_namespace = f"namespaces/{cluster.namespace}"

    def read(path: str, client: Client = kube.admin) -> dict[str, str]:
        items = client.request("GET", f"{CUSTOM}/{path}")["items"]
        return {
            f"{one['describedObject']['kind']}/{one['describedObject']['name']}": one["value"]
            for one in items
        }

    def answers(path: str) -> bool:
        return kube.admin.answers(f"{CUSTOM}/{path}")

    wait_until(lambda: answers(f"{of_namespace}/statefulsets.apps/db/gpu_util_pct"), lambda: adapter.said)
    wait_until(lambda: answers(f"nodes/{cluster.node}/gpu_util_pct"), lambda: adapter.said)
    expected = {
        f"{of_namespace}/jobs.batch/js-w-0/gpu_util_pct": {"Job/js-w-0": "45"},
        f"{of_namespace}/jobs.batch/js-w-0/gpu_util_pct_max": {"Job/js-w-0": "90"},
        f"{of_namespace}/jobs.batch/js-w-0/gpu_util_pct_in_300s": {"Job/js-w-0": "45"},
        f"{of_namespace}/jobs.batch/*/gpu_util_pct": {"Job/js-w-0": "45"},
        f"{of_namespace}/statefulsets.apps/db/gpu_util_pct": {"StatefulSet/db": "30"},
        f"{of_namespace}/metrics/gpu_util_pct": {f"Namespace/{cluster.namespace}": "40"},
        f"{of_namespace}/metrics/gpu_util_pct_max": {f"Namespace/{cluster.namespace}": "90"},
        f"nodes/{cluster.node}/gpu_util_pct": {f"Node/{cluster.node}": "50"},
        f"{of_namespace}/nodes/{cluster.node}/gpu_util_pct_max": {f"Node/{cluster.node}": "90"},
    }
    assert {path: read(path) for path in expected} == expected
    for path, said in {
        f"{of_namespace}/deployments.apps/none/gpu_util_pct": "none has no pods that run",
        f"{of_namespace}/jobs.batch/js-w-0/power_w": "power_w of jobs.batch",
        f"{of_namespace}/pods/busy/gpu_util_pct_max": "of pods there is gpu_util_pct",
        f"{of_namespace}/jobs.batch/js-w-0/gpu_utl_pct": "did you mean gpu_util_pct?",
    }.items():
        with pytest.raises(Refused) as absent:
            read(path)
        assert (absent.value.status, said in str(absent.value)) == (404, True), str(absent.value)
    # Who may read all figures of a namespace may not read a node's, in which others compute as well.
    reader, rbac = service_account(kube, cluster.namespace, "reader"), "rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["custom.metrics.k8s.io"], "resources": ["*"], "verbs": ["get"]}]
    cluster.make(rbac, "Role", "figures", rules=rules)
    cluster.make(
        rbac, "RoleBinding", "figures", subjects=[{"kind": "ServiceAccount", "name": "reader"}],
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "figures"},
    )  # fmt: skip
    path = f"{CUSTOM}/{of_namespace}/metrics/gpu_util_pct"
    wait_until(lambda: reader.answers(path), lambda: adapter.said)
    for path in (f"nodes/{cluster.node}/gpu_util_pct", f"{of_namespace}/nodes/{cluster.node}/gpu_util_pct"):
        with pytest.raises(Refused) as refused:
            read(path, reader)
        assert refused.value.status == 403


def test_only_the_api_server_is_answered_and_for_whom_it_may(
    kube: Kube, cluster: Cluster, adapter: Adapter
) -> None:
    reader = service_account(kube, cluster.namespace, "reader")
    rules = [{"apiGroups": ["custom.metrics.k8s.io"], "resources": ["pods/gpu_util_pct"], "verbs": ["get"]}]
    grant(kube, reader, cluster.namespace, "reader", rules)
    user = f"system:serviceaccount:{cluster.namespace}:reader"
    path = f"{CUSTOM}/namespaces/{cluster.namespace}/pods/*"

    def ask(
        certificate: Path | None, metric: str = "gpu_util_pct", user: str | None = user
    ) -> tuple[int, str]:
        context = ssl.create_default_context(cafile=str(adapter.folder / "ca.crt"))
        context.check_hostname = False  # it is for the name of the Service
        if certificate is not None:
            context.load_cert_chain(certificate.with_suffix(".crt"), certificate.with_suffix(".key"))
        connection = http.client.HTTPSConnection("127.0.0.1", adapter.port, context=context, timeout=120)
        connection.request("GET", f"{path}/{metric}", headers={} if user is None else {"X-Remote-User": user})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    theirs = kube.front_proxy
    assert ask(theirs) == (
        200,
        '{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta1","metadata":{},"items":[]}',
    )
    assert ask(theirs, metric="power_w")[0] == 403
    assert ask(theirs, user="somebody")[0] == 403
    assert ask(theirs, user=None)[0] == 401
    make_certificate(theirs.parent, "another", "another", FRONT_PROXY_CA)
    assert ask(theirs.with_name("another"))[0] == 401
    make_certificate(adapter.folder, "forged", "front-proxy-client", "forged-ca")
    for certificate in (None, adapter.folder / "forged"):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            ask(certificate)
