"""``dutycycle trial`` as a user types it: the real API server, scheduler and controllers, and the real Kafka.

Pods are simulated: what was measured of them in minutes is on the topics at once.
"""

import asyncio
import io
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
import yaml

from dutycycle.cli.main import main
from dutycycle.contract.codec import decode
from dutycycle.contract.records.insights import Trials
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.endpoint import Address, ask
from dutycycle.traces.extract import read_all
from tests.support.deploy.manifests import NAMESPACE, of_kind, render
from tests.support.kafka import settings_of
from tests.support.kube.simulated_pods import SimulatedPods
from tests.support.processes.commands import environ, mortal, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.accounts import Permission, expand, new_token, service_account, used
from tests.support.servers.kube.client import Client, Object, Refused
from tests.support.servers.kube.controllers import WORKLOADS, Controllers
from tests.support.servers.kube.scheduler import Scheduler, add_node
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.kube]
GPU = "nvidia.com/gpu"
ACCOUNT = "dutycycle-trials"
NODES = {"trial-a": 4, "trial-b": 2}


def job(pods: int = 1, gpus: int = 1, name: str = "train") -> Object:
    container = {
        "name": "main", "image": "train:1", "command": ["train"], "resources": {"limits": {GPU: str(gpus)}},
    }  # fmt: skip
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def step_s(pods: Sequence[Object]) -> float:
    """Two GPUs are nearly twice as fast, four are not; and over two nodes it takes longer."""
    gpus = sum(int(one["spec"]["containers"][0]["resources"]["limits"][GPU]) for one in pods)
    nodes = len({one["spec"]["nodeName"] for one in pods})
    return {1: 11.0, 2: 6.0, 4: 5.0}[gpus] * (1.0 if nodes == 1 else 1.4)


@dataclass
class User:
    """Types ``dutycycle trial`` in a namespace."""

    client: Client
    namespace: str
    folder: Path
    env: dict[str, str]

    @property
    def settings(self) -> Settings:
        return settings_of(self.env)

    def file(self, *things: Object) -> str:
        file = self.folder / "train.yaml"
        file.write_text(yaml.safe_dump_all(things))
        return str(file)

    def tries(self, *arguments: str) -> tuple[int, str, str]:
        """In this process, which saves the imports: exit status, stdout, stderr."""
        with (
            pytest.MonkeyPatch.context() as patched, redirect_stderr(io.StringIO()) as said,
            redirect_stdout(io.StringIO()) as printed,
        ):  # fmt: skip
            for name, value in self.env.items():
                patched.setenv(name, value)
            status = main(["trial", "-n", self.namespace, *arguments])
        print(printed.getvalue(), said.getvalue())
        return status, printed.getvalue(), said.getvalue()

    def begins(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "dutycycle", "trial", "-n", self.namespace, *arguments]
        return subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def left(self) -> str:
        """Of what a trial makes."""
        return self.client.kubectl("get", "pods,jobs", "-o", "name", "-n", self.namespace)


@pytest.fixture(scope="module")
def machinery(kube_server: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nodes, the scheduler, and the controllers of Jobs and of what is deleted with its owner."""
    kube_server.start()
    nodes = [add_node(kube_server.admin, name, gpus=gpus) for name, gpus in NODES.items()]
    controllers = Controllers(kube_server, tmp_path_factory.mktemp("controllers"), WORKLOADS)
    scheduler = Scheduler(kube_server, tmp_path_factory.mktemp("scheduler"))
    yield
    scheduler.stop()
    controllers.stop()
    for one in nodes:
        kube_server.admin.delete(one)


@pytest.fixture
def user(
    kafka: RunningBroker, topic_prefix: str, kube: Kube, namespace: str, machinery: None, tmp_path: Path
) -> User:
    env = environ(broker=kafka.url, topic_prefix=topic_prefix, partitions="1")
    env |= {"KUBECONFIG": str(kube.admin.kubeconfig), "XDG_STATE_HOME": str(tmp_path / "state")}
    return User(kube.admin, namespace, tmp_path, env)


@pytest.fixture
def pods(kube: Kube, user: User) -> Iterator[SimulatedPods]:
    with SimulatedPods(kube, user.namespace, user.settings, step_s) as one:
        yield one
    assert not one.errors


def test_numbers_of_gpus_are_compared_written_and_nothing_is_left(user: User, pods: SimulatedPods) -> None:
    """Two at once if they get a node each: on one there is no room for both."""
    made = user.client.create(job() | {"metadata": {"name": "train", "namespace": user.namespace}})
    user.client.patch(made, {"spec": {"suspend": True}})
    out = user.folder / "out"
    status, printed, said = user.tries(
        user.file(job()), "--gpus", "2,4,9", "--for", "1m", "--budget", "20", "--at-once", "2",
        "--out", str(out),
    )  # fmt: skip
    assert status == 0, said
    table = {line.split()[0]: line for line in printed.splitlines()[1:4]}
    for name, gpus, step_s in (("2gpu", 2, 6.0), ("4gpu", 4, 5.0)):
        cells = re.fullmatch(r"\S+(?: \*)? +\d +(\S+) ±\S+ % +(\S+) ±.*succeeded", table[name])
        assert cells is not None, table[name]
        # A period that is told is within 3 %, and the table has three digits of it.
        assert float(cells[1]) == pytest.approx(1 / step_s, rel=0.03)
        assert float(cells[2]) == pytest.approx(gpus * step_s, rel=0.03)
    assert "no node has 9 GPUs: the largest has 4" in table["9gpu"]
    assert "Best by GPU-seconds a cycle: gpus=2" in printed
    found = user.client.get(made)["metadata"]["annotations"]
    assert found["dutycycle.io/trial_best"] == "gpus=2"
    assert "GPU-s a cycle" in found["dutycycle.io/trial_figures"]
    (message,) = asyncio.run(read_all(user.settings, "trials", 20))
    record = decode(Trials, message.value or b"", "trials")
    assert message.key == f"{user.namespace}/train"
    assert (record.best, record.job_uid) == ("2gpu", made["metadata"]["uid"])
    assert [one.gpus for one in record.trials] == [2, 4, 9]
    assert orjson.loads((out / "trials.json").read_bytes())["best"] == "2gpu"
    assert (out / "trials.png").stat().st_size > 10_000
    assert user.left() == "job.batch/train\n"


def test_placements_are_where_they_say_and_preempt_nobody(user: User, pods: SimulatedPods) -> None:
    status, printed, said = user.tries(
        user.file(job(pods=2)), "--placement", "packed,spread", "--for", "1m", "--best", "rate"
    )
    assert status == 0, said
    nodes: dict[bool, set[str]] = {True: set(), False: set()}
    for name, one in pods.seen.items():
        nodes["packed" in name].add(one["spec"]["nodeName"])
        assert (one["spec"]["priority"], one["spec"]["preemptionPolicy"]) == (-1000, "Never")
    assert (len(nodes[True]), len(nodes[False])) == (1, 2)
    assert "Best by rate: gpus=1 pods=2 placement=packed" in printed
    assert user.left() == ""


def test_ctrl_c_leaves_nothing_and_the_next_one_deletes_what_a_killed_one_left(
    user: User, pods: SimulatedPods
) -> None:
    pods.endless = True
    file = user.file(job())
    for number in (signal.SIGINT, signal.SIGKILL):
        with user.begins(file, "--for", "5m") as process:
            wait_until(lambda: "pod/" in user.left(), lambda: "its pod")
            process.send_signal(number)
            _, said = process.communicate(timeout=240)
        if number == signal.SIGINT:
            assert (process.returncode, user.left()) == (130, ""), said
    (left,) = user.client.request("GET", f"/apis/batch/v1/namespaces/{user.namespace}/jobs")["items"]
    assert left["spec"]["activeDeadlineSeconds"] == 600 + 3600 + 60
    assert left["spec"]["ttlSecondsAfterFinished"] == 60
    assert "stays: its trial goes on" in user.tries("--clean")[2]
    left |= {"apiVersion": "batch/v1", "kind": "Job"}
    user.client.patch(
        left, {"metadata": {"annotations": {"dutycycle.io/trial-alive": "2026-01-01T00:00:00Z"}}}
    )
    pods.endless = False
    status, _, said = user.tries(file, "--for", "1m")
    assert status == 0, said
    assert f"deleted: job/{left['metadata']['name']}, left by a trial that was killed" in said
    wait_until(lambda: user.left() == "", user.left)


@dataclass
class Installed:
    """What the chart has for trials in one namespace. ``rights``: each with the namespace that it is for."""

    account: Client
    command: Sequence[str]
    rights: set[tuple[Permission, str]]


@pytest.fixture
def installed(kube: Kube, user: User) -> Installed:
    values = {"trials": {"enabled": True, "namespaces": [user.namespace]}}
    things = [
        one for one in render(values)
        if one["metadata"]["labels"]["app.kubernetes.io/component"] == "trials"
        and one["kind"] not in ("Deployment", "NetworkPolicy")
    ]  # fmt: skip
    kube.admin.kubectl("create", "namespace", NAMESPACE, check=False)
    kube.admin.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(things)
    )
    rights = {
        (right, one["metadata"].get("namespace", ""))
        for one in things if one["kind"] in ("ClusterRole", "Role") for right in expand(one["rules"])
    }  # fmt: skip
    (container,) = of_kind(render(values), "Deployment", "-trials")["spec"]["template"]["spec"]["containers"]
    return Installed(kube.client(new_token(kube, NAMESPACE, ACCOUNT), NAMESPACE), container["args"], rights)


def test_jobs_that_ask_for_it_are_tried_with_the_chart_s_rights_by_the_one_after_a_killed_one(
    kube: Kube, user: User, pods: SimulatedPods, installed: Installed
) -> None:
    """A Job that waits (``suspend``) asks in its annotation, and another one asks for nonsense."""
    for name, wish in (("asks", "gpus=2,4 for=1m budget=20"), ("wrong", "gpus=two")):
        meta = {"name": name, "namespace": user.namespace, "annotations": {"dutycycle.io/trial": wish}}
        made = job()
        user.client.create({**made, "metadata": meta, "spec": {**made["spec"], "suspend": True}})
    address = Address("127.0.0.1", free_port())
    env = user.env | {"KUBECONFIG": str(installed.account.kubeconfig), "DUTYCYCLE_LISTEN": str(address)}
    log, killed = user.folder / "watch.log", user.folder / "killed.log"

    def found(name: str) -> dict[str, str]:
        path = f"/apis/batch/v1/namespaces/{user.namespace}/jobs/{name}"
        annotations: dict[str, str] = user.client.request("GET", path)["metadata"]["annotations"]
        return {key.removeprefix("dutycycle.io/"): value for key, value in annotations.items()}

    pods.endless = True
    with mortal(*installed.command, env=env, log=killed):
        wait_until(lambda: "pod/" in user.left(), killed.read_text)
    (left,) = (
        one
        for one in user.client.request("GET", f"/apis/batch/v1/namespaces/{user.namespace}/jobs")["items"]
        if "-trial-" in one["metadata"]["name"]
    )
    silent = {"metadata": {"annotations": {"dutycycle.io/trial-alive": "2026-01-01T00:00:00Z"}}}
    user.client.patch(left | {"apiVersion": "batch/v1", "kind": "Job"}, silent)
    pods.endless = False
    with running(*installed.command, env=env, log=log):
        wait_until(
            lambda: "trial_asked" in found("asks") and "trial_asked" in found("wrong"), log.read_text, 90
        )
        assert ask(address, "/readyz")[0] == ask(address, "/healthz")[0] == 200
    assert f"job/{left['metadata']['name']} in namespace {user.namespace}: left by a trial" in log.read_text()
    assert (found("asks")["trial_state"], found("asks")["trial_best"]) == ("done", "gpus=2"), log.read_text()
    assert found("wrong")["trial_state"].startswith("failed: gpus='two': expected numbers")
    assert user.left() == "job.batch/asks\njob.batch/wrong\n"
    assert used(kube, ACCOUNT, allowed=False) == set()
    assert used(kube, ACCOUNT) == installed.rights


def test_the_account_can_neither_touch_other_jobs_nor_make_ones_that_preempt(
    user: User, installed: Installed
) -> None:
    other = user.client.create(job() | {"metadata": {"name": "other", "namespace": user.namespace}})
    meta = {"name": "made", "namespace": user.namespace}

    def refused(ask: Callable[[], object]) -> str:
        try:
            ask()
        except Refused as answer:
            return str(answer)
        return ""

    try:
        # The API server learns of a policy by a watch of its own, a moment after it was made.
        wait_until(
            lambda: "Jobs of trials alone" in refused(
                lambda: installed.account.delete(installed.account.create(job() | {"metadata": meta}))
            ),
            lambda: "it",
        )  # fmt: skip
        of_trial = meta | {"labels": {"dutycycle.io/trial-of": "train"}}
        for said, ask in (
            ("Jobs of trials alone", lambda: installed.account.delete(other)),
            ("preempts nobody", lambda: installed.account.create(job() | {"metadata": of_trial})),
            ("annotations", lambda: installed.account.patch(other, {"spec": {"suspend": True}})),
            ("annotations", lambda: installed.account.patch(other, {"metadata": {"labels": {"a": "b"}}})),
            (
                "annotations",
                lambda: installed.account.patch(other, {"metadata": {"annotations": {"a": "b"}}}),
            ),
        ):
            assert said in refused(ask), said
    finally:
        user.client.delete(other)


def test_what_cannot_be_tried_is_said_in_one_line(user: User, kube: Kube) -> None:
    no_gpu = job()
    no_gpu["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    preempts = {"value": 5, "preemptionPolicy": "PreemptLowerPriority"}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    kube.admin.create({**kind, "metadata": {"name": user.namespace}, **preempts})
    cases: list[tuple[int, tuple[Object, ...], list[str], str]] = [
        (2, (no_gpu,), [],
         "its containers ask for no GPUs: give one of them a limit such as nvidia.com/gpu: 1"),
        (2, (config, job()), [], "is a ConfigMap of v1, and trials are runs of one Job"),
        (2, (job(),), ["--budget", "2"], "too few for a single trial: gpus=1 for 3m takes 3"),
        (125, (job(),), ["--priority-class", user.namespace], "lets its pods preempt others"),
        (125, (job(),), ["--priority-class", "none"], "the cluster has none of this name"),
    ]  # fmt: skip
    for status, things, flags, message in cases:
        found, _, said = user.tries(user.file(*things), *flags)
        assert (found, message in said, said.count("\n")) == (status, True, 1), said
    nobody = service_account(kube, user.namespace, "nobody")
    user.env["KUBECONFIG"] = str(nobody.kubeconfig)
    found, _, said = user.tries(user.file(job()))
    assert found == 125
    assert 'cannot get resource "priorityclasses"' in said
    assert user.left() == ""
