"""``dutycycle up`` as a newcomer runs it: a known load, GPUs, other Kafka clients, and a recording of it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from pathlib import Path

import orjson

from dutycycle.contract.codec import decode
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.trace import decode_line
from tests.collectors.cgroup.test_real import HELD, MIB, Kernel, kernel, limited, working_set
from tests.support.data.real_cgroup import RealCgroup, real_cgroup
from tests.support.data.traces import read_trace
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Scenario, Signal, ramp, sine, square
from tests.support.processes.commands import STOP_S, dutycycle, environ, mortal
from tests.support.servers.missing import program
from tests.support.waiting import wait_until

__all__ = ["real_cgroup"]
SHORTEST_S = 0.7
"""No tick of the collector, one a second, spans less."""


class Watch(threading.Thread):
    """Reads a cgroup's files again and again, beside the collector."""

    def __init__(self, group: RealCgroup) -> None:
        super().__init__()
        self._group = group
        self._done = threading.Event()
        self.seen: list[Kernel] = []
        self.held: list[int] = []

    def run(self) -> None:
        while not self._done.wait(0.1):
            self.seen.append(kernel(self._group))
            self.held.append(working_set(self._group))

    def stop(self) -> None:
        self._done.set()
        self.join()

    def rates(self) -> Iterator[float]:
        """CPU percent over every span that a tick could have been."""
        for a, b in combinations(self.seen, 2):
            if b.at - a.at >= SHORTEST_S:
                yield 100 * (b.cpu_s - a.cpu_s) / (b.at - a.at)


def test_peaks_agree_with_the_kernel(real_cgroup: RealCgroup, tmp_path: Path) -> None:
    env = environ(containers="containers", kubernetes="off") | {"XDG_STATE_HOME": str(tmp_path)}
    limited(real_cgroup)
    watch = Watch(real_cgroup)
    with real_cgroup.load(HELD):
        watch.start()
        try:
            shown = dutycycle("up", "--duration", "20s", env=env).stdout
        finally:
            watch.stop()
    assert "embedded broker, in memory, gone when this ends" in shown
    name = real_cgroup.container_id[:12]
    assert f"docker/{name}" in shown

    peaks = orjson.loads(dutycycle("peaks", "--format", "json", env=env).stdout)
    (ours,) = (one for one in peaks if one["pod"]["name"] == name)
    cpu, memory = ours["metrics"]["cpu_util_pct"], ours["metrics"]["mem_used_bytes"]
    whole = 100 * (watch.seen[-1].cpu_s - watch.seen[0].cpu_s) / (watch.seen[-1].at - watch.seen[0].at)
    assert whole * 0.95 <= cpu["max"] <= max(watch.rates()) * 1.05
    assert min(watch.rates()) <= cpu["mean"] <= cpu["max"]
    assert HELD <= memory["max"] <= max(watch.held) + MIB
    assert ours["samples"] >= 5


@contextmanager
def two_processes() -> Iterator[tuple[int, int]]:
    """Processes that a GPU may say are its own."""
    children = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    try:
        yield children[0].pid, children[1].pid
    finally:
        for child in children:
            child.kill()
            child.communicate()


def world(first: int, second: int) -> Scenario:
    """Two GPUs: one that trains in steps of 4 s and fills up, one that serves in waves of 6 s."""
    training: dict[str, Signal] = {"util": square(4, 0.5, 5, 95), "power_w": square(4, 0.5, 120, 640),
                "mem_used": ramp(90e9, 1e8), "mem_total": 151e9}  # fmt: skip
    serving: dict[str, Signal] = {
        "util": sine(6, 10, 80),
        "power_w": sine(6, 150, 500),
        "mem_used": 30e9,
        "mem_total": 151e9,
    }
    return Scenario(gpus=[
        FakeGpu(uuid="GPU-1", values=training, processes=[FakeProcess(pid=first, util=90, mem=80e9)]),
        FakeGpu(uuid="GPU-2", values=serving, processes=[FakeProcess(pid=second, util=45, mem=29e9)]),
    ])  # fmt: skip


def kcat_reads(address: str) -> None:
    """The bytes that another client sees are the contract's."""
    if not shutil.which("kcat") and os.environ.get("CI") != "true":
        return  # the rest of the test is worth its while without it
    command = [
        program("kcat"), "-b", address, "-C", "-J", "-t", "dutycycle.nvml-samples", "-o", "beginning", "-c",
        "3",
    ]  # fmt: skip
    lines = subprocess.run(command, capture_output=True, check=True, timeout=240).stdout.splitlines()
    for line in lines:
        record = decode_line(line)
        sample = decode(NvmlSample, record.payload or b"", "nvml-samples")
        assert (record.key, record.ts_ms) == (sample.node, sample.ts_ms)
    assert len(lines) == 3


def test_two_gpus_their_processes_cycles_and_trends(tmp_path: Path) -> None:
    with two_processes() as pids:
        scenario = world(*pids).write(tmp_path / "scenario")
        env = environ(kubernetes="off", interval="0.25s", node="gpu-a") | driver(scenario)
        env |= {"XDG_STATE_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
        shown = tmp_path / "shown"
        with mortal("up", env=env, log=shown) as up:
            wait_until(lambda: "node gpu-a" in shown.read_text(), shown.read_text)
            address = re.findall(r"kafka://(\S+);", shown.read_text())[0]
            wait_until(lambda: "gpu gpu-a gpu 1 NVIDIA H200" in shown.read_text(), shown.read_text)
            kcat_reads(address)
            wait_until(lambda: near(4, cycle_of(0, shown.read_text())), shown.read_text)
            wait_until(lambda: near(6, cycle_of(1, shown.read_text())), shown.read_text)
            for index in (0, 1):  # the first forecasts are told after half a minute
                wait_until(partial(shows_a_trend, index, shown), shown.read_text)
            assert up.poll() is None
            text = shown.read_text()
            for pid in pids:
                assert re.search(rf"process \S+ {pid}: \d", text), text
            trace = tmp_path / "recorded.jsonl.zst"
            url = f"kafka://{address}"
            dutycycle("record", "--broker", url, "--from", "1000000000000", "--out", trace, env=env)
            up.send_signal(signal.SIGINT)
            assert up.wait(STOP_S + 20) == 0, shown.read_text()
    outs = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for one in outs:
        dutycycle("replay", trace, "--out", one, env=env)
    assert outs[0].read_bytes() == outs[1].read_bytes()
    cycles = [one.payload or b"" for one in read_trace(str(outs[0])) if one.topic == "dutycycle.cycles"]
    assert any("gpu_util_pct" in orjson.loads(one)["metrics"] for one in cycles)


def cycle_of(gpu: int, text: str) -> float | None:
    """The period in seconds that was shown last for a GPU."""
    found = re.findall(rf"^gpu gpu-a gpu {gpu} .* cycle (\S+) s", text, re.MULTILINE)
    return float(found[-1]) if found else None


def shows_a_trend(gpu: int, shown: Path) -> bool:
    """Whether a GPU's forecast was shown."""
    found = re.search(rf"gpu gpu-a gpu {gpu} NVIDIA H200: .* trend \d+ % in (10s|30s|5m)", shown.read_text())
    return found is not None


def near(expected: float, found: float | None) -> bool:
    """Whether a period is what the scenario says, to 3 %."""
    return found is not None and abs(found - expected) <= 0.03 * expected


def test_ctrl_c_right_after_the_start(tmp_path: Path) -> None:
    env = environ(kubernetes="off") | {"XDG_STATE_HOME": str(tmp_path)}
    up = subprocess.Popen(
        [sys.executable, "-m", "dutycycle", "up"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert up.stdout is not None
        assert b"dutycycle on" in up.stdout.readline()
        up.send_signal(signal.SIGINT)
        began = time.monotonic()
        rest = up.communicate(timeout=STOP_S + 20)[0]
        assert up.returncode == 0, rest
        assert time.monotonic() - began < STOP_S
    finally:
        up.kill()
        up.wait()


def test_up_killed_takes_its_children_along(tmp_path: Path) -> None:
    env = environ(kubernetes="off") | {"XDG_STATE_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    up = subprocess.Popen([sys.executable, "-m", "dutycycle", "up"], env=env, stdout=subprocess.PIPE)
    try:
        assert up.stdout is not None
        while not up.stdout.readline().startswith(b"node "):
            assert up.poll() is None
        wait_until(lambda: len(_children(up.pid)) == 4, lambda: "broker, sink, stream, collect")
        children = _children(up.pid)
    finally:
        up.kill()
        up.wait()
    wait_until(lambda: not any(map(_alive, children)), lambda: f"the end of {children}")


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
