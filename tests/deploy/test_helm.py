"""The chart, rendered by the real Helm: what every pod may, sees and is told."""

import argparse
import json
import tomllib
from dataclasses import fields
from functools import reduce
from typing import Any

import pytest
import yaml

from dutycycle.cli.studies import trial
from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.telemetry.endpoint import PORTS
from dutycycle.telemetry.metrics import LAG
from dutycycle.trial.access import THE_CLASS
from tests.support.deploy.generate_schema import limits as limits_text
from tests.support.deploy.generate_schema import needs as needs_text
from tests.support.deploy.generate_schema import policy as policy_text
from tests.support.deploy.generate_schema import text as schema_text
from tests.support.deploy.manifests import (
    CHART,
    FROM_PROMETHEUS,
    FULL,
    NAMESPACE,
    ROOT,
    SHAPES,
    TRIAL,
    TRIALS,
    Object,
    by_key,
    containers,
    environment,
    helm,
    of_kind,
    pod_specs,
    render,
)

OURS = (
    "collector", "prometheus", "streams", "sinks", "metrics", "adapter", "extender", "webhook", "web",
    "trials", "cull", "topics",
)  # fmt: skip
WITH_TOKEN = ("collector", "prometheus", "sinks", "adapter", "webhook", "web", "trials", "cull")
CERTIFIED: Object = {"certManager": {"enabled": True}}
"""For parts with certificates: those of Helm's own need a cluster that can be asked."""
EXAMPLES = sorted((ROOT / "deploy/helm/examples").glob("*.yaml"))


@pytest.fixture(scope="module", params=SHAPES)
def things(request: pytest.FixtureRequest) -> list[Object]:
    return render(SHAPES[request.param])


def every_container(things: list[Object]) -> list[tuple[str, Object, Object]]:
    """(component, pod spec, container) of what is ours."""
    specs = pod_specs(things)
    return [(name, specs[name], one) for name in OURS if name in specs for one in containers(specs[name])]


@pytest.mark.parametrize("shape", SHAPES)
def test_helm_finds_nothing_to_complain_of(shape: str) -> None:
    done = helm("lint", "--strict", str(CHART), values=SHAPES[shape])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_render(file: Any) -> None:
    assert render(yaml.safe_load(file.read_text()) | CERTIFIED)


def test_the_schema_is_current() -> None:
    assert (CHART / "values.schema.json").read_text() == schema_text()
    assert (CHART / "limits.json").read_text() == limits_text()
    assert (CHART / "analyses.json").read_text() == needs_text()
    assert (CHART / "policy.json").read_text() == policy_text()


WRONG = [
    [
        "kafka.brokr=kafka://a:9092", "colector=false", "streams.resources.request=1",
        "sinks.affinity.nodeAfinity=1", "streams.replicas=two", "sinks.replicas=1.5",
        "listen.port=99999", "collector.interval=banana", "prometheus.url=prometheus:9090",
        "streams.windows=10s;60s", "podMonitor.interval=often", "collector.containers=some",
        "image.pullPolicy=Allways", "adapter.apis=[metrics.k8s.io]", "webhook.timeoutSeconds=0",
        "trials.namespaces=[My_Team]", "trials.budget=0", "trials.start=soon", "trials.atOnce=0",
        "extender.tls.clientCaSecret=My_CA", "image.tag=a b", "sinks.annotations.prefix=Dutycycle/IO",
        "sinks.annotations.heartbeat=often",
        "kafka.broker=dutycycle:9092", "kafka.partitions=0", "kafka.sasl.mechanism=SCRAM",
        "kafka.tls.caSecret=My_Secret", "sinks.resources.requests.cpu=much",
        "sinks.records.persistence.size=1 GB", "collector.spool.sizeMegabytes=0",
        "collector.spool.hostPath=var", "collector.updateStrategy.type=Now",
        "sinks.podDisruptionBudget.maxUnavailable=some", "streams.autoscaling.targetLagPerReplica=0",
        'streams.tolerations=[{"efect": "NoExecute"}]', 'networkPolicy.kafkaPorts=["kafka"]',
        'sinks.extraEnv=[{"value": "1"}]', "fullnameOverride=My_Name", "nameOverride=-",
        "commonLabels=[team]", "sinks.extraVolumes=cache", 'rbac.jobKinds=[{"kinds": ["jobs"]}]',
    ],
    ["streams.replicas=-1", "listen.port=0", "collector.interval=-1s"],
    [f"sinks.annotations.prefix={'a' * 254}", f"trials.namespaces=[{'a' * 64}]"],
]  # fmt: skip
"""Values that Helm is given together: it names all that the schema refuses."""


@pytest.mark.parametrize("wrong", WRONG, ids=["kinds", "ranges", "lengths"])
def test_the_schema_refuses_each_wrong_value_and_name(wrong: list[str]) -> None:
    values: Object = {}
    for place, _, text in (one.partition("=") for one in wrong):
        *above, last = place.split(".")
        reduce(lambda within, name: within.setdefault(name, {}), above, values)[last] = yaml.safe_load(text)
    done = helm("template", "d", str(CHART), values=values)
    assert done.returncode == 1
    for place in (one.partition("=")[0] for one in wrong):
        parent, _, last = place.replace(".", "/").rpartition("/")
        at = f"at '{'/' * bool(parent)}{parent}"
        refused = f"{at}/{last}"
        unknown = f"{at}': additional properties '{last}' not allowed"
        assert refused in done.stderr or unknown in done.stderr, f"{place}: {done.stderr}"


@pytest.mark.parametrize(
    "values",
    [
        {"collector": {"interval": "500ms"}, "streams": {"windows": "5s,1.5m"}, "metrics": {"window": "5s"},
         "listen": {"port": 8080}},
        {"streams": {"resources": {"limits": {"cpu": 2, "memory": "1.5Gi"}},
                     "podDisruptionBudget": {"maxUnavailable": "50%"}}},
        {"kafka": {"broker": "kafka+ssl://a.b:9093,c:9093",
                   "sasl": {"mechanism": "PLAIN", "username": "u", "existingSecret": "s"}},
         "image": {"tag": "v1.2-rc.1"}},
        {"streams": {"enabled": False}, "metrics": {"window": "30s"}},
        {"webhook": {"policy": "# the defaults\n\n"}},
        {"webhook": {"policy": 'bands."" = [50000000, 60000000]\n'}},
    ],
)  # fmt: skip
def test_the_schema_accepts_what_is_right(values: Object) -> None:
    assert render(values)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"sinks": {"replicas": 2}}, "needs records in PostgreSQL"),
        ({"sinks": {"autoscaling": {"enabled": True}}}, "needs records in PostgreSQL"),
        ({"kafka": {"broker": ""}}, "kafka.broker"),
        ({"kafka": {"broker": "kafka://a:9092,b"}}, "kafka.broker: every address needs its port"),
        ({"kafka": {"broker": "kafka:// :1"}}, "kafka.broker: every address needs its port"),
        ({"kafka": {"broker": "kafka://a:1,b:99999"}}, "kafka.broker: every address needs its port"),
        ({"kafka": {"sasl": {"mechanism": "PLAIN"}}}, "kafka.sasl.username"),
        ({"kafka": {"sasl": {"mechanism": "PLAIN", "username": "u"}}}, "kafka.sasl.existingSecret"),
        ({"streams": {"autoscaling": {"enabled": True}}, "kafka": {"partitions": 1}},
         "streams.replicas is 2, but kafka.partitions and streams.autoscaling.maxReplicas allow 1"),
        ({"streams": {"autoscaling": {"enabled": True, "maxReplicas": 3}, "replicas": 4}},
         "streams.replicas is 4, but kafka.partitions and streams.autoscaling.maxReplicas allow 3"),
        ({"image": {"digest": "abc"}}, "image.digest"),
        ({"cull": {"enabled": True}}, "cull.namespaces: name those whose idle workloads are stopped"),
        ({"cull": {"after": "1m"}}, "cull.after: 1m is not within 600s"),
        ({"trials": {"enabled": True}}, "trials.namespaces: name those whose Jobs may ask for a trial"),
        ({"prometheus": {"enabled": True, "url": "http://a:9090"}}, "set collector.enabled to false"),
        ({"prometheus": {"enabled": True}, "collector": {"enabled": False}}, "prometheus.url"),
        ({"metrics": {"enabled": True, "window": "30s"}},
         "metrics.window: 30s is none of streams.windows, 10s,60s: no mean, maximum or p95 would be served"),
        ({"metrics": {"enabled": True}, "streams": {"windows": "30s,300s"}}, "metrics.window: 60s is none"),
        ({"analyses": "windows,trends"}, "analyses: trends needs cycles: add it, or leave out trends"),
        ({"analyses": "peaks", "streams": {"windowsMetrics": "power_w"}}, "streams.windowsMetrics: analyses"),
        ({"analyses": "windows,peaks", "cull": {"enabled": True, "namespaces": ["ml"]}},
         "cull.enabled: an insight says what is idle, and analyses has no insights"),
        ({"analyses": "peaks", "adapter": {"enabled": True}},
         "adapter.enabled: an autoscaler is answered with windows, and analyses has no windows"),
        ({"streams": {"windows": "10s,10s"}}, "streams.windows: 10s,10s: give whole seconds, each larger"),
        ({"streams": {"windows": "1m,10s"}}, "streams.windows: 1m,10s: give whole seconds, each larger"),
        ({"streams": {"windows": "10s,90.5s"}}, "streams.windows: 10s,90.5s: give whole seconds"),
        ({"streams": {"lateness": "1h"}}, "streams.lateness: with the longest of streams.windows it is 366"),
        ({"streams": {"windows": "10s,1h"}}, "streams.windows: 1h is not within 1s and 600s"),
        ({"sinks": {"annotations": {"interval": "0s"}}}, "sinks.annotations.interval: 0s is not within 1s"),
        ({"metrics": {"remoteWrite": {"interval": "500ms"}}}, "metrics.remoteWrite.interval: 500ms is not"),
        ({"collector": {"interval": "2d"}}, "collector.interval: 2d is not within 0.05s and 3600s"),
        ({"adapter": {"enabled": True, "port": 19470}}, "adapter.port: 19470 is listen.port"),
        ({"web": {"enabled": True}}, "web.tokenSecret: give a Secret"),
        ({"web": {"enabled": True, "proxy": {"addresses": ["10.1.0.0/16"]}}}, "web.proxy: give both"),
        ({"web": {"enabled": True, "kubernetes": True, "proxy": {"allow": ["*"]}}}, "web.proxy: give both"),
        ({"web": {"enabled": True, "proxy": {"addresses": ["10.1.0.0/16"], "allow": ["*"]}}},
         "networkPolicy.webFrom: give what selects the proxy"),
        ({"webhook": {"enabled": True, "port": 9000}, "listen": {"port": 9000}}, "webhook.port: 9000 is"),
        ({"webhook": {"enabled": True, "policy": "nonsense"}}, "webhook.policy: give TOML"),
        ({"webhook": {"enabled": True, "policy": "strech = 1"}}, "webhook.policy: there is no strech"),
        ({"webhook": {"enabled": True, "policy": "stretch = -1"}}, "stretch: -1: expected a number from 0"),
        ({"webhook": {"enabled": True, "policy": "shares.a = 0"}}, "shares: a: 0: expected a number above 0"),
        ({"webhook": {"enabled": True, "policy": "bands.x = [1, 9]"}}, 'bands: expected one named ""'),
        ({"webhook": {"enabled": True, "policy": '[bands]\n"" = [1, 50000000]\nx = [50000000, 90000000]'}},
         "shares priorities with another band"),
        ({"webhook": {"enabled": True, "policy": 'bands."" = [1, 900]'}}, "lasts less than 5 years"),
        ({"webhook": {"enabled": True, "policy": "epoch_s = 1"}}, "is used up since epoch_s 1"),
        ({"sinks": {"annotations": {"prefix": "kubernetes.io"}}}, "kubernetes.io is reserved for Kubernetes"),
        ({"sinks": {"annotations": {"prefix": "x.k8s.io"}}}, "x.k8s.io is reserved for Kubernetes"),
        ({"kafka": {"broker": "kafka://a:9092", "tls": {"clientSecret": "s"}}}, "say kafka+ssl://"),
        ({"kafka": {"trial": {"enabled": True}, "tls": {"caSecret": "s"}}}, "say kafka+ssl://"),
        ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "app.kubernetes.io/name is the chart"),
        ({"podMonitor": {"enabled": True}, "listen": {"tls": {"existingSecret": "s"}}},
         "podMonitor.tlsConfig: say by which authority"),
        ({"dashboards": {"without": ["x"]}}, "dashboards.without: there is no dashboard x"),
        ({"podLabels": ["-bad-"]}, "podLabels"),
        ({"podLabels": ["a.b", "a_b"]}, "podLabels: two of a.b,a_b would have the same name on a series"),
        ({"web": {"pools": ["a.b", "a_b"]}}, "web.pools: two of a.b,a_b would have the same name"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_at_install(values: Object, says: str) -> None:
    done = helm("template", "d", str(CHART), values=values | CERTIFIED)
    assert (done.returncode, says in done.stderr) == (1, True)


def test_versions_are_the_projects() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert {one["image"] for _, _, one in every_container(render())} == {f"dutycycle:{version}"}


def test_every_setting_is_one(things: list[Object]) -> None:
    """That each is taken, too, is seen in test_chart_values, where the processes begin with them."""
    known = {PREFIX + one.name.upper() for one in fields(Settings)}
    for name, _, container in every_container(things):
        if "env" in container:
            given = environment(container)
            assert {key.removesuffix("_FILE") for key in given if key.startswith(PREFIX)} <= known
            assert name == "topics" or given[f"{PREFIX}LISTEN"] == f"0.0.0.0:{PORTS['collect']}"


TOKEN = {"mechanism": "OAUTHBEARER", "existingSecret": "token"}
BEARER = FROM_PROMETHEUS["prometheus"] | {"auth": {"existingSecret": "prometheus"}, "kubernetes": False}
WRITTEN, PAST = FULL["metrics"]["remoteWrite"], FULL["web"]["prometheus"]
VARIABLES: dict[str, tuple[Object, str, dict[str, str], set[str]]] = {
    "a token instead of user and password": (
        {"kafka": {"sasl": TOKEN}}, "streams", {"SASL_TOKEN_FILE": "/etc/dutycycle/sasl/password"},
        {"SASL_USERNAME", "SASL_PASSWORD"},
    ),
    "a Prometheus and a password": (
        FROM_PROMETHEUS, "prometheus",
        {"PROMETHEUS": FROM_PROMETHEUS["prometheus"]["url"], "PROMETHEUS_USERNAME": "reader",
         "PROMETHEUS_PASSWORD_FILE": "/etc/dutycycle/prometheus/secret",
         "PROMETHEUS_CA": "/etc/dutycycle/prometheus-ca/ca.crt"}, {"PROMETHEUS_TOKEN"},
    ),
    "a Prometheus and a token, without the API server": (
        FROM_PROMETHEUS | {"prometheus": BEARER}, "prometheus",
        {"PROMETHEUS_TOKEN_FILE": "/etc/dutycycle/prometheus/secret", "KUBERNETES": "off"},
        {"PROMETHEUS_USERNAME"},
    ),
    "series that are written": (
        FULL, "metrics",
        {"REMOTE_WRITE": WRITTEN["url"], "REMOTE_WRITE_LABELS": "cluster=eu-1,env=test",
         "REMOTE_WRITE_TOKEN_FILE": "/etc/dutycycle/remote-write/secret",
         "REMOTE_WRITE_CA": "/etc/dutycycle/remote-write-ca/ca.crt"}, set(),
    ),
    "series that are scraped": ({}, "metrics", {}, {"REMOTE"}),
    "the page with a past": (
        FULL, "web",
        {"PROMETHEUS": PAST["url"], "PROMETHEUS_TOKEN_FILE": "/etc/dutycycle/prometheus/secret",
         "PROMETHEUS_CA": "/etc/dutycycle/prometheus-ca/ca.crt"}, set(),
    ),
    "the page without": (
        FULL | {"web": FULL["web"] | {"prometheus": PAST | {"url": ""}}}, "web", {}, {"PROMETHEUS"}
    ),
    "the page of a release that had no such value": (
        FULL | {"web": FULL["web"] | {"prometheus": None}}, "web", {}, {"PROMETHEUS"}
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "part", "variables", "absent"), VARIABLES.values(), ids=VARIABLES)
def test_a_part_is_told_of_servers_by_its_environment_and_its_files(
    values: Object, part: str, variables: dict[str, str], absent: set[str]
) -> None:
    spec = pod_specs(render(values))[part]
    given = environment(spec["containers"][0])
    assert given.items() >= {PREFIX + name: text for name, text in variables.items()}.items()
    assert not [key for key in given for name in absent if key.startswith(PREFIX + name)]
    volumes = " ".join(volume["name"] for volume in spec["volumes"])
    assert ("prometheus" in volumes) == any("PROMETHEUS_" in key for key in given)


def test_a_bearer_token_has_a_key_of_its_own_and_who_asks_no_api_server_has_no_rights() -> None:
    things = render(FROM_PROMETHEUS | {"prometheus": BEARER})
    spec = pod_specs(things)["prometheus"]
    (secret,) = (one["secret"] for one in spec["volumes"] if one["name"] == "prometheus-auth")
    assert secret["items"] == [{"key": "token", "path": "secret"}]
    assert spec["automountServiceAccountToken"] is False
    roles = [one["metadata"]["name"] for one in things if "Role" in one["kind"]]
    assert not [name for name in roles if name.endswith("-prometheus")]


def sees_software(container: Object) -> bool:
    return "SYS_PTRACE" in container["securityContext"]["capabilities"].get("add", [])


def test_only_who_asks_for_software_gets_a_capability() -> None:
    plain, asked = (
        next(one for _, _, one in every_container(render(values)) if one["name"] == "collector")
        for values in ({}, {"collector": {"software": {"enabled": True}}})
    )
    assert (sees_software(plain), sees_software(asked)) == (False, True)


def test_no_container_may_more_than_it_needs(things: list[Object]) -> None:
    for name, _, container in every_container(things):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"]["drop"] == ["ALL"]
        added = context["capabilities"].get("add", [])
        wanted = {"spool-owner": ["CHOWN"], "collector": ["SYS_PTRACE"] if sees_software(container) else []}
        assert added == wanted.get(container["name"], []), name
        assert "privileged" not in context


def test_every_pod_is_nobody_and_keeps_to_itself(things: list[Object]) -> None:
    for name, spec in pod_specs(things).items():
        context = spec["securityContext"]
        as_root = any(one["name"] in ("pod-resources", "cuda-logs", "steps") for one in spec["volumes"])
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["runAsNonRoot"] is not as_root
        assert (context["runAsUser"] == 0) is as_root
        assert spec.get("hostPID", False) is (name == "collector")
        assert not {"hostNetwork", "hostIPC"} & spec.keys()
        token = spec.get("automountServiceAccountToken")
        assert token is (name in WITH_TOKEN), name


def test_the_host_is_only_read_but_for_the_spool_and_the_socket(things: list[Object]) -> None:
    for name, spec, container in every_container(things):
        host = {one["name"] for one in spec["volumes"] if "hostPath" in one}
        assert name == "collector" or not host
        for mount in container["volumeMounts"]:
            if mount["name"] in host - {"spool", "steps"}:
                assert mount["readOnly"] is True, mount
    specs = pod_specs(things)
    if "collector" not in specs:
        return
    paths = {one["hostPath"]["path"] for one in specs["collector"]["volumes"] if "hostPath" in one}
    allowed = {"/proc", "/sys", "/var/lib/dutycycle/spool", "/var/lib/kubelet/pod-resources",
               "/var/lib/alnair/workspace", "/run/dutycycle"}  # fmt: skip
    assert {"/proc", "/sys"} <= paths <= allowed


def test_every_volume_is_mounted_and_every_mount_has_a_volume(things: list[Object]) -> None:
    for name, spec in pod_specs(things).items():
        volumes = {one["name"] for one in spec["volumes"]}
        mounts = {one["name"] for container in containers(spec) for one in container["volumeMounts"]}
        assert volumes == mounts, name


def test_secrets_are_files_and_never_in_the_environment() -> None:
    for _, _, container in [*every_container(render(FULL)), *every_container(render(FROM_PROMETHEUS))]:
        for one in container.get("env", ()):
            assert "secretKeyRef" not in json.dumps(one)
            secret = "PASSWORD" in one["name"] or "TOKEN" in one["name"]
            is_file = one["name"].endswith("_FILE") or one.get("value", "").startswith("/etc/dutycycle/")
            assert not secret or is_file
        mounts = {one["mountPath"]: one["readOnly"] for one in container["volumeMounts"] if "readOnly" in one}
        for key, value in environment(container).items() if "env" in container else ():
            if value.startswith("/etc/dutycycle/"):
                assert mounts[value.rpartition("/")[0]] is True, key


def test_probes_ask_the_port_that_is_listened_at(things: list[Object]) -> None:
    for name, _, container in every_container(things):
        if name == "topics" or container["name"] == "spool-owner":
            continue
        port = container["ports"][0]
        assert environment(container)["DUTYCYCLE_LISTEN"].endswith(f":{port['containerPort']}")
        probes = {
            one: container[one]["httpGet"] for one in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        assert {probe["port"] for probe in probes.values()} == {port["name"]}
        assert probes["livenessProbe"]["path"] == "/healthz"
        assert probes["readinessProbe"]["path"] == "/readyz"
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert {"cpu", "memory"} <= requests.keys()
        assert "memory" in limits
        assert "cpu" not in limits  # throttled, it would miss the ticks that it measures


def test_selectors_select_what_is_theirs(things: list[Object]) -> None:
    labels = {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]["metadata"][
            "labels"
        ]
        for one in things
        if "template" in one.get("spec", {})
    }
    for one in things:
        spec = one.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector") or {}
        wanted = selector.get("matchLabels") if "matchLabels" in selector else selector
        if not wanted or one["kind"] == "PodMonitor":
            continue
        chosen = {name for name, has in labels.items() if wanted.items() <= has.items()}
        assert chosen == {one["metadata"]["labels"]["app.kubernetes.io/component"]}, one["metadata"]["name"]


def test_each_object_is_there_once_and_in_its_namespace(things: list[Object]) -> None:
    cluster_wide = {"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy",
                    "ValidatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
                    "APIService", "PriorityClass", "FlowSchema", "PriorityLevelConfiguration"}  # fmt: skip
    for kind, namespace, name in by_key(things):
        place = "kube-system" if name.endswith("auth-reader") else NAMESPACE
        of_others = name in ("dutycycle-trials", "dutycycle-cull-workloads") and "Role" in kind
        places = {"ml", "vision"} if of_others else {place}
        assert namespace in ({""} if kind in cluster_wide else places), name
        assert name.startswith("v1beta1." if kind == "APIService" else "dutycycle")


def test_what_scales_scales_by_a_figure_that_we_serve() -> None:
    things = render(FULL)
    for name, least in (("streams", 3), ("sinks", 2)):
        spec = of_kind(things, "HorizontalPodAutoscaler", name)["spec"]
        metric = spec["metrics"][0]["external"]["metric"]
        assert metric["name"] == f"dutycycle_{LAG.name}"
        assert (
            metric["selector"]["matchLabels"]["container"] == containers(pod_specs(things)[name])[0]["name"]
        )
        assert spec["minReplicas"] == least <= spec["maxReplicas"] <= 8
        assert "replicas" not in of_kind(things, "Deployment", name)["spec"]  # it would undo the scaling
        assert of_kind(things, "PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1
    few = render({"kafka": {"partitions": 2}, "streams": {"autoscaling": {"enabled": True}}})
    assert of_kind(few, "HorizontalPodAutoscaler")["spec"]["maxReplicas"] == 2
    assert not [one for one in render() if one["kind"] == "HorizontalPodAutoscaler"]


def test_every_pod_can_be_told_where_to_run() -> None:
    place: Object = {
        "nodeSelector": {"kubernetes.io/os": "linux", "pool": "system"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    }
    values = dict.fromkeys(("collector", "streams", "sinks", "metrics"), place)
    values |= {one: {"enabled": True, **place} for one in ("adapter", "extender", "webhook")}
    values |= {"web": {"enabled": True, "tokenSecret": "web-token", **place}}
    values |= {one: {"enabled": True, "namespaces": ["ml"], **place} for one in ("trials", "cull")}
    brokers = {"topics": {"job": place}, "kafka": {"trial": {"enabled": True, **place}}}
    specs = pod_specs(render(values | brokers | CERTIFIED))
    other = render(FROM_PROMETHEUS | {"prometheus": FROM_PROMETHEUS["prometheus"] | place})
    specs["prometheus"] = pod_specs(other)["prometheus"]
    assert specs.keys() == {*OURS, "kafka"}
    for name, spec in specs.items():
        assert {key: spec[key] for key in place} == place, name


def test_names_and_labels_are_the_installers() -> None:
    for overrides, begins in (
        ({"fullnameOverride": "gpu-watch"}, "gpu-watch"), ({"nameOverride": "watch"}, "dutycycle-watch"),
    ):  # fmt: skip
        things = render(FULL | overrides)
        names = [
            one["metadata"]["name"] for one in things if one["kind"] not in ("APIService", "PriorityClass")
        ]
        assert all(name.startswith(begins) for name in names), names
        accounts = {one["metadata"]["name"] for one in things if one["kind"] == "ServiceAccount"}
        used = {spec.get("serviceAccountName") for spec in pod_specs(things).values()} - {None}
        assert used <= accounts | {"default"}
    for thing in render(FULL):
        labels = [thing["metadata"]["labels"]]
        if "template" in thing.get("spec", {}):
            labels.append(thing["spec"]["template"]["metadata"]["labels"])
            selector = thing["spec"].get("selector", {}).get("matchLabels", {})
            assert "team" not in selector, "an upgrade could not change it"
        assert {one["team"] for one in labels} == {"platform"}, thing["metadata"]["name"]


def test_every_part_takes_volumes_and_annotations_of_its_account() -> None:
    more: Object = {
        "extraVolumes": [{"name": "cache", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"},
    }
    values = {one: {"enabled": True, **more} for one in OURS if one not in ("topics", "prometheus")}
    for one in ("trials", "cull"):
        values[one] |= {"namespaces": ["ml"]}
    values["web"] |= {"tokenSecret": "web-token"}
    things = render(values | CERTIFIED)
    of_prometheus = render(FROM_PROMETHEUS | {"prometheus": FROM_PROMETHEUS["prometheus"] | more})
    for name in set(OURS) - {"topics"}:
        installed = of_prometheus if name == "prometheus" else things
        spec = pod_specs(installed)[name]
        assert more["extraVolumes"][0] in spec["volumes"], name
        assert more["extraVolumeMounts"][0] in spec["containers"][0]["volumeMounts"], name
        account = of_kind(installed, "ServiceAccount", f"-{name}")
        assert account["metadata"]["annotations"] == more["serviceAccountAnnotations"]


def test_health_and_metrics_are_behind_tls_and_a_token_where_it_is_asked_for() -> None:
    things = render(FULL)
    for name, _, container in every_container(things):
        if "readinessProbe" not in container:
            continue
        probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
        assert {one.get("scheme") for one in probes} == {"HTTPS"}, name
        given = environment(container)
        assert {
            "DUTYCYCLE_LISTEN_CERT",
            "DUTYCYCLE_LISTEN_KEY",
            "DUTYCYCLE_LISTEN_TOKEN_FILE",
        } <= given.keys()
    (endpoint,) = of_kind(things, "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", FULL["podMonitor"]["tlsConfig"])
    assert endpoint["authorization"]["credentials"] == {"name": "metrics-token", "key": "token"}
    assert endpoint["relabelings"] == FULL["podMonitor"]["relabelings"]
    (plain,) = of_kind(render({"podMonitor": {"enabled": True}}), "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert plain == {"port": "metrics", "interval": "30s", "honorLabels": True}


def test_an_image_may_be_named_by_its_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    things = render({"image": {"repository": "r.example/dutycycle", "tag": "1", "digest": digest}})
    assert {one["image"] for _, _, one in every_container(things)} == {f"r.example/dutycycle@{digest}"}


def test_the_trials_broker_is_the_compose_files() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["kafka"]
    (broker,) = pod_specs(render(TRIAL))["kafka"]["containers"]
    ours = environment(broker)
    of_listeners = {key for key in ours if "LISTENER" in key or "QUORUM" in key}
    assert broker["image"] == compose["image"]
    assert {k: v for k, v in ours.items() if k not in of_listeners} == {
        k: v for k, v in compose["environment"].items() if k not in of_listeners
    }
    things = render(TRIAL)
    service = of_kind(things, "Service")["metadata"]["name"]
    streams = environment(pod_specs(things)["streams"]["containers"][0])
    assert streams["DUTYCYCLE_BROKER"] == f"kafka://{service}:9092"
    names = {of_kind(render({"kafka": {"partitions": n}}), "Job")["metadata"]["name"] for n in (8, 9)}
    assert len(names) == 2, "a Job that changes gets another name"


def test_what_reads_a_prometheus_is_there_once_and_takes_the_place_of_the_collectors() -> None:
    things = render(FROM_PROMETHEUS)
    assert not [one for one in things if one["kind"] == "DaemonSet"]
    deployment = of_kind(things, "Deployment", "-prometheus")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["args"] == ["collect"]


@pytest.mark.parametrize(("given", "expected"), [("", None), ("fast", "fast"), ("-", "")])
def test_the_volume_of_the_records_is_of_the_class_that_is_named_or_of_none(
    given: str, expected: str | None
) -> None:
    claim = of_kind(
        render({"sinks": {"records": {"persistence": {"storageClassName": given}}}}), "PersistentVolumeClaim"
    )
    assert claim["spec"].get("storageClassName") == expected


def test_trials_are_tried_by_one_in_the_namespaces_and_within_the_budget_that_are_given() -> None:
    assert not [one for one in render() if "trials" in one["metadata"]["name"]]
    deployment = of_kind(render(FULL), "Deployment", "-trials")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    (container,) = deployment["template"]["spec"]["containers"]
    parser = argparse.ArgumentParser()
    trial.add_arguments(parser)
    asked = parser.parse_args(container["args"][1:])
    assert container["args"][0] == "trial"
    assert (asked.watch, asked.budget, asked.start_s, asked.at_once) == (("ml", "vision"), 120.5, 600, 2)


def test_the_class_of_trials_is_that_of_the_code_and_may_be_there_already() -> None:
    made = of_kind(render(TRIALS), "PriorityClass")
    assert made["metadata"]["name"] == THE_CLASS["metadata"]["name"]
    assert made | {"metadata": THE_CLASS["metadata"]} == THE_CLASS
    there = render({"trials": TRIALS["trials"] | {"priorityClass": {"create": False}}})
    assert not [one for one in there if one["kind"] == "PriorityClass"]


def test_dashboards_begin_with_the_data_source_that_is_named() -> None:
    objects = render({"dashboards": {"enabled": True, "datasource": "thanos"}})
    dashboards = [
        json.loads(text)
        for thing in objects
        if thing["kind"] == "ConfigMap" and "-dashboard-" in thing["metadata"]["name"]
        for text in thing["data"].values()
    ]
    assert dashboards
    for dashboard in dashboards:
        chosen = [one["current"] for one in dashboard["templating"]["list"] if one["query"] == "prometheus"]
        assert chosen == [{"text": "thanos", "value": "thanos"}]


def test_rules_and_dashboards_are_those_that_are_tested() -> None:
    things = render(
        {"prometheusRule": {"enabled": True, "labels": {"release": "x"}}, "dashboards": {"enabled": True}}
    )
    rule = of_kind(things, "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "x"
    files = sorted((CHART / "files/rules").glob("*.yml"))
    assert rule["spec"]["groups"] == [
        one for file in files for one in yaml.safe_load(file.read_text())["groups"]
    ]
    shown = {
        name: json.loads(text)
        for one in things
        if one["kind"] == "ConfigMap" and one["metadata"]["labels"].get("grafana_dashboard")
        for name, text in one["data"].items()
    }
    dashboards = {file.name: json.loads(file.read_text()) for file in (CHART / "files/dashboards").iterdir()}
    for name in ("peaks.json", "ledger.json"):  # by default: a database that only the compose file has
        del dashboards[name]
    assert shown == dashboards
