"""``kubectl dutycycle``: one object by name, short names of kinds, forms of output, and other users."""

import json

import pytest
import yaml

from tests.support.kubectl.plugin_user import POD_TEMPLATE, SELECTED, User, job, mpijob, thing
from tests.support.servers.kube.accounts import grant, service_account
from tests.support.servers.kube.server import Kube

CRON = {
    "schedule": "0 0 * * *",
    "jobTemplate": {"spec": {"template": {"spec": POD_TEMPLATE["spec"] | {"restartPolicy": "Never"}}}},
}


@pytest.mark.parametrize(
    ("version", "kind", "spec", "words"),
    [
        ("apps/v1", "Deployment", SELECTED, ["deploy", "deployment", "deployments", "deployments.apps"]),
        ("apps/v1", "ReplicaSet", SELECTED, ["rs", "replicaset", "replicasets"]),
        ("apps/v1", "StatefulSet", SELECTED | {"serviceName": "web"}, ["sts", "StatefulSet"]),
        ("apps/v1", "DaemonSet", SELECTED, ["ds", "daemonsets"]),
        ("batch/v1", "CronJob", CRON, ["cj", "cronjob"]),
        ("kubeflow.org/v2beta1", "MPIJob", {}, ["mpijob", "mpijobs", "mpijobs.kubeflow.org"]),
    ],
)
def test_kinds_have_the_names_that_kubectl_knows(
    kube: Kube, user: User, namespace: str, version: str, kind: str, spec: dict[str, object], words: list[str]
) -> None:
    kube.admin.create(thing(version, kind, namespace, "web", web__0='{"cpu_util":7}') | {"spec": spec})
    for word in words:
        assert user.lines("peaks", f"{word}/web", "-n", namespace)[1][:1] == ["web-0"]
        assert user.lines("top", "jobs", f"{word}/web", "-n", namespace)[1][:2] == ["web", kind]


def test_a_selector_that_matches_objects_without_annotations(kube: Kube, user: User, namespace: str) -> None:
    made = job(namespace, "plain")
    made["metadata"]["labels"] = {"team": "vision"}
    kube.admin.create(made)
    status, stdout, stderr = user.run("top", "jobs", "-n", namespace, "-l", "team=vision")
    assert (status, stdout) == (0, "")
    says = f"no job in namespace {namespace} with the labels team=vision carries dutycycle.io/ annotations"
    assert stderr.startswith(says)


def test_without_headers_only_rows_are_printed(kube: Kube, user: User, pods: str) -> None:
    kube.admin.create(mpijob(pods, "bert", bert__0='{"cpu_util":7}'))
    for arguments in (["top", "pods"], ["top", "pods", "-o", "wide"], ["top", "jobs"], ["peaks", "bert"]):
        with_headers = user.lines(*arguments, "-n", pods)
        assert user.lines(*arguments, "-n", pods, "--no-headers") == with_headers[1:]


def test_a_wide_table_has_more_columns(kube: Kube, user: User, namespace: str) -> None:
    advice = {"advice": '"More loader processes."'}
    figures = {"gpu_util": '{"gpu_0_7":40,"gpu_1":97}', "gpu_mem_util": '{"gpu_0_7":12}'}
    words = '{"gpu_0":"measured","gpu_1":"allocated"}'
    made = thing("v1", "Pod", namespace, "some", **figures, **advice, gpu_attribution=words)
    kube.admin.create(made | {"spec": POD_TEMPLATE["spec"]})
    kube.admin.create(mpijob(namespace, "bert", bert__0='{"cpu_util":7}', **advice))
    header, row = user.lines("top", "pods", "-n", namespace, "-o", "wide")
    assert header[-3:] == ["MAX-MEM-BUS", "ATTRIBUTION", "ADVICE"]
    assert row[-5:] == ["12%", "measured,allocated", "More", "loader", "processes."]
    header, row = user.lines("top", "jobs", "-n", namespace, "-o", "wide")
    assert (header[-1], row[-3:]) == ("ADVICE", ["More", "loader", "processes."])


@pytest.mark.parametrize(
    "arguments",
    [["top", "pods"], ["top", "jobs"], ["peaks", "bert"], ["why", "busy"], ["why", "mpijob/bert"]],
)
def test_yaml_says_the_same_as_json(kube: Kube, user: User, pods: str, arguments: list[str]) -> None:
    kube.admin.create(mpijob(pods, "bert", bert__0='{"cpu_util":7}', advice='"Größer: yes, 10 %"'))
    status, as_json, _ = user.run(*arguments, "-n", pods, "-o", "json")
    assert status == 0
    status, as_yaml, _ = user.run(*arguments, "-n", pods, "-o", "yaml")
    assert status == 0
    assert json.loads(as_json) == yaml.safe_load(as_yaml) != []


def test_somebody_else_may_be_impersonated(kube: Kube, user: User, pods: str) -> None:
    everything = ["--as", "jane", "--as-group", "vision", "--as-group", "system:masters"]
    assert len(user.lines("top", "pods", "-n", pods, *everything)) == 3
    status, _, stderr = user.run("top", "pods", "-n", pods, "--as", "jane", "--as-group", "vision")
    assert (status, 'for User "jane"' in stderr) == (1, True)
    some = service_account(kube, pods, "some")
    grant(kube, some, pods, "some", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    status, _, stderr = User(some.kubeconfig).run("top", "pods", "-n", pods, "--as", "jane")
    assert (status, stderr.count("\n")) == (1, 1)
    assert "you may not act as somebody else: " in stderr
    assert "cannot impersonate" in stderr
