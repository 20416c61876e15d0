"""A kubelet and a collector of many nodes, simulated: pods that were bound run, work in cycles, and end.

What a collector would have measured in minutes is published at once, so a test waits for no training.
"""

import asyncio
import math
import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from dutycycle.contract.records.pods import TRIAL_OF, JobRef, Pod
from dutycycle.contract.records.samples import Gpu, GpuProcess, NvmlSample
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import SAMPLE_TOPICS
from tests.support.kafka import make_topics, send
from tests.support.kube.cluster import gpus_of, now, pod_status
from tests.support.servers.kube.client import Object, Refused
from tests.support.servers.kube.server import Kube

_POLL_S = 0.1
_HEARD_S, _PARTS = 2.0, 4
"""After so long each part of a trial's samples comes: the command takes no samples of nodes of which it has
not heard, and misses the first moments as it would of a real pod."""
SECONDS = 150
"""Of one part; pods that are no trial have one."""
LOADING_S = 15
StepS = Callable[[Sequence[Object]], float]
"""What a step takes, by the pods that work together."""


class SimulatedPods:
    """From ``with`` to its end, those of one namespace. Of a Job all pods begin once all have a node.

    ``endless``: they run until they are deleted.
    """

    def __init__(self, kube: Kube, namespace: str, settings: Settings, step_s: StepS) -> None:
        self._admin = kube.admin
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._settings = settings
        self._step_s = step_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="simulated pods")
        self._begun: set[str] = set()
        self._free_ms: dict[str, int] = {}
        """When the last pods of a node ended, in the time of samples, which is ahead of the test's."""
        self.seen: dict[str, Object] = {}
        """Every pod that began, by name."""
        self.endless = False
        self.errors: list[Exception] = []

    def __enter__(self) -> Self:
        asyncio.run(make_topics(self._settings, SAMPLE_TOPICS))
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stop.wait(_POLL_S):
            try:
                self._look()
            except (Refused, OSError):  # a pod went in this moment
                continue
            except Exception as error:  # noqa: BLE001 - the test asks for them
                self.errors.append(error)
                traceback.print_exc()

    def _look(self) -> None:
        jobs: dict[str, list[Object]] = {}
        for pod in self._admin.request("GET", self._path)["items"]:
            pod = {"apiVersion": "v1", "kind": "Pod", **pod}
            if pod["metadata"].get("deletionTimestamp"):
                self._admin.delete(pod)
            elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                jobs.setdefault(pod["metadata"]["labels"]["job-name"], []).append(pod)
        for name, pods in jobs.items():
            if name not in self._begun and len(pods) == _pods_of(pods[0]):
                self._begun.add(name)
                self._run(pods)

    def _run(self, pods: list[Object]) -> None:
        for one in pods:
            self.seen[one["metadata"]["name"]] = one
            self._say(one, "Running", {"running": {"startedAt": now()}})
        nodes = {pod["spec"]["nodeName"] for pod in pods}
        start_ms = max([time.time_ns() // 1_000_000, *(self._free_ms.get(node, 0) for node in nodes)])
        parts = _PARTS if TRIAL_OF in pods[0]["metadata"]["labels"] else 1
        self._free_ms |= dict.fromkeys(nodes, start_ms + 1000 * (parts * SECONDS + 1))
        records = list(samples_of(pods, self._step_s(pods), start_ms, parts * SECONDS))
        size = -(-len(records) // parts)
        for at in range(0, len(records), size):
            self._stop.wait(_HEARD_S)
            asyncio.run(send(self._settings, records[at : at + size]))
        for one in () if self.endless else pods:
            ended = {"exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now()}
            self._say(one, "Succeeded", {"terminated": ended})

    def _say(self, pod: Object, phase: str, state: Object) -> None:
        container = pod["spec"]["containers"][0]
        status = pod_status(phase, container, state, container["name"]) | {"startTime": now()}
        self._admin.patch(pod, {"status": status}, "status")


def samples_of(
    pods: Sequence[Object], step_s: float, start_ms: int, seconds: int
) -> Iterator[tuple[str, str, Any, int]]:
    """Topic, key, record and time: it loads, then works for four fifths of each step."""
    chance = random.Random(3)  # noqa: S311 - a simulation
    nodes: dict[str, list[str]] = {}
    for one in pods:
        nodes.setdefault(one["spec"]["nodeName"], []).extend([one["metadata"]["uid"]] * gpus_of(one))
        yield "pods", one["metadata"]["uid"], _record(one, start_ms, None), start_ms
    for second in range(seconds):
        ts_ms = start_ms + 1000 * second
        works = second >= LOADING_S and math.modf((second - LOADING_S) / step_s)[0] < 0.8
        for node, uids in nodes.items():
            gpus = tuple(_gpu(index, uid, chance, works=works) for index, uid in enumerate(uids))
            sample = NvmlSample(
                node=node, collector=f"c-{start_ms}", seq=second, ts_ms=ts_ms, interval_ms=1000, gpus=gpus
            )
            yield "nvml-samples", node, sample, ts_ms
    end_ms = start_ms + 1000 * seconds
    for one in pods:
        yield "pods", one["metadata"]["uid"], _record(one, start_ms, end_ms), end_ms


def _gpu(index: int, uid: str, chance: random.Random, *, works: bool) -> Gpu:
    util = max(0, min(100, round((92 if works else 8) + chance.gauss(0, 1.5))))
    return Gpu(
        uuid=f"GPU-{index}", index=index, model="NVIDIA H200", gpu_util_pct=util,
        power_w=round(90 + 5 * util + chance.gauss(0, 4), 1), mem_used_bytes=60 * 1024**3,
        processes=(GpuProcess(pid=100 + index, pod_uid=uid),),
    )  # fmt: skip


def _record(pod: Object, start_ms: int, end_ms: int | None) -> Pod:
    meta = pod["metadata"]
    owner = meta["ownerReferences"][0]
    return Pod(
        uid=meta["uid"], namespace=meta["namespace"], name=meta["name"], node=pod["spec"]["nodeName"],
        phase="Running" if end_ms is None else "Succeeded", created_ms=start_ms, started_ms=start_ms,
        finished_ms=end_ms, gpu_request=float(gpus_of(pod)),
        job=JobRef(api_version="batch/v1", kind="Job", name=owner["name"], uid=owner["uid"]),
    )  # fmt: skip


def _pods_of(pod: Object) -> int:
    env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0].get("env", ())}
    return int(env.get("TRIAL_PODS") or 1)
