"""``dutycycle run job.yaml`` as a user types it: the real API server and controllers, pods as processes."""

import fcntl
import io
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle.cli.main import main
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.fakes.nvml.one_used import one_used
from tests.support.fakes.nvml.scenario import Scenario, square
from tests.support.kafka import all_topics
from tests.support.kube.cluster import GPU, Cluster
from tests.support.kube.kubelet import NO_SUCH_IMAGE, ProcessKubelet
from tests.support.kube.shipped import shipped_account
from tests.support.processes.commands import environ, running
from tests.support.servers.kube.accounts import service_account
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.controllers import WORKLOADS, Controllers
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.waiting import wait_until


class Line:
    """From ``port`` on loopback to the server at ``real``, bytes as they are, until a test cuts it."""

    def __init__(self, real: int) -> None:
        self._real = real
        self.port = free_port()
        self._open: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        """Take connections, again."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._open = [listener]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        for one in self._open:
            with suppress(OSError):  # it has ended by itself
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # cut
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._real))
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # cut
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


_TRAINS = """
import os, sys, time
held = bytearray(os.urandom(1)) * (200 << 20)
print("loss 0.5", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.2)
sys.exit(3)
"""
_REPORTS = """
import os, sys, time
os.environ["DUTYCYCLE_SOCKET"] = sys.argv[2]
from dutycycle.callbacks.pytorch import steps

def batches():
    while not os.path.exists(sys.argv[1]):
        yield 0

for batch in steps(batches(), batch_size=8):
    time.sleep(0.25)
"""
_STEP_S = 2.5
_SLEEPS = "import time; time.sleep(600)"


@pytest.fixture(scope="module")
def controllers(kube_server: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    """The controllers of Jobs, Deployments and of what is deleted with its owner."""
    kube_server.start()
    one = Controllers(kube_server, tmp_path_factory.mktemp("controllers"), WORKLOADS)
    yield one
    one.stop()


@pytest.fixture
def kubelet(
    kube: Kube, cluster: Cluster, controllers: Controllers, tmp_path: Path
) -> Iterator[ProcessKubelet]:
    """Runs the pods of the namespace; at the end nothing of them may be there."""
    with ProcessKubelet(kube, cluster, tmp_path, waving) as one:
        yield one
        assert not one.errors


def waving(pid: int | None) -> Scenario:
    """``one_used``, in steps."""
    world = one_used(pid)
    if pid is None:
        return world
    util = square(_STEP_S, 0.6, 5, 88)
    process = replace(world.gpus[0].processes[0], util=util)
    gpu = replace(world.gpus[0], values={**world.gpus[0].values, "util": util}, processes=[process])
    return replace(world, gpus=[gpu, world.gpus[1]])


@contextmanager
def terminal() -> Iterator[tuple[int, Callable[[], str]]]:
    """Of 80 columns: its file descriptor, and what was written on it so far."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    written = bytearray()

    def read() -> None:
        with suppress(OSError):  # the last one has closed it
            while data := os.read(ours, 4096):
                written.extend(data)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield theirs, lambda: bytes(written).decode(errors="replace")
    finally:
        os.close(theirs)
        thread.join()
        os.close(ours)


def pod_spec(
    program: str = _SLEEPS, image: str = "train:1", gpus: int = 0, arguments: Sequence[str] = ()
) -> Object:
    command = [sys.executable, "-c", program, *arguments]
    container: Object = {"name": "main", "image": image, "command": command}
    container |= {"resources": {"limits": {GPU: str(gpus)}}} if gpus else {}
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}


def pod(name: str, **of: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(**of)}


def job(name: str, **of: Any) -> Object:
    spec = {"backoffLimit": 0, "template": {"spec": pod_spec(**of)}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


CONFIG: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}}


class User:
    """Types ``dutycycle run`` in the namespace of ``cluster``, as ``client``."""

    def __init__(self, client: Client, cluster: Cluster, folder: Path, **settings: str) -> None:
        self._cluster = cluster
        self._folder = folder
        self._env = environ(**settings) | {
            "KUBECONFIG": str(client.kubeconfig), "XDG_STATE_HOME": str(folder / "state"),
        }  # fmt: skip

    def file(self, *things: Object) -> str:
        file = self._folder / "job.yaml"
        file.write_text(yaml.safe_dump_all(things))
        return str(file)

    @contextmanager
    def runs(self, *arguments: str | Path, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "dutycycle", "run", "-n", self._cluster.namespace]
        process = subprocess.Popen(
            [*command, *map(str, arguments)], env=self._env, stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def run_here(self, *arguments: str) -> tuple[int, str]:
        """The same in this process, which saves the imports: its exit status, and what it said on stderr."""
        with pytest.MonkeyPatch.context() as patched, redirect_stderr(io.StringIO()) as said:
            for name, value in self._env.items():
                patched.setenv(name, value)
            status = main(["run", "-n", self._cluster.namespace, *arguments])
        print(said.getvalue())
        return status, said.getvalue()


@pytest.fixture
def user(kube: Kube, cluster: Cluster, tmp_path: Path) -> User:
    return User(kube.admin, cluster, tmp_path)


def left_in(kube: Kube, cluster: Cluster) -> str:
    return kube.admin.kubectl("get", "pods,jobs,deployments,replicasets,configmaps", "-o", "name",
                              "-n", cluster.namespace)  # fmt: skip


def test_a_job_from_its_yaml_to_its_report(
    kube: Kube, cluster: Cluster, kubelet: ProcessKubelet, tmp_path: Path
) -> None:
    """On a terminal, until its steps are known; a collector and a stream run beside."""
    may_end, out = tmp_path / "may-end", tmp_path / "out"
    with EmbeddedBroker(all_topics()) as broker:
        shared = {"broker": broker.url, "interval": "0.25s", "partitions": "1"}
        user = User(kube.admin, cluster, tmp_path, **shared)
        env = environ(node=cluster.node, spool=str(tmp_path / "spool"), **shared)
        env |= {"KUBECONFIG": str(shipped_account(kube, "collector").kubeconfig)}
        env |= kubelet.driver
        with (
            running("collect", env=env, log=tmp_path / "collect.log"),
            running("stream", env=env, log=tmp_path / "stream.log"),
            terminal() as (theirs, said),
        ):
            file = user.file(CONFIG, job("train", program=_TRAINS, arguments=[str(may_end)], gpus=1))
            with user.runs(file, "--out", out, "--logs", stderr=theirs) as process:
                wait_until(lambda: "steps a minute" in said(), said)
                may_end.touch()
                printed, _ = process.communicate(timeout=240)
    print(said())
    assert process.returncode == 3, "the exit code of the container"
    assert re.fullmatch(r"\[train-\w+\] loss 0\.5\n", printed)
    assert "Traceback" not in said()
    assert f"job/train: created in namespace {cluster.namespace}" in said()
    assert f"running on {cluster.node}" in said()
    steps = re.search(r"1 running; ([\d.]+) steps a minute", said())
    assert steps is not None
    assert float(steps[1]) == pytest.approx(60 / _STEP_S, rel=0.1)
    assert re.search(r"job/train: failed: exit code 3 of main in pod train-\w+", said())
    assert re.search(r"GPUs +1 × NVIDIA H200", said())
    assert re.search(r"GPU utilization +mean [\d.]+ %, max 88 %", said())
    assert re.search(r"GPU memory, max of one +3\.0 GiB of 141\.0 GiB", said())
    memory = re.search(r"Host memory, max +(\d+) MiB", said())
    assert memory is not None
    assert 200 <= int(memory[1]) < 320
    page = (out / "report.html").read_text()
    assert f"{cluster.namespace}/train" in page
    assert 'data-chart="gpu-util"' in page
    assert (out / "trace.jsonl.zst").exists()
    assert left_in(kube, cluster) == ""


def test_a_job_whose_training_reports_its_steps(
    kube: Kube, cluster: Cluster, kubelet: ProcessKubelet, tmp_path: Path
) -> None:
    """No stream runs: that they are its steps is known from the training alone."""
    may_end, out, socket = tmp_path / "may-end", tmp_path / "out", tmp_path / "steps.sock"
    with EmbeddedBroker(all_topics()) as broker:
        shared = {"broker": broker.url, "interval": "0.25s", "partitions": "1"}
        user = User(kube.admin, cluster, tmp_path, **shared)
        env = environ(
            node=cluster.node, spool=str(tmp_path / "spool"), steps_socket=str(socket), **shared
        ) | {"KUBECONFIG": str(shipped_account(kube, "collector").kubeconfig)}
        env |= kubelet.driver
        with running("collect", env=env, log=tmp_path / "collect.log"), terminal() as (theirs, said):
            reports = job("train", program=_REPORTS, arguments=[str(may_end), str(socket)], gpus=1)
            with user.runs(user.file(reports), "--out", out, stderr=theirs) as process:
                wait_until(lambda: "steps a minute" in said(), said)
                may_end.touch()
                process.communicate(timeout=240)
    print(said())
    assert process.returncode == 0
    steps = re.search(r"1 running; ([\d.]+) steps a minute", said())
    assert steps is not None
    assert 20 < float(steps[1]) <= 240
    assert re.search(r"Steps +\d+, [\d.]+ a minute, as the training reports", said())
    assert re.search(r"Samples +[\d.]+ a second", said())
    assert "Training loops, from inside" in (out / "report.html").read_text()


def test_ctrl_c_and_sigterm_leave_nothing_and_what_was_there_stays(
    kube: Kube, cluster: Cluster, kubelet: ProcessKubelet, user: User
) -> None:
    kube.admin.create(CONFIG | {"metadata": {"name": "config", "namespace": cluster.namespace}})
    file = user.file(CONFIG, job("a"), pod("b"))
    status, said = user.run_here(file)
    assert (status, said.count("\n")) == (125, 1)
    assert "configmap/config is there already in namespace" in said
    for number in (signal.SIGINT, signal.SIGTERM):
        with user.runs(file, "--update") as process:
            wait_until(lambda: kubelet.processes == 2, lambda: "both pods to run")
            process.send_signal(number)
            _, said = process.communicate(timeout=240)
        assert process.returncode == 128 + number, said
        assert f"dutycycle: ended by {number.name}" in said
        assert (left_in(kube, cluster), kubelet.processes) == ("configmap/config\n", 0)
    status, said = user.run_here(user.file(pod("kept", program="print('done')")), "--keep")
    assert status == 0, said
    assert f"pod/kept: kept; to delete it: kubectl delete pods -n {cluster.namespace} kept" in said
    assert left_in(kube, cluster) == "pod/kept\nconfigmap/config\n"


def test_a_deployment_for_a_while_and_the_server_is_away_at_its_end(
    kube: Kube, cluster: Cluster, kubelet: ProcessKubelet, tmp_path: Path
) -> None:
    line = Line(kube.port)
    (tmp_path / "away").mkdir()
    there = replace(kube.admin.access, url=f"https://127.0.0.1:{line.port}")
    user = User(Client(there, kube.programs.kubectl, tmp_path / "away"), cluster, tmp_path)
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec() | {"restartPolicy": "Always"}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generateName": "web-"}, "spec": spec}
    file = user.file(made)
    status, said = user.run_here(file)
    assert (status, said.count("\n")) == (2, 1)
    assert "never ends by itself: give --for 10m" in said
    with user.runs(file, "--for", "5s") as process:
        wait_until(lambda: kubelet.processes == 2, lambda: "both pods to run")
        time.sleep(0.5)  # it has heard of that
        line.cut()
        time.sleep(7)
        assert kubelet.processes == 2, "nobody could delete them"
        line.mend()
        _, said = process.communicate(timeout=240)
    line.cut()
    assert process.returncode == 0, said
    assert "API server: " in said
    assert "dutycycle: ran for 5s, as --for says" in said
    assert (left_in(kube, cluster), kubelet.processes) == ("", 0)


def test_a_job_of_an_operator(kube: Kube, cluster: Cluster, kubelet: ProcessKubelet, user: User) -> None:
    """The operator is played by the test: it makes a pod, and says how the job ended."""
    replicas = {"Worker": {"replicas": 1, "template": {"spec": pod_spec()}}}
    made = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "bert"},
            "spec": {"pytorchReplicaSpecs": replicas}}  # fmt: skip
    there = {"metadata": {"name": "bert", "namespace": cluster.namespace}}
    path = f"/apis/kubeflow.org/v1/namespaces/{cluster.namespace}/pytorchjobs/bert"
    with user.runs(user.file(made)) as process:
        wait_until(lambda: kube.admin.answers(path), lambda: "the job")
        owner = kube.admin.get(made | there)
        worker = cluster.make("v1", "Pod", "bert-worker-0", owner, spec=pod_spec("print('done')"))
        wait_until(lambda: kube.admin.get(worker)["status"].get("phase") == "Succeeded", lambda: "its worker")
        kube.admin.patch(
            owner, {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}, "status"
        )
        _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert "pod bert-worker-0: " in said
    assert "dutycycle: pytorchjob/bert: succeeded" in said
    assert not kube.admin.answers(path)
    wait_until(lambda: left_in(kube, cluster) == "", lambda: left_in(kube, cluster))


def test_what_cannot_run_is_said_in_one_line_and_leaves_nothing(
    kube: Kube, cluster: Cluster, kubelet: ProcessKubelet, user: User, tmp_path: Path
) -> None:
    typo = job("a")
    typo["spec"]["backofLimit"] = 1
    nobody = User(service_account(kube, cluster.namespace, "nobody"), cluster, tmp_path)
    cases: list[tuple[User, tuple[Object, ...], list[str], str]] = [
        (user, (CONFIG, typo), [], 'cannot create job/a: .*unknown field "spec.backofLimit"'),
        (user, (CONFIG, job("A_b")), [], 'cannot create job/A_b: .*Invalid value: "A_b"'),
        (user, (job("a"),), ["-n", "no-such"], 'cannot create job/a: namespaces "no-such" not found'),
        (nobody, (job("a"),), [], 'look for job/a: .* cannot get resource "jobs"'),
    ]
    for who, things, flags, message in cases:
        status, said = who.run_here(who.file(*things), *flags)
        assert status == 125, said
        (verdict,) = (line for line in said.splitlines() if line.startswith("dutycycle: "))
        assert re.search(message, verdict), said
        assert left_in(kube, cluster) == ""


def test_what_it_waits_for_is_said(kube: Kube, cluster: Cluster, kubelet: ProcessKubelet, user: User) -> None:
    hard = {"hard": {"pods": "2"}}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "spec": hard,
        "status": hard | {"used": {"pods": "0"}},
    }
    kube.admin.create(quota | {"metadata": {"name": "two", "namespace": cluster.namespace}})
    file = user.file(pod("many", gpus=9), pod("no-image", image=NO_SUCH_IMAGE), job("third"))
    waits = (
        f"pod many: pending: unschedulable: 0/1 nodes are available: 1 Insufficient {GPU}.",
        f"pod no-image: pending: image {NO_SUCH_IMAGE} cannot be pulled: failed to pull",
        "job/third: its pods are refused: Error creating: pods ",
    )
    with terminal() as (theirs, said), user.runs(file, stderr=theirs) as process:
        wait_until(lambda: all(one in said() for one in waits), said)
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 128 + signal.SIGTERM
    assert "exceeded quota: two" in said()
    assert left_in(kube, cluster) == ""
