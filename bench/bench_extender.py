"""How long kube-scheduler waits for the extender, with nodes of 8 GPUs: percentiles over HTTP.

    python -m bench.bench_extender [--nodes 5000] [--whole] [CHECKOUT …]

A process answers ``filter`` and ``prioritize`` for pods of all kinds (one template in three has kin, jobs of
one to sixteen pods), first in peace, then while every node sends its two samples a second, then while the
same process renders its series of these nodes (100,000 with 1,000 nodes), scrape after scrape. The client is
another process. With ``--whole`` the scheduler sends nodes as whole objects of 5 KB, and not their names.
Other checkouts of this repository are measured in turns with this one.
"""

import argparse
import asyncio
import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from msgspec.structs import replace

from dutycycle.cli.garbage import collect_rarely
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.records.base import VersionedRecord
from dutycycle.contract.records.derived import Peak, PodPeaks
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, Gpu, Host, NvmlSample
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import TOPICS
from dutycycle.kube.templates import template_of
from dutycycle.telemetry.events import EXTENDER, METRICS, Telemetry
from sinks.prometheus.role import MetricsRole
from sinks.scheduling.extender import Extender
from sinks.scheduling.known import KnownCluster
from sinks.scheduling.questions import LARGEST
from sinks.serve.service import SWITCH_S

GPUS, TEMPLATES, ROUNDS = 8, 60, 3
_OPTIONS = argparse.ArgumentParser(add_help=False)
_OPTIONS.add_argument("--nodes", type=int, default=1000)
_OPTIONS.add_argument("--whole", action="store_true")
_OPTIONS.add_argument("--beside", choices=("peace", "samples", "scrapes"), default="peace")
_OPTIONS.add_argument("--serve", action="store_true")
_OPTIONS.add_argument("checkouts", type=Path, nargs="*")
OPTIONS = _OPTIONS.parse_args()
NODES: int = OPTIONS.nodes
PODS = 50 if OPTIONS.whole else 150
NAMES = [f"node-{at:04}" for at in range(NODES)]
WHAT = {
    "peace": "in peace", "samples": f"{2 * NODES} samples/s", "scrapes": f"{2 * NODES} samples/s and scrapes"
}  # fmt: skip
_GIB = 1024**3
_TICK_S = 0.05
_AT_ONCE = 50
"""Records between two moments at which a question can be answered, as ``dutycycle.view.follower`` has it."""


def pod(number: int) -> dict[str, Any]:
    """A pod as kube-scheduler shows it: its template and its job by its number."""
    gpus, template = (1, 2, 4, 8)[number % 4], number % TEMPLATES
    owner = {"kind": "Job", "name": f"j{number}", "uid": f"job-{number % 40}", "controller": True}
    room = {"nvidia.com/gpu": str(gpus), "cpu": "8", "memory": "32Gi"}
    main = {"name": "main", "image": f"train:{template}", "resources": {"limits": room, "requests": room}}
    meta = {"namespace": "ml", "name": f"p{number}", "uid": f"uid-{number}", "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {"containers": [main]}}


def whole_node(name: str) -> dict[str, Any]:
    """A node as the scheduler has it, without managed fields: labels, room, conditions, and 20 images."""
    labels = {f"feature.node.kubernetes.io/cpu-{at}": "true" for at in range(20)}
    room = {"cpu": "64", "memory": "527951372Ki", "nvidia.com/gpu": "8", "pods": "110"}
    conditions = [
        {"type": kind, "status": "False", "reason": f"HasNo{kind}", "message": f"kubelet has no {kind}",
         "lastHeartbeatTime": "2026-11-22T12:00:00Z", "lastTransitionTime": "2026-11-20T12:00:00Z"}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]  # fmt: skip
    images = [
        {"names": [f"registry.example.com/team/{name}-{at}@sha256:{'0' * 64}"], "sizeBytes": 9_000_000_000}
        for at in range(20)
    ]
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "123456", "labels": labels},
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"aws:///eu-1a/{name}"},
        "status": {"capacity": room, "allocatable": room, "conditions": conditions, "images": images},
    }


def samples(at_ms: int) -> list[tuple[str, str, bytes]]:
    """One of each kind from every node, encoded: topic, key, payload."""
    chance = random.Random(1)  # noqa: S311
    found: list[tuple[str, str, bytes]] = []
    for name in NAMES:
        gpus = tuple(
            Gpu(
                uuid=f"{name}-{index}", index=index, mem_total_bytes=80 * _GIB,
                mem_used_bytes=chance.random() * 80 * _GIB, gpu_util_pct=chance.random() * 100, power_w=300.0,
                temp_c=60.0, sm_clock_mhz=1980.0, mem_clock_mhz=2600.0, mem_copy_util_pct=10.0,
                throttle=("gpu_idle",), processes=(), energy_j=1e9 + index,
            )
            for index in range(GPUS)
        )  # fmt: skip
        common: dict[str, Any] = {"node": name, "collector": "c", "seq": 0, "ts_ms": at_ms}
        common["interval_ms"] = 1000
        host = Host(cpu_util_pct=chance.random() * 6400, cpu_count=64)
        records: dict[str, VersionedRecord] = {
            "nvml-samples": NvmlSample(gpus=gpus, **common),
            "cgroup-samples": CgroupSample(pods=(), host=host, **common),
        }
        found += [(topic, name, encode(one)) for topic, one in records.items()]
    return found


def cluster() -> KnownCluster:
    """What is known after a while: kin of every third template, and jobs that run."""
    known = KnownCluster()
    for number in range(0, TEMPLATES, 3):
        made = template_of(pod(number)["spec"])
        one = Pod(
            uid="", name="", node=NAMES[0], namespace="ml", program=made.program, template=made.template,
            phase="Running", started_ms=0,
        )  # fmt: skip
        for run in range(50):
            ended = replace(one, uid=f"old-{number}-{run}")
            gpu = {"mem_used_bytes": Peak(max=(20 + run) * _GIB, mean=_GIB, at_ms=0)}
            cpu = {"cpu_util_pct": Peak(max=800.0, mean=100.0, at_ms=0)}
            known.take(ended.uid, PodPeaks(
                pod=ended, first_ms=0, last_ms=run * 60_000, samples=9, final=True, metrics=cpu,
                gpus={f"{NAMES[0]}/0": gpu},
            ))  # fmt: skip
    return known


def scraped(records: Sequence[tuple[str, str, bytes]]) -> threading.Thread:
    """A thread that renders the series of these records, one page after the other."""
    telemetry = Telemetry(METRICS)
    role = MetricsRole(load({"DUTYCYCLE_NODE": "n"}), telemetry)
    for topic, key, payload in records:
        if topic in role.subscription.topics:
            role.subscription.take(topic, key, decode(TOPICS[topic].record, payload, topic))
    sys.setswitchinterval(SWITCH_S)

    def render() -> None:
        while True:
            began_s = time.perf_counter()
            series = telemetry.metrics.page().count(b"\ndutycycle_gpu")
            print(f"{series} series in {time.perf_counter() - began_s:.2f} s", file=sys.stderr)

    return threading.Thread(target=render, daemon=True)


async def serve(beside: str) -> None:
    """Answer until standard input ends, as ``dutycycle serve`` does; the port is the first line."""
    collect_rarely()
    known = cluster()
    app = web.Application(client_max_size=LARGEST)
    app.add_routes(Extender(known, Telemetry(EXTENDER)).routes())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    now_ms = round(time.time() * 1000)
    records = samples(now_ms)
    for topic, key, payload in records:
        known.take(key, decode(TOPICS[topic].record, payload, topic))
    if beside == "scrapes":
        scraped(records).start()
    print(runner.addresses[0][1], flush=True)
    feeding = asyncio.create_task(feed(known, records)) if beside != "peace" else None
    await asyncio.to_thread(sys.stdin.read)
    if feeding is not None:
        feeding.cancel()


async def feed(known: KnownCluster, records: Sequence[tuple[str, str, bytes]]) -> None:
    """All records each second, those that come together in batches."""
    began, done = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began) * len(records))
        while done < due:
            for at in range(done, min(done + _AT_ONCE, due)):
                topic, key, payload = records[at % len(records)]
                ts_ms = round(time.time() * 1000)
                if known.wants(topic, key, ts_ms):
                    known.take(key, replace(decode(TOPICS[topic].record, payload, topic), ts_ms=ts_ms))
            done = min(done + _AT_ONCE, due)
            await asyncio.sleep(0)
        await asyncio.sleep(_TICK_S)


def measured(checkout: Path, beside: str) -> tuple[list[float], list[float]]:
    """Milliseconds to each answer of the code of a ``checkout``, and of CPU that the server had until then:
    the second is what the first would be if nothing else ran on the machine."""
    command = [sys.executable, str(Path(__file__).resolve()), "--serve", "--nodes", str(NODES)]
    command += ["--beside", beside]
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve()), "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        client = http.client.HTTPConnection("127.0.0.1", int(server.stdout.readline()))
        asked = '"NodeNames":' + json.dumps(NAMES)
        if OPTIONS.whole:
            asked = '"Nodes":' + json.dumps(
                {"items": [whole_node(name) for name in NAMES]}, separators=(",", ":")
            )
        took: list[float] = []
        cpu: list[float] = []
        for number in range(PODS):
            body = f'{{"Pod":{json.dumps(pod(number))},{asked}}}'.encode()
            for verb in ("filter", "prioritize"):
                began, before = time.perf_counter(), _cpu_ms(server.pid)
                client.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
                client.getresponse().read()
                took.append((time.perf_counter() - began) * 1000)
                cpu.append(_cpu_ms(server.pid) - before)
            time.sleep(0.01)
        server.communicate("")
    return took, cpu


def _cpu_ms(pid: int) -> float:
    """Of its main thread, in which all happens."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def main(checkouts: Sequence[Path]) -> None:
    """Print a table."""
    shape = "whole" if OPTIONS.whole else "by name"
    print(
        f"{NODES} nodes {shape}; load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs; "
        "milliseconds an answer"
    )
    print(f"{'':40}{'p50':>8}{'p99':>8}{'most':>8}{'p50':>12}{'p99':>8}{'most':>8} of CPU")
    for beside, what_is in WHAT.items():
        found: dict[Path, list[tuple[list[float], list[float]]]] = {one: [] for one in checkouts}
        for _ in range(ROUNDS):
            for checkout in checkouts:
                found[checkout].append(measured(checkout, beside))
        for checkout, rounds in found.items():
            what = f"{checkout.name[-20:]}, {what_is}"
            wall, cpu = (
                np.percentile(np.concatenate(one), (50, 99, 100)) for one in zip(*rounds, strict=True)
            )
            figures = (f"{one:>8.1f}" for one in (*wall, *cpu))
            print(f"{what:40}{next(figures)}{next(figures)}{next(figures)}    {''.join(figures)}")


if __name__ == "__main__":
    if OPTIONS.serve:
        asyncio.run(serve(OPTIONS.beside))
    else:
        main([*OPTIONS.checkouts, Path(__file__).parents[1]])
