"""The real kernel: a known load in a cgroup of its own, measured, against what the kernel's files say.

The kernel's counters are read right before and right after each of the collector's two readings, so that
what it may say lies between two bounds, however busy the machine is.
"""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from collectors.attribution.processes import Attribution
from collectors.base import Tick
from collectors.cgroup.collector import CgroupCollector
from collectors.cgroup.host import disk_bytes
from collectors.cgroup.mounts import find_hierarchies
from collectors.files import FilePool, number_in
from dutycycle.contract.codec import decode
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, Container, PodCgroup
from dutycycle.telemetry.events import Telemetry
from tests.support.data.real_cgroup import RealCgroup, real_cgroup
from tests.support.waiting import wait_until

__all__ = ["real_cgroup"]  # a fixture

MIB = 1024**2
HELD, LIMIT = 64 * MIB, 512 * MIB
ROUNDING = 0.01


@dataclass(frozen=True)
class Kernel:
    """What the kernel's files of the cgroup said at one moment."""

    at: float
    cpu_s: float
    periods: int
    throttled: int


def kernel(group: RealCgroup) -> Kernel:
    at = time.monotonic()
    usage = group.file("cpuacct.usage", "cpu.stat").read_text()
    stat = dict(line.split() for line in group.file("cpu.stat", "cpu.stat").read_text().splitlines())
    cpu_s = int(usage) / 1e9 if usage.strip().isdigit() else int(stat["usage_usec"]) / 1e6
    return Kernel(at, cpu_s, int(stat["nr_periods"]), int(stat["nr_throttled"]))


def working_set(group: RealCgroup) -> int:
    used = int(group.file("memory.usage_in_bytes", "memory.current").read_text())
    stat = group.file("memory.stat", "memory.stat").read_text()
    found = re.search(r"^total_inactive_file (\d+)", stat, re.MULTILINE)
    found = found or re.search(r"^inactive_file (\d+)", stat, re.MULTILINE)
    assert found
    return used - int(found[1])


def limited(group: RealCgroup) -> None:
    """An eighth of a core: a busy machine has that much left, so that the quota does hold the load back."""
    v1 = group.file("cpu.cfs_quota_us", "cpu.max")
    v1.write_text("12500" if v1.name != "cpu.max" else "12500 100000")
    group.file("memory.limit_in_bytes", "memory.max").write_text(str(LIMIT))


class Measured:
    """The collector on this machine, and its word on one cgroup."""

    def __init__(self, group: RealCgroup) -> None:
        self._group = group
        self._seq = 0
        self.said: dict[str, list[Pod]] = {}
        self.collector = CgroupCollector(telemetry=Telemetry("test"), containers="containers")

    def now(self) -> PodCgroup | None:
        self._seq += 1
        tick = Tick(
            node="here", collector="c", seq=self._seq, ts_ms=time.time_ns() // 1_000_000, interval_ms=1000,
            monotonic_s=time.monotonic(),
        )  # fmt: skip
        found = None
        for out in self.collector.collect(tick):
            assert out.value is not None
            if out.topic == "pods":
                self.said.setdefault(out.key, []).append(decode(Pod, out.value, "pods"))
            else:
                pods = decode(CgroupSample, out.value, out.topic).pods
                ours = [one for one in pods if one.containers[0].id == self._group.container_id]
                found = ours[0] if ours else None
        return found

    def container(self) -> Container:
        pod = self.now()
        assert pod is not None
        (container,) = pod.containers
        return container


def used_and_held_back(cgroup: RealCgroup, first: Kernel) -> bool:
    """On a busy machine the load may get less than its quota for a while, and is not held back then."""
    now = kernel(cgroup)
    return now.cpu_s > first.cpu_s + 0.5 and now.throttled > first.throttled


def test_a_known_load(real_cgroup: RealCgroup) -> None:
    limited(real_cgroup)
    measured = Measured(real_cgroup)
    with real_cgroup.load(HELD) as pid:
        low = kernel(real_cgroup)
        assert measured.container().cpu_util_pct is None
        first = kernel(real_cgroup)
        wait_until(
            lambda: used_and_held_back(real_cgroup, first),
            lambda: "half a second of CPU time, some of it late",
        )
        second, held_before = kernel(real_cgroup), working_set(real_cgroup)
        found = measured.container()
        high, held_after = kernel(real_cgroup), working_set(real_cgroup)

        assert found.cpu_util_pct is not None
        least = 100 * (second.cpu_s - first.cpu_s) / (high.at - low.at)
        most = 100 * (high.cpu_s - low.cpu_s) / (second.at - first.at)
        assert least - ROUNDING <= found.cpu_util_pct <= most + ROUNDING
        assert most < 30, "the load is not the eighth of a core that this test is about"
        assert found.mem_used_bytes is not None
        assert found.mem_used_bytes >= HELD
        assert found.mem_used_bytes == pytest.approx(held_before, abs=abs(held_after - held_before) + MIB)
        assert found.mem_limit_bytes == LIMIT
        assert found.cpu_throttled_pct is not None
        assert 0 < found.cpu_throttled_pct <= 100
        periods, throttled = high.periods - low.periods, high.throttled - low.throttled
        assert found.cpu_throttled_pct == pytest.approx(100 * throttled / periods, abs=300 / periods)

        attributed = Attribution(node="here", telemetry=Telemetry("test"), containers="containers").of_pid(
            pid
        )
        pod = measured.now()
        assert attributed is not None
        assert pod is not None
        assert (attributed.pod_uid, attributed.container_id) == (pod.uid, real_cgroup.container_id)
    measured.collector.close()


def test_the_end_of_a_container(real_cgroup: RealCgroup) -> None:
    measured = Measured(real_cgroup)
    with real_cgroup.load(MIB):
        pod = measured.now()
    assert pod is not None
    real_cgroup.remove()
    assert measured.now() is None
    assert [one.phase for one in measured.said[pod.uid]] == ["Running", "Unknown"]
    measured.collector.close()


def test_a_container_made_anew_at_its_path(real_cgroup: RealCgroup) -> None:
    measured = Measured(real_cgroup)
    with real_cgroup.load(MIB):
        before = measured.now()
    real_cgroup.remove()
    real_cgroup.make()
    with real_cgroup.load(MIB):
        again = measured.now()
        assert before is not None
        assert again is not None
        assert again.uid == before.uid
        assert again.containers[0].cpu_util_pct is None
        assert measured.container().cpu_util_pct is not None
    measured.collector.close()


def test_a_held_file_of_a_cgroup_that_went_is_the_new_ones(real_cgroup: RealCgroup) -> None:
    path = real_cgroup.file("memory.usage_in_bytes", "memory.current")
    file = FilePool().file(str(path))
    assert number_in(file.read()) is not None
    real_cgroup.remove()
    assert number_in(file.read()) is None
    real_cgroup.make()
    assert number_in(file.read()) is not None
    file.close()


def written(group: RealCgroup) -> int:
    text = group.file("blkio.throttle.io_service_bytes", "io.stat").read_text()
    disks = disk_bytes(Path("/proc/diskstats").read_text())
    counts = re.findall(r"^(\S+).* (?:Write |wbytes=)(\d+)", text, re.MULTILINE)
    return sum(int(number) for device, number in counts if device in disks)


def test_what_is_written_to_a_disk(real_cgroup: RealCgroup, tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    rows = (line.split() for line in Path("/proc/diskstats").read_text().splitlines())
    if [str(os.major(device)), str(os.minor(device))] not in [row[:2] for row in rows]:
        pytest.skip("the temporary folder is on no block device")
    if not any(one.controllers & {"blkio", "io"} for one in find_hierarchies("/")):
        pytest.skip("this kernel counts no I/O per cgroup")
    measured = Measured(real_cgroup)
    with real_cgroup.load(MIB, tmp_path / "x"):
        low = time.monotonic(), written(real_cgroup)
        measured.now()
        first = time.monotonic(), written(real_cgroup)
        wait_until(lambda: written(real_cgroup) > first[1] + 4 * MIB, lambda: "4 MiB written")
        second = time.monotonic(), written(real_cgroup)
        rate = measured.container().io_write_bytes_per_s
        high = time.monotonic(), written(real_cgroup)
    assert rate is not None
    assert (second[1] - first[1]) / (high[0] - low[0]) - 1 <= rate
    assert rate <= (high[1] - low[1]) / (second[0] - first[0]) + 1
    measured.collector.close()
