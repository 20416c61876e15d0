"""A scheduler and a kubelet of one node: they run a namespace's pods as real processes in real cgroups."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support.data.real_cgroup import RealCgroup
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.scenario import Scenario
from tests.support.kube.cluster import GPU, Cluster, gpus_of, now, pod_status
from tests.support.kube.kubelet_logs import serving_logs
from tests.support.servers.kube.client import Object, Refused
from tests.support.servers.kube.server import Kube

NO_SUCH_IMAGE = "registry.example.com/no-such-image:1"
_GPUS = 2
_POLL_S = 0.1
_RESTART_S = 1.0
_NO_GPU = f"0/1 nodes are available: 1 Insufficient {GPU}."
_NOT_PULLED = f'failed to pull and unpack image "{NO_SUCH_IMAGE}": not found'


@dataclass(slots=True)
class _Run:
    """A container's process, in a process group and a cgroup of its own."""

    pod: str
    process: subprocess.Popen[bytes]
    cgroup: RealCgroup
    has_gpu: bool
    started: str
    killed_at: float | None = None
    restart_at: float = 0.0
    restarts: int = 0


class ProcessKubelet:
    """From ``with`` to its end. ``gpus``: what the driver says of the process of a pod that asks for GPUs, or
    of none; it stands in the file ``scenario``. What a container writes is in ``log_of`` its pod."""

    def __init__(
        self, kube: Kube, cluster: Cluster, folder: Path, gpus: Callable[[int | None], Scenario]
    ) -> None:
        self._admin = kube.admin
        self._logs = serving_logs(kube.front_proxy, self._log_of)
        self._cluster = cluster
        self._folder = folder
        self._gpus = gpus
        self._runs: dict[str, _Run] = {}
        self._all: dict[str, _Run] = {}
        self._said: dict[str, Object] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="kubelet")
        self.errors: list[Exception] = []
        self.scenario = gpus(None).write(folder / "scenario")
        self.driver = driver(self.scenario)

    def __enter__(self) -> Self:
        trial = RealCgroup("trial")
        trial.make_or_skip()
        trial.remove()
        endpoint = {"kubeletEndpoint": {"Port": self._logs.__enter__()}}
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        status = {"status": {"addresses": [address], "daemonEndpoints": endpoint}}
        self._admin.patch(self._cluster.node_object, status, "status")
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._logs.__exit__(None, None, None)
        for uid in list(self._runs):
            self._kill(self._runs[uid], signal.SIGKILL)
            self._runs[uid].process.wait()
            self._end(uid)

    def _log_of(self, pod: str) -> tuple[Path, Callable[[], bool]]:
        uid, run = next((uid, run) for uid, run in self._all.items() if run.pod == pod)
        return self._file(uid), lambda: run.process.poll() is None and not self._stop.is_set()

    def _file(self, uid: str) -> Path:
        return self._folder / f"{uid}.log"

    @property
    def processes(self) -> int:
        """How many containers run."""
        return sum(one.process.poll() is None for one in list(self._runs.values()))

    def _work(self) -> None:
        path = f"/api/v1/namespaces/{self._cluster.namespace}/pods"
        while not self._stop.wait(_POLL_S):
            try:
                for pod in self._admin.request("GET", path)["items"]:
                    self._look({"apiVersion": "v1", "kind": "Pod", **pod})
            except (Refused, OSError):  # the pod went in this moment, or the server is away
                continue
            except Exception as error:  # noqa: BLE001 - the test asks for them
                self.errors.append(error)

    def _look(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        run = self._runs.get(uid)
        if run is not None and run.process.poll() is not None and run.killed_at is None:
            self._ended(pod, run)
        elif pod["metadata"].get("deletionTimestamp"):
            self._delete(pod, run)
        elif "nodeName" not in pod["spec"]:
            self._schedule(pod)
        elif run is None and pod["status"].get("phase", "Pending") == "Pending":
            self._start(pod)

    def _schedule(self, pod: Object) -> None:
        if gpus_of(pod) <= _GPUS:
            self._cluster.bind(pod)
            return
        why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": _NO_GPU}
        self._say(pod, {"phase": "Pending", "conditions": [why]})

    def _start(self, pod: Object, restarts: int = 0) -> None:
        container = pod["spec"]["containers"][0]
        if container["image"] == NO_SUCH_IMAGE:
            waiting = {"reason": "ErrImagePull", "message": _NOT_PULLED}
            self._say(pod, pod_status("Pending", container, {"waiting": waiting}))
            return
        uid = pod["metadata"]["uid"]
        cgroup = RealCgroup.of_pod(uid, "besteffort")
        cgroup.make()
        has_gpu = gpus_of(pod) > 0
        process = self._process(container, uid, cgroup, has_gpu=has_gpu)
        run = _Run(pod["metadata"]["name"], process, cgroup, has_gpu, now(), restarts=restarts)
        self._runs[uid] = self._all[uid] = run
        state = {"running": {"startedAt": run.started}}
        self._say(pod, pod_status("Running", container, state, cgroup.container_id, restarts))

    def _process(
        self, container: Object, uid: str, cgroup: RealCgroup, *, has_gpu: bool
    ) -> subprocess.Popen[bytes]:
        env = (
            os.environ
            | (self.driver if has_gpu else {})
            | {one["name"]: one["value"] for one in container.get("env", ())}
        )
        with self._file(uid).open("ab") as log:
            process = subprocess.Popen(
                ["sh", "-c", 'read -r _; exec "$@"', "sh", *container["command"], *container.get("args", ())],
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True,
            )  # fmt: skip
        cgroup.enter(process.pid)
        if has_gpu:
            self._gpus(process.pid).write(self.scenario)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        return process

    def _ended(self, pod: Object, run: _Run) -> None:
        """Its process has ended by itself: for good, or to be restarted a while later."""
        code = run.process.returncode
        code = code if code >= 0 else 128 - code
        policy = pod["spec"]["restartPolicy"]
        again = policy == "Always" or (policy == "OnFailure" and code)
        if again and not pod["metadata"].get("deletionTimestamp"):
            container, now = pod["spec"]["containers"][0], time.monotonic()
            if not run.restart_at:
                run.restart_at = now + _RESTART_S
                waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting"}}
                status = pod_status("Running", container, waiting, run.cgroup.container_id, run.restarts + 1)
                status["containerStatuses"][0]["lastState"] = _terminated(run, code)
                self._say(pod, status)
            elif now > run.restart_at:
                self._end(pod["metadata"]["uid"])
                self._start(pod, run.restarts + 1)
            return
        self._say_ended(pod, run, code)
        self._end(pod["metadata"]["uid"])

    def _delete(self, pod: Object, run: _Run | None) -> None:
        """SIGTERM, and SIGKILL when its time is over; then the pod is gone."""
        if run is not None:
            grace_s = pod["metadata"].get("deletionGracePeriodSeconds", 30)
            if run.killed_at is None:
                run.killed_at = time.monotonic()
                self._kill(run, signal.SIGTERM)
            elif time.monotonic() > run.killed_at + grace_s:
                self._kill(run, signal.SIGKILL)
            if run.process.poll() is None:
                return
            code = run.process.returncode
            self._say_ended(pod, run, code if code >= 0 else 128 - code)
            self._end(pod["metadata"]["uid"])
        self._admin.request("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    def _say_ended(self, pod: Object, run: _Run, code: int) -> None:
        phase, container = "Failed" if code else "Succeeded", pod["spec"]["containers"][0]
        state = _terminated(run, code)
        self._say(pod, pod_status(phase, container, state, run.cgroup.container_id, run.restarts))

    def _say(self, pod: Object, status: Object) -> None:
        uid = pod["metadata"]["uid"]
        if self._said.get(uid) != status:
            self._admin.patch(pod, {"status": status | {"startTime": now()}}, "status")
            self._said[uid] = status

    def _kill(self, run: _Run, number: signal.Signals) -> None:
        try:
            os.killpg(run.process.pid, number)
        except ProcessLookupError:
            return

    def _end(self, uid: str) -> None:
        run = self._runs.pop(uid)
        self._kill(run, signal.SIGKILL)  # what it left behind
        run.cgroup.remove()
        if run.has_gpu:
            self._gpus(None).write(self.scenario)


def _terminated(run: _Run, code: int) -> Object:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": run.started, "finishedAt": now()}}


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
