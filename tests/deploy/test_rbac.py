"""What the accounts may, on the real API server: all that the code asks for, and nothing else."""

import json
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import pytest
import yaml

from dutycycle.kube.discovery import NODE, POD
from dutycycle.kube.errors import RefusedError
from dutycycle.kube.events import CONTROLLER, Occurrence, new_event, repetition
from dutycycle.kube.heartbeat import LABELS, SELECTOR, Heartbeat, heartbeat_of
from dutycycle.kube.references import ObjectRef
from dutycycle.kubectl.api import Api
from dutycycle.kubectl.jobs import OWNERS, served
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.core.targets import Target
from sinks.annotations.heartbeats import Heartbeats
from sinks.annotations.node_labels import NodeLabels
from tests.support.deploy.manifests import (
    FROM_PROMETHEUS,
    FULL,
    KUSTOMIZE,
    NAMESPACE,
    SHAPES,
    Object,
    kustomize,
    of_kind,
    render,
)
from tests.support.kube.api_server import api_server
from tests.support.servers.kube.accounts import grant, new_token, service_account
from tests.support.servers.kube.client import Client, Refused
from tests.support.servers.kube.server import Kube
from tests.support.waiting import until, wait_until

NOT_INSTALLED = ("monitoring.coreos.com/", "kafka.strimzi.io/", "keda.sh/", "cert-manager.io/")
"""Kinds of operators that are not on this server."""
Permission = tuple[str, str, str]
EVENTS = [(verb, "events.k8s.io", "events") for verb in ("create", "patch")]


def permissions(role: Object) -> list[Permission]:
    """(verb, group, resource) of a role, one by one."""
    return [
        one for rule in role["rules"] for one in product(rule["verbs"], rule["apiGroups"], rule["resources"])
    ]


def owners() -> set[tuple[str, str]]:
    """(group, resource) of the kinds that the plugin lists."""
    return {(kind.group, kind.plural) for kind in OWNERS}


@pytest.fixture(scope="session")
def installed(kube_server: Kube) -> Kube:
    """The chart's accounts, roles and policy, on the server."""
    kube_server.start()
    names = (NAMESPACE, *FULL["trials"]["namespaces"])
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace"}
    apply(kube_server.admin, [namespace | {"metadata": {"name": name}} for name in names])
    # And their bindings.
    kinds = ("ServiceAccount", "ClusterRole", "Role", "ValidatingAdmissionPolicy", "FlowSchema",
             "PriorityLevelConfiguration")  # fmt: skip
    apply(kube_server.admin, [one for one in render() if one["kind"].startswith(kinds)])
    _wait_for_policy(kube_server)
    return kube_server


def _wait_for_policy(kube: Kube) -> None:
    """The API server learns of a policy and of roles by watches of its own, a moment after they are made."""
    probe = kube.admin.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "probe-of-the-policy"}}
    )
    sinks = account(kube, "sinks")

    def said() -> str:
        return refusal(sinks, probe, {"labels": {"x": str(time.monotonic_ns())}})

    wait_until(lambda: "the sinks change annotations alone" in said(), said)
    kube.admin.delete(probe)


def apply(client: Client, things: list[Object], *flags: str) -> str:
    """As a person would: server side, refusing fields that are none."""
    text = yaml.safe_dump_all(things)
    return client.kubectl("apply", "--server-side", "--validate=strict", *flags, "-f", "-", stdin=text)


def account(kube: Kube, component: str) -> Client:
    return kube.client(new_token(kube, NAMESPACE, f"dutycycle-{component}"), NAMESPACE)


@pytest.fixture
def sinks(installed: Kube) -> Client:
    return account(installed, "sinks")


@pytest.fixture
def node(installed: Kube, namespace: str) -> Iterator[Object]:
    meta = {"name": f"node-{namespace}", "annotations": {"others.io/a": "1"}, "labels": {"x": "y"}}
    made = installed.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})
    yield made
    installed.admin.delete(made)


def test_the_sinks_have_a_share_of_the_api_server_of_their_own(
    installed: Kube, sinks: Client, node: Object
) -> None:
    def flow_schema(client: Client) -> str | None:
        """By which the API server classified a request."""
        headers = {"Authorization": f"Bearer {client.access.token}"}
        url = f"{client.access.url}/api/v1/nodes/{node['metadata']['name']}"
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - ours
        context = ssl.create_default_context(cafile=str(client.access.authority))
        with urllib.request.urlopen(request, context=context, timeout=120) as answer:  # noqa: S310 - ours
            return str(answer.headers["X-Kubernetes-PF-FlowSchema-UID"])

    schema = installed.admin.get(of_kind(render(), "FlowSchema"))
    # The API server reads flow schemas by a watch of its own.
    wait_until(lambda: flow_schema(sinks) == schema["metadata"]["uid"])
    assert flow_schema(installed.admin) != schema["metadata"]["uid"]


async def test_with_the_switch_the_sinks_may_set_three_labels_of_nodes_and_no_other(
    installed: Kube, node: Object
) -> None:
    """The same chart under another name, with node labels."""
    values = {"sinks": {"annotations": {"nodeLabels": True}}}
    name = "labelled-dutycycle-sinks"
    kinds = ("ServiceAccount", "ClusterRole", "ValidatingAdmissionPolicy")
    things = [
        one
        for one in render(values, release="labelled")
        if one["kind"].startswith(kinds) and one["metadata"]["name"].startswith("labelled-dutycycle-")
    ]
    apply(installed.admin, things)
    account = installed.client(new_token(installed, NAMESPACE, name), NAMESPACE)
    server, holds = await api_server(account.kubeconfig), {"gpu-idle": True, "gpu-throttled": False}
    labels = NodeLabels(
        server, "dutycycle.io", lambda node: holds, "annotations", Telemetry("sink"), time.monotonic
    )
    try:
        # Taken until the policy is in effect, so each time another one.
        await until(
            lambda: (
                "three labels of nodes alone"
                in refusal(account, node, {"labels": {"x": str(time.monotonic_ns())}})
            )
        )
        installed.admin.patch(node, {"metadata": {"labels": {"x": "y"}}})
        labels.sampled(node["metadata"]["name"], 1)
        await labels.write_due(lambda: True)
        ours = {"x": "y", "dutycycle.io/gpu-idle": "true", "dutycycle.io/gpu-throttled": "false"}
        assert installed.admin.get(node)["metadata"]["labels"] == ours
        holds.clear()  # nothing is known any more
        await labels.write_due(lambda: True)
        assert installed.admin.get(node)["metadata"]["labels"] == {"x": "y"}
    finally:
        await server.close()
    for change in (
        {"labels": {"x": None}}, {"labels": {"dutycycle.io/gpu-idle": "maybe"}},
        {"labels": {"dutycycle.io/other": "true"}}, {"labels": {"dutycycle.io/gpu-idle": "true", "a": "b"}},
    ):  # fmt: skip
        assert "three labels of nodes alone" in refusal(account, node, change), change
    pod = installed.admin.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "labelled"},
         "spec": {"containers": [{"name": "a", "image": "i"}]}}
    )  # fmt: skip
    try:
        said = refusal(account, pod, {"labels": {"dutycycle.io/gpu-idle": "true"}})
        assert "the sinks change annotations alone" in said
    finally:
        for thing in (pod, *things):
            installed.admin.delete(thing)


def refusal(client: Client, thing: Object, metadata: Object) -> str:
    """What the API server says to this change of an object's metadata; empty if it takes it."""
    try:
        client.patch(thing, {"metadata": metadata})
    except Refused as answer:
        return str(answer)
    return ""


MANIFESTS = {
    **{shape: partial(render, values) for shape, values in SHAPES.items()},
    **{folder: partial(kustomize, KUSTOMIZE / folder) for folder in (
        "base", "examples/trial", "examples/gpu", "examples/job-trials", "examples/strimzi")},
}  # fmt: skip


@pytest.mark.parametrize("manifests", MANIFESTS.values(), ids=MANIFESTS)
def test_the_server_would_take_every_object(installed: Kube, manifests: Callable[[], list[Object]]) -> None:
    things = [one for one in manifests() if not one["apiVersion"].startswith(NOT_INSTALLED)]
    said = apply(installed.admin, things, "--dry-run=server", "--force-conflicts").splitlines()
    assert len([line for line in said if line.endswith("(server dry run)")]) == len(things)


def test_the_server_would_refuse_a_field_that_is_none(installed: Kube) -> None:
    wrong = of_kind(render(), "Deployment", "streams")
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(AssertionError, match="readynessProbe"):
        apply(installed.admin, [wrong], "--dry-run=server")


@pytest.mark.parametrize(
    ("role", "own", "verbs_of_owners"),
    [
        ("collector", {(verb, "", "pods") for verb in ("get", "list", "watch")}, ("get",)),
        ("sinks",
         {(verb, "", resource) for verb in ("get", "patch") for resource in ("nodes", "pods")} | set(EVENTS),
         ("get", "patch")),
        ("webhook", {(verb, "scheduling.k8s.io", "priorityclasses") for verb in ("list", "create", "delete")},
         ()),
        ("web",
         {("create", "authentication.k8s.io", "tokenreviews"),
          ("create", "authorization.k8s.io", "subjectaccessreviews"), ("list", "", "nodes")}, ()),
        ("trials",
         {("get", "scheduling.k8s.io", "priorityclasses"), ("list", "", "nodes"), ("list", "", "pods")}, ()),
        (
            "reader",
            {(verb, "", resource) for verb in ("get", "list") for resource in ("nodes", "pods")}
            | {("list", "coordination.k8s.io", "leases")},
            ("get", "list"),
        ),
    ],
)  # fmt: skip
def test_a_role_says_what_the_code_asks_for(
    role: str, own: set[Permission], verbs_of_owners: tuple[str, ...]
) -> None:
    found = permissions(of_kind(render(FULL), "ClusterRole", role))
    expected = own | {(verb, group, name) for verb in verbs_of_owners for group, name in owners()}
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize("component", ["collector", "sinks"])
def test_an_account_may_that_and_nothing_more(installed: Kube, component: str) -> None:
    roles = [one for one in render() if one["kind"] in ("ClusterRole", "Role")]
    mine = [one for one in roles if one["metadata"]["name"] == f"dutycycle-{component}"]
    review = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1"}
    answer = account(installed, component).request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        review | {"spec": {"namespace": NAMESPACE}},
    )
    may = {
        one
        for rule in answer["status"]["resourceRules"]
        for one in product(rule["verbs"], rule["apiGroups"], rule["resources"])
    }
    everybody = {one for one in may if one[1] in ("authorization.k8s.io", "authentication.k8s.io")}
    assert may - everybody == {one for role in mine for one in permissions(role)}


def test_in_their_namespace_the_sinks_have_leases_and_the_culler_its_own_config_map() -> None:
    allowed = {
        "dutycycle-sinks": [(verb, "coordination.k8s.io", "leases") for verb in ("create", "patch")],
        "dutycycle-cull": [(verb, "", "configmaps") for verb in ("get", "patch")],
    }
    for shape, values in SHAPES.items():
        here = [one for one in render(values) if one["metadata"].get("namespace") == NAMESPACE]
        roles = {one["metadata"]["name"]: one for one in here if one["kind"] == "Role"}
        assert roles.keys() == (allowed.keys() if shape == "full" else {"dutycycle-sinks"})
        for name, role in roles.items():
            assert permissions(role) == allowed[name]
            assert name != "dutycycle-cull" or role["rules"][0]["resourceNames"] == [name]
            binding = of_kind(here, "RoleBinding", name)
            assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]


def test_what_reads_a_prometheus_has_the_role_of_the_collectors() -> None:
    of_nodes = of_kind(render(), "ClusterRole", "-collector")["rules"]
    assert of_kind(render(FROM_PROMETHEUS), "ClusterRole", "-prometheus")["rules"] == of_nodes


def test_streams_may_nothing(installed: Kube) -> None:
    streams = account(installed, "streams")
    for path in ("/api/v1/pods", "/api/v1/nodes", f"/api/v1/namespaces/{NAMESPACE}/secrets"):
        with pytest.raises(Refused, match="forbidden"):
            streams.request("GET", path)


def pod(namespace: str, node: str, **more: object) -> Object:
    meta = {"namespace": namespace, "name": "a", **more}
    spec = {"nodeName": node, "containers": [{"name": "a", "image": "b"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


async def annotate(client: Client, target: Target, patch: dict[str, str | None]) -> dict[str, str]:
    """As the sinks do it."""
    server = await api_server(client.kubeconfig)
    try:
        await server.annotations(target.ref)
        return await server.annotate(target.ref, patch)
    finally:
        await server.close()


async def test_the_sinks_annotate_nodes_pods_and_jobs(
    installed: Kube, sinks: Client, namespace: str, node: Object
) -> None:
    name = node["metadata"]["name"]
    made = installed.admin.create(pod(namespace, name))
    meta = {"namespace": namespace, "name": "j"}
    job = installed.admin.create(
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta}
    )
    for target in (
        Target("node", "v1", "Node", name),
        Target("pod", "v1", "Pod", "a", namespace, made["metadata"]["uid"]),
        Target("job", job["apiVersion"], "JobSet", "j", namespace, job["metadata"]["uid"]),
    ):
        assert (await annotate(sinks, target, {"dutycycle.io/x": "1"}))["dutycycle.io/x"] == "1"
        assert "dutycycle.io/x" not in await annotate(sinks, target, {"dutycycle.io/x": None})
    assert installed.admin.get(node)["metadata"]["annotations"]["others.io/a"] == "1"


async def test_another_prefix_is_refused_to_the_sinks(sinks: Client, node: Object) -> None:
    target = Target("node", "v1", "Node", node["metadata"]["name"])
    patches: list[dict[str, str | None]] = [
        {"others.io/a": "2"},
        {"others.io/a": None},
        {"new.io/a": "1"},
        {"dutycycle.io.evil/a": "1"},
    ]
    for patch in patches:
        with pytest.raises(RefusedError, match=r"the sinks change annotations of dutycycle\.io/ alone"):
            await annotate(sinks, target, patch)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"x": "z"}}},
        {"metadata": {"labels": None}},
        {"metadata": {"finalizers": ["a.io/b"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    ],
    ids=json.dumps,
)
def test_everything_but_annotations_is_refused_to_the_sinks(
    installed: Kube, sinks: Client, node: Object, change: Object
) -> None:
    with pytest.raises(Refused, match="the sinks change annotations alone"):
        sinks.patch(node, change)
    assert installed.admin.patch(node, change)  # to them alone


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"template": None}}, {"spec": {"any": 1}}, {"spec": None}, {"data": {"a": "b"}},
        {"extra": {"a": 1}},
        {"extra": {"a": 1}, "metadata": {"annotations": {"dutycycle.io/x": "1"}}}, {"suspend": True},
        {"metadata": {"finalizers": ["a.io/b"]}}, {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}]}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_the_rest_of_a_job_is_refused_to_the_sinks(
    installed: Kube, sinks: Client, namespace: str, change: Object
) -> None:
    job = installed.admin.create(
        {
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"template": {"a": 1}},
            "metadata": {"namespace": namespace, "name": "j"},
        }
    )  # fmt: skip
    with pytest.raises(Refused, match="the sinks change annotations alone"):
        sinks.patch(job, change)


async def test_the_sinks_keep_the_lease_of_a_node(installed: Kube, sinks: Client, node: Object) -> None:
    name, telemetry = node["metadata"]["name"], Telemetry("test")
    server = await api_server(sinks.kubeconfig)
    for sampled_ms in (1_000, 61_000):
        beats = Heartbeats(server, 60.0, "annotations", telemetry, lambda: 0.0)
        beats.sampled(name, sampled_ms)
        await beats.write_due(lambda: True)
        assert telemetry.conditions == {}
        found = installed.admin.get(lease(name))
        assert heartbeat_of(found) == Heartbeat(name, sampled_ms, 180)
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    assert found["metadata"]["ownerReferences"] == [owner]
    await server.close()


def lease(name: str, namespace: str = NAMESPACE, **labels: str) -> Object:
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {}}


def test_no_other_lease_is_the_sinks(installed: Kube, sinks: Client, namespace: str) -> None:
    with pytest.raises(Refused, match="the sinks change objects that exist"):
        sinks.create(lease(f"plain-{namespace}"))
    with pytest.raises(Refused, match="cannot create resource"):
        sinks.create(lease("a", "default", **LABELS))
    election = installed.admin.create(lease(f"election-{namespace}"))
    for change in ({"spec": {"holderIdentity": "me"}}, {"metadata": {"labels": LABELS}}):
        with pytest.raises(Refused, match="the sinks change annotations alone"):
            sinks.patch(election, change)
    for method in ("GET", "DELETE"):
        with pytest.raises(Refused, match=r"cannot (get|delete) resource"):
            sinks.request(
                method, f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/election-{namespace}"
            )


def test_without_events_the_sinks_may_not_make_any() -> None:
    things = render({"sinks": {"annotations": {"events": False}}})
    assert not set(permissions(of_kind(things, "ClusterRole", "sinks"))) & set(EVENTS)
    (policy,) = (one for one in things if one["kind"] == "ValidatingAdmissionPolicy")
    assert "events.k8s.io" not in json.dumps(policy)
    (container,) = of_kind(things, "Deployment", "sinks")["spec"]["template"]["spec"]["containers"]
    assert {"name": "DUTYCYCLE_KUBERNETES_EVENTS", "value": "off"} in container["env"]


def event(name: str, namespace: str, controller: str) -> Object:
    about = ObjectRef("v1", "Pod", "p", namespace, "uid-1")
    made = dict(new_event(Occurrence(about, "GpuIdle", "Normal", 1, "a note"), 1))
    meta = {"name": name, "namespace": namespace}
    return made | {"metadata": meta, "reportingController": controller}


def test_the_sinks_make_events_of_their_own_and_touch_no_others(
    installed: Kube, sinks: Client, namespace: str
) -> None:
    mine = sinks.create(event("mine", namespace, CONTROLLER))
    sinks.patch(mine, repetition(2, 1))
    assert installed.admin.get(mine)["series"]["count"] == 2
    with pytest.raises(Refused, match="the sinks change objects that exist"):
        sinks.create(event("kubelets", namespace, "kubelet"))
    other = installed.admin.create(event("other", namespace, "kubelet"))
    with pytest.raises(Refused, match="the sinks change annotations alone"):
        sinks.patch(other, repetition(2, 1))
    for thing in (mine, other):
        with pytest.raises(Refused, match="cannot delete resource"):
            sinks.delete(thing)


def test_the_sinks_neither_make_nor_delete(sinks: Client, namespace: str, node: Object) -> None:
    with pytest.raises(Refused, match="cannot delete resource"):
        sinks.delete(node)
    with pytest.raises(Refused, match="cannot create resource"):
        sinks.create(pod(namespace, "a"))
    with pytest.raises(Refused, match="cannot list resource"):
        sinks.request("GET", "/api/v1/pods")


def test_who_has_the_readers_role_gets_answers(installed: Kube, namespace: str) -> None:
    reader = service_account(installed, namespace, "reader")
    rules = of_kind(render(), "ClusterRole", "reader")["rules"]
    grant(installed, reader, namespace, "reader", rules)
    with Api(str(reader.kubeconfig)) as api:
        for kind in (POD, NODE, *served(OWNERS, api.kinds())):
            assert isinstance(api.list(kind, None), list)
        assert isinstance(api.leases(SELECTOR), list)
        assert isinstance(api.pods(namespace), list)
