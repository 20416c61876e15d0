"""What one tick of the cgroup collector costs, in microseconds per 100 containers.

    python -m bench.bench_cgroup [--containers 100] [--ticks 200] [--layout v2|v1|hybrid|kernel]

"kernel" makes cgroups on this machine's own hierarchies (as root), each with a sleeping process, and so has
the kernel's true cost of reading; the others are folders of plain files, which cost less. The processes
share the host's network, so that reading a pod's ``net/dev`` (about 20 µs a pod) is not in it.
"""

import argparse
import cProfile
import pstats
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

from collectors.base import Tick
from collectors.cgroup.collector import CgroupCollector
from collectors.cgroup.mounts import find_hierarchies
from dutycycle.telemetry.events import Telemetry
from tests.support.data.fake_host import LAYOUTS, Counters, FakeHost, pod_path

KERNEL_TOP = "dutycycle-bench"


def paths(count: int, pods: int) -> list[str]:
    """Paths of ``count`` containers in so many pods."""
    uids = [f"{number * pods // count:08x}-0000-4000-8000-000000000000" for number in range(count)]
    return [pod_path("systemd", "burstable", uid, f"{number:064x}") for number, uid in enumerate(uids)]


@contextmanager
def host_of_files(layout: str, count: int) -> Iterator[str]:
    """A host root with this many containers."""
    with tempfile.TemporaryDirectory() as folder:
        host = FakeHost(Path(folder), layout)
        for path in paths(count, count // 2):
            host.put(path, Counters(io=host.io(1, 1)))
        yield folder


@contextmanager
def host_of_the_kernel(count: int, pods: int) -> Iterator[list[int]]:
    """This machine, with this many containers more in so many pods; a process of each."""
    roots = [Path(one.root) / KERNEL_TOP for one in find_hierarchies("/") if one.controllers]
    folders = [root / path[1:] for root in roots for path in paths(count, pods)]
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
            for folder in sorted((one for one in root.rglob("*") if one.is_dir()), reverse=True):
                folder.rmdir()
            root.rmdir()


def ticks(collector: CgroupCollector, count: int) -> list[float]:
    """How long each tick took, in seconds, after one that opens everything."""
    took = []
    for seq in range(count + 1):
        tick = Tick(node="bench", collector="b", seq=seq, ts_ms=seq, interval_ms=1, monotonic_s=float(seq))
        began = time.perf_counter()
        collector.collect(tick)
        took.append(time.perf_counter() - began)
    return took[1:]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--containers", type=int, default=100)
    parser.add_argument("--ticks", type=int, default=200)
    parser.add_argument("--layout", choices=[*LAYOUTS, "kernel"], default="v2")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()
    with ExitStack() as stack:
        root = "/"
        if options.layout == "kernel":
            stack.enter_context(host_of_the_kernel(options.containers, options.containers // 2))
        else:
            root = stack.enter_context(host_of_files(options.layout, options.containers))
        collector = CgroupCollector(telemetry=Telemetry("bench"), host_root=root)
        if options.profile:
            with cProfile.Profile() as profile:
                ticks(collector, options.ticks)
            pstats.Stats(profile).sort_stats("tottime").print_stats(15)
        took = [1e6 * one * 100 / options.containers for one in ticks(collector, options.ticks)]
        collector.close()
    print(f"{options.layout}: {options.containers} containers, {options.ticks} ticks")
    print(f"µs per tick and 100 containers: median {statistics.median(took):.0f}, least {min(took):.0f}")


if __name__ == "__main__":
    main()
