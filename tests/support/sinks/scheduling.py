"""Nodes and pods as the extender reads them, and an application of what a role answers."""

from collections.abc import Iterable

from aiohttp import web

from dutycycle.contract.records.derived import Peak, PodPeaks
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, Gpu, Host, NvmlSample

GIB = 1024**3
NOW = 1_760_000_000_000


def gpu(index: int = 0, used: float = 10 * GIB, total: float = 80 * GIB, **more: object) -> Gpu:
    """One with 80 GiB, a few of them used."""
    return Gpu(uuid=f"GPU-{index}", index=index, mem_used_bytes=used, mem_total_bytes=total, **more)  # type: ignore[arg-type]


def nvml(*gpus: Gpu, node: str = "a", ts_ms: int = NOW) -> NvmlSample:
    """What its GPUs show."""
    return NvmlSample(node=node, collector="c", seq=0, ts_ms=ts_ms, interval_ms=1000, gpus=gpus)


def host(cpu: float, *, ts_ms: int = NOW, **more: float) -> CgroupSample:
    """A node of 64 cores that uses so much, 100 a core."""
    return CgroupSample(
        node="a", collector="c", seq=0, ts_ms=ts_ms, interval_ms=1000, pods=(),
        host=Host(cpu_util_pct=cpu, cpu_count=64, **more),
    )  # fmt: skip


def pod(uid: str, **more: object) -> Pod:
    """One that runs on the node ``a``."""
    made = {
        "namespace": "ml", "images": ("train:1",), "program": "p1", "template": "t1", "gpu_request": 1.0,
        "phase": "Running", "started_ms": NOW - 600_000,
    }  # fmt: skip
    return Pod(uid=uid, name=uid, node="a", **made | more)  # type: ignore[arg-type]


def peaks(one: Pod, gib: float, final: bool = True) -> PodPeaks:
    """What it used: so much memory of its GPU, and 2.5 cores but for a moment."""
    most = Peak(max=gib * GIB, mean=gib * GIB, at_ms=NOW)
    cpu = Peak(max=620.0, mean=100.0, at_ms=NOW, p95=250.0)
    return PodPeaks(
        pod=one, first_ms=NOW - 500_000, last_ms=NOW, samples=500, final=final,
        metrics={"cpu_util_pct": cpu}, gpus={"a/0": {"mem_used_bytes": most}},
    )  # fmt: skip


def app_of(routes: Iterable[web.RouteDef]) -> web.Application:
    """What answers them, without a listener."""
    app = web.Application()
    app.add_routes(list(routes))
    return app
