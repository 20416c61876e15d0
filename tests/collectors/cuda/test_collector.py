"""Goal: launches, bursts and copies a second of each pod, whatever happens to its log files."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.cuda.collector import CudaCollector
from dutycycle.contract.codec import decode
from dutycycle.contract.records.samples import CudaPod, CudaSample
from dutycycle.telemetry.events import ATTRIBUTION_FAILED, CUDA_LOG_UNREADABLE, Telemetry
from tests.support.data.prometheus_samples import TICK

START_S = 1_700_000_000.0


class Node:
    """A folder as the libraries leave it, and the collector that reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.telemetry = Telemetry("test")
        self.now_s = 0.0
        self.collector = CudaCollector(self.telemetry, folder, self.uid_of, lambda: START_S + self.now_s)

    @staticmethod
    def uid_of(namespace: str, name: str) -> str | None:
        return f"uid-{name}" if namespace == "team" else None

    def log(self, text: str, name: str = "a", *, pod: str = "podname:bert-0\nnamespace:team\n") -> Path:
        """Write a log anew, as the library does ten times a second."""
        file = self.folder / name / "metrics.log"
        file.parent.mkdir(exist_ok=True)
        if not (file.parent / "podInfo").exists():
            (file.parent / "podInfo").write_text(pod)
        file.write_text(text)
        self.written(file)
        return file

    def written(self, file: Path) -> None:
        os.utime(file, (START_S + self.now_s, START_S + self.now_s))

    def append(self, file: Path, text: str) -> None:
        with file.open("a") as log:
            log.write(text)
        self.written(file)

    def tick(self, passed_s: float = 1.0) -> dict[str, CudaPod]:
        tick = replace(TICK, monotonic_s=self.now_s, ts_ms=round(1000 * (START_S + self.now_s)))
        outs = self.collector.collect(tick)
        self.now_s += passed_s
        found = [decode(CudaSample, one.value or b"", one.topic) for one in outs]
        assert [(one.key, one.topic) for one in outs] == [("me", "cuda-samples")] * len(found)
        return {pod.uid: pod for one in found for pod in one.pods}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_rates_are_over_the_time_that_passed(node: Node) -> None:
    node.log("pid:1\nkernel-cnt:100\nmem-used:4096\nburst-tm:0\n")
    assert node.tick(2.0) == {"uid-bert-0": CudaPod(uid="uid-bert-0", cuda_mem_used_bytes=4096)}
    node.log("pid:1\nkernel-cnt:300\nmem-used:8192\nburst-tm:500000\n")
    assert node.tick() == {
        "uid-bert-0": CudaPod(
            uid="uid-bert-0", kernel_launches_per_s=100, kernel_burst_pct=25, cuda_mem_used_bytes=8192
        )
    }


def test_an_idle_process_has_zeros_and_one_that_is_gone_has_nothing(node: Node) -> None:
    text = "kernel-cnt:300\nmem-used:0\n"
    node.log(text)
    node.tick()
    node.log(text)
    assert node.tick(70)["uid-bert-0"].kernel_launches_per_s == 0
    assert node.tick() == {}


def test_a_log_that_goes_on_at_its_end_is_cut_and_is_rotated(node: Node) -> None:
    line = "name:cuLaunchKernel,count:{},burst:{}\n"
    file = node.log(line.format(10, 0))
    node.tick()
    node.append(file, line.format(20, 0) + line.format(40, 10_000))
    assert node.tick()["uid-bert-0"].kernel_launches_per_s == 30
    node.append(file, "name:cuLaunchKernel,count:5")  # half a line
    assert node.tick()["uid-bert-0"].kernel_launches_per_s == 0
    node.log(line.format(50, 20_000))  # cut
    assert node.tick()["uid-bert-0"].kernel_launches_per_s == 10
    file.rename(file.with_suffix(".log.1"))
    assert node.tick() == {}, "rotated, and the new one is not there yet"
    node.log(line.format(90, 20_000))
    assert node.tick()["uid-bert-0"].kernel_launches_per_s is None
    node.log(line.format(95, 20_000))
    assert node.tick()["uid-bert-0"].kernel_launches_per_s == 5
    assert node.telemetry.counts == {}


def test_a_log_larger_than_what_is_read_has_its_newest_values(node: Node) -> None:
    line = "name:cuLaunchKernel,count:{},burst:{}\n"
    file = node.log("".join(line.format(at, at) for at in range(5000)))
    assert file.stat().st_size > 150_000
    node.tick()
    node.append(file, line.format(5999, 5999))
    assert node.tick()["uid-bert-0"].kernel_launches_per_s == 1000
    assert node.telemetry.counts == {}


@pytest.mark.parametrize("after", ["pid:1\nkernel-cnt:10\n", "pid:2\nkernel-cnt:900\n"])
def test_counters_that_begin_anew_have_no_rate(node: Node, after: str) -> None:
    node.log("pid:1\nkernel-cnt:500\n")
    node.tick()
    node.log(after)
    assert node.tick() == {"uid-bert-0": CudaPod(uid="uid-bert-0")}


def test_a_pod_is_the_sum_of_its_logs(node: Node) -> None:
    for name in "ab":
        node.log("kernel-cnt:0\nmem-used:5\n", name)
    node.log("kernel-cnt:0\n", "c", pod="podname:other\nnamespace:team\nuid:u-7\n")
    node.tick()
    node.log("kernel-cnt:10\nmem-used:5\n", "a")
    node.log("kernel-cnt:30\nmem-used:6\n", "b")
    node.log("kernel-cnt:1\n", "c")
    found = node.tick()
    assert found["uid-bert-0"].kernel_launches_per_s == 40
    assert (found["uid-bert-0"].cuda_mem_used_bytes, found["u-7"].kernel_launches_per_s) == (11, 1)


def test_a_log_that_is_new_or_cannot_be_read_leaves_the_sum_unknown(node: Node) -> None:
    def written(*logs: tuple[str, int]) -> CudaPod | None:
        for name, launches in logs:
            node.log(f"kernel-cnt:{launches}\nburst-tm:0\nmem-used:5\n", name)
        return node.tick().get("uid-bert-0")

    written(("a", 0))
    new = written(("a", 10), ("b", 5000))
    assert new == CudaPod(uid="uid-bert-0", cuda_mem_used_bytes=10), "10 launches are those of one log"
    both = written(("a", 20), ("b", 5001))
    assert both is not None
    assert (both.kernel_launches_per_s, both.kernel_burst_pct) == (11, 0)
    node.log("kernel-cnt:1\n", "b").unlink()
    (node.folder / "b" / "metrics.log").mkdir()  # cannot be read as a file
    assert written(("a", 30)) == CudaPod(uid="uid-bert-0")
    assert node.telemetry.count(CUDA_LOG_UNREADABLE) == 1


def test_garbage_is_counted_once(node: Node) -> None:
    file = node.log("garbage\nkernel-cnt:1\n")
    node.tick()
    node.append(file, "more\nkernel-cnt:2\n")
    assert node.tick()["uid-bert-0"].kernel_launches_per_s == 1
    node.tick()
    assert node.telemetry.count(CUDA_LOG_UNREADABLE) == 2


def test_whose_log_is_not_known_is_told(node: Node) -> None:
    node.log("kernel-cnt:1\n", "a", pod="nonsense")
    node.log("kernel-cnt:1\n", "b", pod="podname:x\nnamespace:elsewhere\n")
    (node.folder / "empty").mkdir()
    assert node.tick() == {}
    assert (node.telemetry.count(CUDA_LOG_UNREADABLE), node.telemetry.count(ATTRIBUTION_FAILED)) == (1, 1)
