"""Measures what annotations cost: writes per second that pods need, and how many a real API server takes.

``simulate`` is a cluster by the clock of its records, whose requests are counted; ``write_to_server`` writes
as many pods as it can, through the real sink, to a real kube-apiserver with etcd.
"""

import asyncio
import math
import os
import random
import subprocess
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.derived import Peak, PodPeaks
from dutycycle.contract.records.pods import Pod
from dutycycle.kube.client import Client as ApiClient
from dutycycle.kube.client import Limits
from dutycycle.kube.config import Access
from dutycycle.kube.objects import ApiServer, connect
from dutycycle.kube.references import ObjectRef, Patch
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import AnnotationSink
from sinks.deadletters import DeadLetters
from tests.support.servers.kube.client import Client
from tests.support.sinks.queueless import QueuelessSink

EVERY_S = 10
"""The streams say once in 10 s what a pod needed so far."""
LIFE_S = 3600.0
TICKS = 10
_NORMAL = NormalDist()


@dataclass(slots=True)
class Life:
    """A pod: warms up for two minutes, then works with bursts; its maxima are those of all ticks so far."""

    uid: str
    end_s: float
    began_s: float
    chance: random.Random
    most: dict[str, float] = field(default_factory=dict)
    samples: int = 0

    def record(self, now_s: float, *, final: bool) -> PodPeaks:
        """What the streams say of it now."""
        warm = min(1.0, (now_s - self.began_s + 10) / 120)
        self._see("gpu_util_pct", min(100.0, 70 + 20 * self._high()) * warm)
        self._see("mem_copy_util_pct", min(100.0, 30 + 10 * self._high()) * warm)
        self._see("cpu_util_pct", 400 * warm * math.exp(0.25 * self._high()))
        self._see("mem_used_bytes", 8e9 * warm * (1 + 0.02 * self._high()))
        self._see("net_rx_bytes_per_s", 1e7 * math.exp(0.8 * self._high()))
        self._see("io_read_bytes_per_s", 1e7 * math.exp(0.8 * self._high()))
        self.samples += TICKS
        at_ms = int(now_s * 1000)
        peaks = {name: Peak(max=most, mean=most / 2, at_ms=at_ms) for name, most in self.most.items()}
        gpu = {name: peaks[name] for name in ("gpu_util_pct", "mem_copy_util_pct")}
        pod = Pod(uid=self.uid, namespace="default", name=self.uid, node="n", phase="Running")
        return PodPeaks(
            pod=pod, first_ms=0, last_ms=at_ms, samples=self.samples, final=final, metrics=peaks,
            gpus={"n/0": gpu}, processes={"n/0/7": gpu},
        )  # fmt: skip

    def _high(self) -> float:
        """The largest of ten values with a standard normal distribution."""
        return _NORMAL.inv_cdf(self.chance.random() ** (1 / TICKS))

    def _see(self, metric: str, value: float) -> None:
        self.most[metric] = max(value, self.most.get(metric, 0.0))


class Memory(ApiServer):
    """An API server that takes everything at once, and counts."""

    def __init__(self) -> None:
        super().__init__(ApiClient(Access("memory")))
        self.objects: dict[ObjectRef, dict[str, str]] = {}
        self.reads = self.writes = 0

    async def annotations(self, ref: ObjectRef) -> dict[str, str]:
        """See ``ApiServer``."""
        self.reads += 1
        return self.objects.setdefault(ref, {})

    async def annotate(self, ref: ObjectRef, patch: Patch) -> dict[str, str]:
        """See ``ApiServer``."""
        self.writes += 1
        merged = {**self.objects[ref], **patch}
        self.objects[ref] = {key: value for key, value in merged.items() if value is not None}
        return self.objects[ref]

    async def close(self) -> None:
        """See ``ApiServer``."""


class SimulatedCluster:
    """Pods that come and go; when one has ended, another begins in its place."""

    def __init__(self, pods: int, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311
        self._names = iter(range(10**9))
        self._lives = [self._born(-self._chance.random() * LIFE_S) for _ in range(pods)]

    def _born(self, now_s: float) -> Life:
        seed = random.Random(self._chance.random())  # noqa: S311
        return Life(f"pod-{next(self._names)}", now_s + self._chance.expovariate(1 / LIFE_S), now_s, seed)

    def records(self, second: int) -> Iterator[PodPeaks]:
        """What the streams say in this second."""
        for i in range(second % EVERY_S, len(self._lives), EVERY_S):
            final = self._lives[i].end_s <= second
            yield self._lives[i].record(second, final=final)
            if final:
                self._lives[i] = self._born(second)


@dataclass(frozen=True, slots=True)
class Needed:
    """What a cluster needs, per second of its own time."""

    patches_per_s: float
    reads_per_s: float
    core: float
    """Share of a core that deciding takes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A round of writes: objects per second, and milliseconds of CPU each."""

    objects_per_s: float
    sink_ms: float
    server_ms: float


async def simulate(pods: int, seconds: int, seed: int) -> Needed:
    """``seconds`` of a cluster whose pods come and go, after a warm-up of as long."""
    cluster, server, spent_s = SimulatedCluster(pods, seed), Memory(), 0.0
    sink = QueuelessSink(server, WritePolicy(most=2 * pods))
    for second in range(2 * seconds):
        if second == seconds:
            server.reads = server.writes = 0
            spent_s = 0.0
        for record in cluster.records(second):
            began = time.process_time()
            sink.take(record, second)
            spent_s += time.process_time() - began
        began = time.process_time()
        await sink.write(second)
        spent_s += time.process_time() - began
    return Needed(server.writes / seconds, server.reads / seconds, spent_s / seconds)


async def write_to_server(pods: int, rounds: int) -> list[Taken]:
    """Write all pods again and again, as fast as it goes; the first round reads each as well."""
    from tests.support.servers.kube.server import Kube as ApiServer

    server = ApiServer()
    try:
        os.environ["KUBECONFIG"] = str(server.admin.kubeconfig)
        uids = [_make_pod(server.admin, f"pod-{i}") for i in range(pods)]
        return await _write_all(uids, rounds, _pids())
    finally:
        server.discard()


async def _write_all(uids: list[str], rounds: int, pids: list[int]) -> list[Taken]:
    api = await connect("on", limits=Limits(requests_per_s=100_000))
    assert api is not None
    telemetry = Telemetry("bench")
    letters = DeadLetters("", telemetry, _refuse, print)
    sink = AnnotationSink(api, WritePolicy(interval_s=0.01), letters, telemetry)
    task, found = asyncio.create_task(sink.run()), []
    for round_ in range(rounds + 1):
        began, ours, theirs = time.perf_counter(), time.process_time(), _cpu_s(pids)
        for i, uid in enumerate(uids):
            sink.take(
                ConsumerRecord("pod-peaks", 0, i, "", b"", 0), _peaks(f"pod-{i}", uid, 100.0 * 2**round_)
            )
        while not sink.pending_offsets().empty:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        took = time.perf_counter() - began
        sink_s, server_s = time.process_time() - ours, _cpu_s(pids) - theirs
        found.append(Taken(len(uids) / took, 1000 * sink_s / len(uids), 1000 * server_s / len(uids)))
    task.cancel()
    await sink.close()
    assert not telemetry.counts, telemetry.counts
    return found


def _make_pod(admin: Client, name: str) -> str:
    spec = {"containers": [{"name": "main", "image": "example.org/train:1"}], "nodeName": "gpu-a"}
    meta = {"name": name, "namespace": "default"}
    made = admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    return str(made["metadata"]["uid"])


def _peaks(name: str, uid: str, cpu: float) -> PodPeaks:
    pod = Pod(uid=uid, namespace="default", name=name, node="gpu-a", phase="Running")
    peak = Peak(max=cpu, mean=cpu, at_ms=1)
    peaks = dict.fromkeys(("cpu_util_pct", "mem_used_bytes", "gpu_util_pct"), peak)
    return PodPeaks(
        pod=pod, first_ms=0, last_ms=1, samples=1, final=False, metrics=peaks, gpus={"n/0": peaks}
    )


async def _refuse(out: ProducerRecord) -> Awaitable[object]:
    raise AssertionError(out.value)


def _pids() -> list[int]:
    """The API server's process and etcd's: children of ours."""
    found = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False)
    names = {int(pid): Path(f"/proc/{pid}/comm") for pid in found.stdout.split()}
    return [pid for pid, comm in names.items() if comm.exists() and comm.read_text()[:4] in ("etcd", "kube")]


def _cpu_s(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
