"""``dutycycle sink`` as a process that annotates through the fake API server, and what it is fed with."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from dutycycle.contract.records.derived import PodPeaks
from sinks.records.query import pod_peaks
from sinks.records.store import RecordsRefusedError
from tests.support.fakes.api_server import FakeApi, written
from tests.support.kafka import Sent, send, settings_of
from tests.support.processes.commands import STOP_S, begun, environ
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.client import kubeconfig
from tests.support.sinks import made
from tests.support.sinks.made import K80, sample

START_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Worker:
    """One sink: its environment, its log, and the file that its token lies in."""

    env: dict[str, str]
    log: Path
    token: Path

    @property
    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text() if self.log.exists() else ""


def worker(
    kafka: RunningBroker,
    prefix: str,
    api: FakeApi,
    folder: Path,
    name: str = "sink",
    *,
    authority: Path | None = None,
    **settings: str,
) -> Worker:
    """A sink that finds the fake by a kubeconfig, under a token that is its name."""
    token = folder / f"{name}.token"
    token.write_text(name)
    user = {"tokenFile": str(token)}
    config = kubeconfig(folder / f"{name}.kubeconfig", api.url, user, authority=authority)
    fields = {
        "broker": kafka.url, "topic_prefix": prefix, "partitions": "3",
        "records": f"sqlite:///{folder}/records.db", "annotation_interval": "1s",
    }  # fmt: skip
    env = environ(**fields | settings) | {"KUBECONFIG": str(config)}
    return Worker(env, folder / f"{name}.log", token)


@asynccontextmanager
async def sinking(one: Worker) -> AsyncIterator[asyncio.subprocess.Process]:
    """``dutycycle sink``, ended by SIGTERM, which has to be in good order."""
    async with begun("sink", env=one.env, log=one.log) as process:
        yield process
        if process.returncode is None:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), STOP_S) == 0, one.said


async def publish(one: Worker, records: Iterable[Sent]) -> None:
    """Put records on their topics."""
    await send(settings_of(one.env), records, START_MS)


def pods(count: int, cpu: float, *, final: bool = False, last_ms: int = 10_000) -> list[Sent]:
    """Peaks of so many pods, each with a figure that names it."""
    return [
        (
            "pod-peaks",
            f"uid-{i}",
            made.pod_peaks(
                f"uid-{i}", metrics={"cpu_util_pct": made.peak(cpu + i)}, gpus={}, processes=None,
                final=final, last_ms=last_ms, samples=last_ms // 1000,
            ),
        )
        for i in range(count)
    ]  # fmt: skip


def add_pods(api: FakeApi, count: int) -> None:
    """The objects of ``pods``, with an annotation of somebody else."""
    for i in range(count):
        api.add(pod_path(i), f"uid-{i}", example__mine="kept")


def pod_path(i: int) -> str:
    """Where the API server has a pod of ``pods``."""
    return f"/api/v1/namespaces/default/pods/pod-of-uid-{i}"


def pods_carry(api: FakeApi, count: int, cpu: float, last: str) -> bool:
    """Whether every pod carries exactly what ``pods`` says of it, and what was there before."""
    return all(
        written(api, pod_path(i)) == {"max_cpu_util": cpu + i, "updated": last}
        and api.objects[pod_path(i)]["annotations"]["example/mine"] == "kept"
        for i in range(count)
    )


def kept(env: Mapping[str, str]) -> list[PodPeaks]:
    """What a sink has written into its records so far."""
    try:
        return pod_peaks(env["DUTYCYCLE_RECORDS"])
    except RecordsRefusedError:
        return []


def node_path(node: str) -> str:
    """Where the API server has a node."""
    return f"/api/v1/nodes/{node}"


def tick(node: str, ts_ms: int) -> Sent:
    """A tick of a node with one GPU."""
    return "nvml-samples", node, replace(sample(replace(K80, uuid=f"GPU-of-{node}"), ts_ms=ts_ms), node=node)


def found_about(node: str, step: int) -> Sent:
    """What the streams know of the GPU of a node; far from the step before."""
    part = made.node_part(
        node, f"GPU-of-{node}", START_MS + 1000 * step,
        cyclic=True, period_s=_figure(step), slope_per_s=_figure(step) / 3600,
        maxima={"gpu_util_pct": 2.0**step},
    )  # fmt: skip
    return "node-parts", node, part


def carries(api: FakeApi, node: str, step: int) -> bool:
    """Whether a node says what was found in ``step``, whatever source it came from."""
    gpu = written(api, node_path(node)).get("gpu-1", {})
    found = gpu.get("period_s"), gpu.get("trend_pct_per_h"), gpu.get("max_gpu_util"), gpu.get("mem_used")
    return found == (_figure(step), _figure(step), 2**step, "11.2GB")


def _figure(step: int) -> int:
    return 100 if step % 2 else 1000
