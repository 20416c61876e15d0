"""``kubectl dutycycle`` on the real API server; kubectl finds and runs it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle.kube import client
from dutycycle.kube.config import ConfigSource
from dutycycle.kube.discovery import POD
from dutycycle.kube.objects import ApiServer
from dutycycle.kubectl.annotations import ours
from tests.support.kubectl.plugin_user import (
    BUSY,
    IDLE,
    SELECTED,
    UPDATED,
    KubectlUser,
    User,
    install,
    job,
    mpijob,
    pod,
    thing,
)
from tests.support.servers.kube.accounts import grant, service_account
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.server import Kube

HEADER = ["NAME", "GPUS", "MAX-GPU", "MAX-CPU", "MAX-MEM", "MAX-NET(Mbit/s)", "MAX-DISK(MB/s)", "LAST-SAMPLE",
          "WORKLOAD", "BOTTLENECK"]  # fmt: skip
WORKER = (
    '{"gpu-a-gpu-0_util":100,"gpu-a-gpu-0_mem_mb":11669,"cpu_util":271.82,"cpu_util_p95":240,'
    '"cpu_mem_mb":245.7,"network_mbps":62.4,"disk_io":0}'
)
TWO_GPUS = '{"gpu-b-gpu-0_util":97,"gpu-b-gpu-0_mem_mb":512,"gpu-b-gpu-1_util":3,"cpu_util":250}'


@pytest.fixture
def node(kube: Kube, namespace: str) -> Iterator[str]:
    made = kube.admin.create(
        thing(
            "v1", "Node", None, f"node-{namespace}",
            gpu__static='{"count":2,"model":"Tesla K80","mem_size":"12GB","pcie_gen_width":"3x16"}',
            gpu__0='{"mem_used":"9.5GB","mem_free":"2.5GB","process_cnt":1,"cyclic":true,"period_s":13.2,'
                   '"max_gpu_util":100,"max_mem_util":66,"trend_pct_per_h":-0.4}',
            gpu__1='{"mem_used":"0GB","mem_free":"9.8GB","process_cnt":0,"cyclic":false,"max_gpu_util":0}',
        )
    )  # fmt: skip
    yield made["metadata"]["name"]
    kube.admin.delete(made)


def test_the_busiest_pods_come_first(user: User, pods: str) -> None:
    header, busy, idle = user.lines("top", "pods", "-n", pods)
    assert header == HEADER
    assert busy[:7] + busy[8:] == ["busy", "1", "97%", "272%", "246MB", "62.4", "0", "training", "input"]
    # Idle is 0, unknown is not.
    assert idle[:7] + idle[8:] == ["idle", "1", "0%", "0%", "2.4GB", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--sort-by", "memory"], ["idle", "busy"]),
        (["--sort-by=name"], ["busy", "idle"]),
        (["-l", "app=idle"], ["idle"]),
        (["-l", "app in (idle,busy)", "--sort-by=cpu"], ["busy", "idle"]),
    ],
)
def test_pods_are_sorted_and_selected(user: User, pods: str, flags: list[str], names: list[str]) -> None:
    _, *rows = user.lines("top", "po", "-n", pods, *flags)
    assert [row[0] for row in rows] == names


def test_a_figure_that_is_the_devices_own_is_told_from_a_measured_one(
    kube: Kube, user: User, namespace: str
) -> None:
    words = '{"gpu_0":"measured","gpu_1":"allocated","gpu_2":"unknown"}'
    figures = {"gpu_util": '{"gpu_0_7":40,"gpu_1":97}', "gpu_attribution": words, "updated": UPDATED}
    kube.admin.create(pod(namespace, "some", **figures))
    unknown = '{"gpu_0":"unknown","gpu_1":"unknown"}'
    kube.admin.create(pod(namespace, "unknown", gpu_attribution=unknown, updated=UPDATED))
    _, *rows = user.lines("top", "pods", "-n", namespace)
    assert [row[:4] for row in rows] == [["some", "3", "97%~", "-"], ["unknown", "2", "-", "-"]]
    some = user.run("why", "some", "-n", namespace)[1]
    assert "  of which     process 7 on GPU 0 40%, GPU 1 97%\n" in some
    assert "  attribution  GPU 0 measured, GPU 1 allocated, GPU 2 unknown\n" in some
    lines = user.run("why", "unknown", "-n", namespace)[1].splitlines()
    assert lines[1] == "  attribution  GPU 0 unknown, GPU 1 unknown"
    assert lines[2].startswith("  last sample  ")


def test_of_all_namespaces_each_is_named(user: User, pods: str) -> None:
    header, *rows = user.lines("top", "pods", "-A")
    assert header == ["NAMESPACE", *HEADER]
    assert [row[:2] for row in rows if row[0] == pods] == [[pods, "busy"], [pods, "idle"]]


async def test_many_pods_come_page_by_page(kube: Kube, namespace: str) -> None:
    for number in range(7):
        kube.admin.create(pod(namespace, f"p-{number}", **IDLE))
    source = ConfigSource("", str(kube.admin.kubeconfig))
    server = ApiServer(client.Client(source.read()), page=3)
    found = [meta["name"] async for meta in server.each(POD, namespace)]
    assert found == [f"p-{number}" for number in range(7)]
    await server.close()


def test_a_node_is_one_line_or_one_for_each_gpu(user: User, node: str) -> None:
    rows = user.lines("top", "nodes")
    (line,) = (row for row in rows if row[0] == node)
    assert line[1:] == [
        "2", "Tesla", "K80", "12GB", "9.5GB", "12.3GB", "1", "100%", "66%", "mixed", "-0.4", "-",
    ]  # fmt: skip
    first, second = (row[1:] for row in user.lines("top", "node", "--gpus") if row[0] == node)
    assert first == ["0", "9.5GB", "2.5GB", "1", "100%", "66%", "13.2s", "-0.4", "-"]
    assert second == ["1", "0MB", "9.8GB", "0", "0%", "-", "no", "-", "-"]


def test_jobs_of_every_kind_that_is_installed(kube: Kube, user: User, namespace: str) -> None:
    insights = {"kind": "training", "bottleneck": "imbalance"}
    kube.admin.create(mpijob(namespace, "bert", bert__worker__0=WORKER, bert__worker__1=TWO_GPUS, **insights))
    kube.admin.create(job(namespace, "etl", etl__x8='{"cpu_util":99.5,"cpu_mem_mb":1800}'))
    kube.admin.create(job(namespace, "plain"))
    _, bert, etl = user.lines("top", "jobs", "-n", namespace)
    assert bert == [
        "bert", "MPIJob", "-", "2", "-", "3", "100%", "272%", "246MB", "62.4", "0", "11.7GB", "-", "training",
        "imbalance",
    ]  # fmt: skip
    assert etl == ["etl", "Job", "-", "1", "-", "-", "-", "100%", "1.8GB", "-", "-", "-", "-", "-", "-"]
    assert user.completes("peaks", "-n", namespace, "b") == ["bert"]


def test_what_was_copied_from_a_deployment_is_no_job_of_its_own(
    kube: Kube, user: User, namespace: str
) -> None:
    web, copied, alone = (
        thing("apps/v1", kind, namespace, name, web__1='{"cpu_util":10}') | {"spec": SELECTED}
        for kind, name in (("Deployment", "web"), ("ReplicaSet", "web-5d9c"), ("ReplicaSet", "alone"))
    )
    owned(kube, copied, kube.admin.create(web))
    kube.admin.create(alone)
    _, *rows = user.lines("top", "jobs", "-n", namespace)
    assert sorted(row[:2] for row in rows) == [["alone", "ReplicaSet"], ["web", "Deployment"]]


def test_what_does_not_end_is_counted_now_and_ever(kube: Kube, user: User, namespace: str) -> None:
    """After a rollout of four pods to one, and with none of them left."""
    counts = {"pods_now": "1", "pods_ever": "20", "gpus_now": "1", "gpus_ever": "4"}
    said = {
        "pods_summary": '{"pods":1,"max_gpu_util":40}',
        "earlier_revisions": '{"5d8f":{"max_gpu_util":97}}',
    }
    of_web = counts | said | {"web__1": '{"gpu-a-gpu-0_util":40}'}
    for name, figures in (("web", of_web), ("none", counts | said | {"pods_now": "0", "gpus_now": "0"})):
        kube.admin.create(thing("apps/v1", "Deployment", namespace, name, **figures) | {"spec": SELECTED})
    _, none_row, web_row = user.lines("top", "jobs", "-n", namespace, "--sort-by", "name")
    assert web_row[:7] == ["web", "Deployment", "1", "20", "1", "4", "40%"]
    assert none_row[:7] == ["none", "Deployment", "0", "20", "0", "4", "40%"]
    _, why, _ = user.run("why", "deploy/web", "-n", namespace)
    assert "  pods         1 now, 20 ever\n  earlier      5d8f: GPU 97%\n" in why
    assert user.lines("peaks", "deploy/none", "-n", namespace)[1][:2] == ["(most)", "40%"]


def test_the_peaks_of_a_job_are_a_line_for_each_gpu(kube: Kube, user: User, namespace: str) -> None:
    kube.admin.create(mpijob(namespace, "bert", bert__worker__0=WORKER, bert__worker__1=TWO_GPUS))
    for name in ("bert", "mpijob/bert", "mpijobs.kubeflow.org/bert"):
        _, *rows = user.lines("peaks", name, "-n", namespace)
        assert rows == [
            ["bert-worker-0", "gpu-a", "0", "100%", "11.7GB", "272%", "240%", "246MB", "62.4", "0"],
            ["bert-worker-1", "gpu-b", "0", "97%", "512MB", "250%", "-", "-", "-", "-"],
            ["bert-worker-1", "gpu-b", "1", "3%", "-"],
            ["(most)", "100%", "11.7GB", "272%", "240%", "246MB", "62.4", "0"],
        ]


def test_a_large_job_says_that_it_has_more_gpus_than_are_named(
    kube: Kube, user: User, namespace: str
) -> None:
    summary = '{"pods":300,"max_gpu_util":99,"max_gpu_mem_mb":2000,"max_cpu_util":7}'
    large = {"pods_omitted": "299", "pods_summary": summary}
    kube.admin.create(job(namespace, "named", w__0=TWO_GPUS, **large))
    kube.admin.create(job(namespace, "other", w__0='{"gpu_util":90,"gpu_mem_mb":1000,"cpu_util":5}', **large))
    _, named, other = user.lines("top", "jobs", "-n", namespace)
    assert named[1:7] == ["Job", "-", "300", "-", "2+", "99%"]
    assert other[1:7] == ["Job", "-", "300", "-", "-", "99%"]
    status, stdout, _ = user.run("peaks", "other", "-n", namespace)
    assert (status, stdout.splitlines()[1].split()) == (
        0,
        ["w-0", "-", "-", "90%", "1GB", "5%", "-", "-", "-", "-"],
    )


def owned(kube: Kube, thing: Object, owner: Object) -> Object:
    """It, made as one that ``owner`` controls."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "controller": True}
    thing["metadata"]["ownerReferences"] = [reference]
    return kube.admin.create(thing)


def test_who_asks_for_a_job_that_something_owns_gets_the_owner_s_figures(
    kube: Kube, user: User, namespace: str
) -> None:
    template = {"spec": job(namespace, "x")["spec"]}
    cron = thing("batch/v1", "CronJob", namespace, "nightly", n__0=WORKER)
    cron = kube.admin.create(cron | {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": template}})
    owned(kube, job(namespace, "nightly-2"), cron)
    set_ = kube.admin.create(mpijob(namespace, "train"))
    owned(kube, job(namespace, "train-launcher"), set_)
    told = "the figures of job/nightly-2 are those of its owner cronjob/nightly"
    for command in (["peaks", "job/nightly-2"], ["top", "jobs", "nightly-2"]):
        status, stdout, stderr = user.run(*command, "-n", namespace)
        assert (status, stderr.splitlines()[0]) == (0, told), (stdout, stderr)
        assert "100%" in stdout
    status, stdout, _ = user.run("why", "job/nightly-2", "-n", namespace)
    assert (status, stdout.splitlines()[:2]) == (0, [f"cronjob {namespace}/nightly", f"  {told}"])
    status, _, stderr = user.run("peaks", "job/train-launcher", "-n", namespace)
    assert status == 1
    assert "mpijob/train, the owner of job/train-launcher, carries no figures of its pods yet" in stderr


def test_a_name_that_two_jobs_have(kube: Kube, user: User, namespace: str) -> None:
    kube.admin.create(mpijob(namespace, "bert", bert__worker__0=WORKER))
    kube.admin.create(job(namespace, "bert"))
    assert len(user.lines("peaks", "bert", "-n", namespace)) == 2  # the one that carries something
    kube.admin.patch(
        job(namespace, "bert"), {"metadata": {"annotations": {"dutycycle.io/bert-0": '{"cpu_util":1}'}}}
    )
    status, _, stderr = user.run("peaks", "bert", "-n", namespace)
    assert (status, "bert may be job/bert or mpijob/bert: say which" in stderr) == (1, True)
    assert len(user.lines("peaks", "job/bert", "-n", namespace)) == 2


def test_json_has_the_figures_as_they_are(user: User, pods: str) -> None:
    status, stdout, _ = user.run("top", "pods", "-n", pods, "-o", "json")
    busy, idle = json.loads(stdout)
    assert (status, busy["name"], idle["namespace"]) == (0, "busy", pods)
    assert busy["annotations"] == ours(
        {f"dutycycle.io/{key}": value for key, value in BUSY.items()}, "dutycycle.io"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["top", "pods"], "you may not list pods in namespace {}: "),
        (["top", "pods", "-A"], "you may not list pods in the whole cluster: "),
        (["top", "nodes"], "you may not list nodes: "),
        (["top", "jobs"], "you may not list jobs.batch in namespace {}: "),
        (["peaks", "bert"], "you may not get jobs.batch in namespace {}: "),
        (["why", "busy"], "you may not get pods in namespace {}: "),
    ],
)
def test_without_permission_it_says_which(
    kube: Kube, namespace: str, arguments: list[str], says: str
) -> None:
    nobody = User(service_account(kube, namespace, "nobody").kubeconfig)
    status, stdout, stderr = nobody.run(*arguments, "-n", namespace)
    assert (status, stdout) == (1, "")
    assert stderr.startswith("kubectl dutycycle: " + says.format(namespace))
    assert "dutycycle-reader" in stderr
    assert f'User "system:serviceaccount:{namespace}:nobody"' in stderr
    assert nobody.completes("why", "-n", namespace, "") == []


def test_kinds_that_may_not_be_listed_are_left_out_and_named(kube: Kube, namespace: str) -> None:
    kube.admin.create(job(namespace, "etl", etl__x8='{"cpu_util":99.5}'))
    some = service_account(kube, namespace, "some")
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}]
    grant(kube, some, namespace, "some", rules)
    status, stdout, stderr = User(some.kubeconfig).run("top", "jobs", "-n", namespace)
    assert (status, stdout.splitlines()[1].split()[0], stderr.count("\n")) == (0, "etl", 2)
    unknown, left_out = stderr.splitlines()
    assert unknown.startswith("last samples are not known: you may not list leases.coordination.k8s.io in ")
    assert left_out.startswith("left out: you may not list mpijobs.kubeflow.org, pytorchjobs.kubeflow.org, ")
    assert f", replicationcontrollers in namespace {namespace}: ask for that permission" in stderr
    assert left_out.count(':some"') == 1


def test_replication_controllers_and_kinds_of_the_users_own(kube: Kube, user: User, namespace: str) -> None:
    figures = {"bert__0": '{"cpu_util":7}'}
    spec = SELECTED | {"replicas": 0, "selector": {"app": "web"}}
    kube.admin.create(thing("v1", "ReplicationController", namespace, "old", **figures) | {"spec": spec})
    kube.admin.create(thing("example.com/v1", "Experiment", namespace, "exp1", **figures))
    assert [row[:2] for row in user.lines("top", "jobs", "-n", namespace)[1:]] == [
        ["old", "ReplicationController"]
    ]
    for name in ("old", "replicationcontroller/old", "experiment/exp1", "Experiments.example.com/exp1"):
        assert user.lines("peaks", name, "-n", namespace)[1][0] == "bert-0"
    status, _, stderr = user.run("peaks", "experiment/nope", "-n", namespace)
    assert (status, "there is no experiment nope" in stderr) == (1, True)


def test_pods_without_annotations_say_what_to_look_at(kube: Kube, user: User, namespace: str) -> None:
    kube.admin.create(pod(namespace, "plain"))
    _, _, stderr = user.run("top", "pods", "-n", namespace)
    assert f"no pod in namespace {namespace} carries dutycycle.io/ annotations" in stderr
    status, _, stderr = user.run("why", "plain", "-n", namespace)
    assert (status, "nothing is known of pod plain" in stderr) == (1, True)
    assert "carries others.io/" not in stderr
    assert user.run("top", "pods", "-n", namespace, "-o", "json")[1].strip() == "[]"


@pytest.mark.parametrize(
    ("change", "says"),
    [({"token": "wrong"}, "does not accept your credentials (401)"), ({"port": 1}, "Connection refused")],
)
def test_a_server_that_does_not_let_us_in(
    kube: Kube, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    client: Client = kube.client(str(change.get("token", "any")))
    text = client.kubeconfig.read_text().replace(f":{kube.port}", f":{change.get('port', kube.port)}")
    (tmp_path / "config").write_text(text)
    status, _, stderr = User(tmp_path / "config").run("top", "pods")
    assert (status, says in stderr, stderr.count("\n")) == (1, True, 1)


def test_kubectl_finds_the_plugin_and_its_completion(
    kube: Kube, user: User, pods: str, tmp_path: Path
) -> None:
    by_kubectl = KubectlUser(kube, kube.admin.kubeconfig, install(tmp_path))
    assert by_kubectl.lines("top", "pods", "-n", pods) == user.lines("top", "pods", "-n", pods)
    assert by_kubectl.completes("why", "-n", pods, "") == ["busy", "idle", "plain"]
    for wrong in (["top", "everything"], ["why", "nope", "-n", pods]):
        assert by_kubectl.run(*wrong) == user.run(*wrong)
