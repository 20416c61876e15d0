"""``dutycycle collect`` on a full node: 8 GPUs of the fake driver, 100 pods of the kernel, 1 Hz."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from statistics import quantiles

from bench.speed.bench import Bench
from bench.speed.cluster import Topics
from bench.speed.worker import Worker, own_command, working
from collectors.cgroup.mounts import find_hierarchies
from tests.support.data.fake_host import pod_path
from tests.support.fakes.nvml.full_node import full_node
from tests.support.fakes.nvml.library import driver as library

PODS = 100
TOP_CGROUP = "dutycycle-bench"
DELAYS_US = {"nvmlDeviceGetPowerUsage": 365.0, "*": 100.0}
"""A power reading as on a K40 (2,743 a second: wookayin/gpustat issue 76); the others are an assumption."""
SOURCES = ("nvml", "cgroup")


def collector(bench: Bench) -> None:
    """CPU and memory of the process, and how long its sources take for a tick."""
    with pods_of_the_kernel(PODS) as pids:
        driver = replace(full_node(pids), delays_us=DELAYS_US)
        world = driver.write(bench.folder / "world")
        topics = Topics(bench.broker)
        topics.create(1)
        plain = own_command(
            "collect", node="bench", spool=str(bench.folder / "spool"), kubernetes="off", pod_resources="off"
        )
        collect = replace(plain, environment=lambda topics: plain.environment(topics) | library(world))
        with working(collect, topics, bench.folder, bench.last) as worker:
            warm, seconds = bench.size.collector_s
            worker.wait(lambda: _measured(worker, "nvml") > 0)
            time.sleep(warm)
            bench.add("collector.cpu_pct", _cpu_pct(worker, seconds), "% of a core")
            bench.add("collector.memory_mb", worker.memory_mb(), "MB resident")
            took_ms = list(_ticks_ms(worker, seconds))
            bench.add(
                "collector.tick_ms", quantiles(took_ms, n=100)[49], f"ms, the middle of {len(took_ms)} ticks"
            )
            bench.add("collector.tick_p99_ms", quantiles(took_ms, n=100, method="inclusive")[98], "ms")
            replace(driver, spins=True).write(world)
            spinning = _cpu_pct(worker, bench.size.collector_s[1])
            bench.add("collector.spinning_cpu_pct", spinning, "% of a core, if the driver spins")
        topics.delete()
    bench.note(
        "collector.how",
        f"{PODS} pods with a process each in cgroups of this kernel, 8 GPUs with six processes each; "
        f"a call takes {DELAYS_US['*']:g} µs, a power reading {DELAYS_US['nvmlDeviceGetPowerUsage']:g} µs. "
        "The calls sleep, so that the CPU is the collector's own. A driver that waits for the GPU's own "
        f"processor (GSP) does so on a CPU: with its time it is {spinning:.1f} % of a core",
    )


def _cpu_pct(worker: Worker, seconds: float) -> float:
    before_s, began_s = worker.cpu_s(), time.monotonic()
    time.sleep(seconds)  # nobody asks for its metrics, which costs as much as half a tick
    return 100 * (worker.cpu_s() - before_s) / (time.monotonic() - began_s)


def _ticks_ms(worker: Worker, seconds: int) -> Iterator[float]:
    """How long each tick took until the slower of its sources had answered.

    Asked in the middle between two ticks, because an answer costs as much as half a tick.
    """
    seen = _measured(worker, "nvml")
    worker.wait(lambda: _measured(worker, "nvml") > seen)
    asked_s = time.monotonic() + 0.5
    for second in range(seconds):
        time.sleep(max(asked_s + second - time.monotonic(), 0))
        figures = worker.figures()
        yield 1000 * max(figures[f'last_measure_seconds{{collector="{one}"}}'] for one in SOURCES)


def _measured(worker: Worker, source: str) -> float:
    return worker.figures().get(f'measures_total{{collector="{source}"}}', 0.0)


@contextmanager
def pods_of_the_kernel(count: int) -> Iterator[list[int]]:
    """Make cgroups of this many pods on this machine (as root), with a sleeping process each; yield the pids.

    The processes share the host's network, so that reading a pod's ``net/dev`` (about 20 µs) is not measured.
    """
    roots = [
        Path(hierarchy.root) / TOP_CGROUP for hierarchy in find_hierarchies("/") if hierarchy.controllers
    ]
    uids = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(count)]
    paths = [pod_path("systemd", "burstable", uid, f"{number:064x}") for number, uid in enumerate(uids)]
    folders = [root / path[1:] for root in roots for path in paths]
    sleepers = [subprocess.Popen(["sleep", "infinity"]) for _ in range(count)]
    try:
        for folder, sleeper in zip(folders, cycle(sleepers), strict=False):
            folder.mkdir(parents=True)
            (folder / "cgroup.procs").write_text(str(sleeper.pid))
        yield [sleeper.pid for sleeper in sleepers]
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
        for root in roots:
            for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            root.rmdir()
