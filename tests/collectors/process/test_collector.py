"""Goal: each process is read when it is new, and seldom after that; steps at their tick; short ticks."""

import json
import os
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.process import collector as module
from collectors.process.collector import ProcessCollector
from collectors.process.socket import StepSocket
from dutycycle.contract.codec import decode
from dutycycle.contract.records.processes import Process, ProcessSample
from dutycycle.telemetry.events import PROCESSES_LEFT_OUT, Telemetry
from tests.collectors.process.conftest import LOADS, WAITS, Start
from tests.collectors.process.test_socket import STEPS, Pods
from tests.support.data.prometheus_samples import TICK

FORKS_ONE = """
import os, time
if os.fork() == 0: time.sleep(60)
"""


class Node:
    """A collector whose ticks are given by hand. ``users`` and ``others`` are its processes."""

    def __init__(self, *, first_s: float = 60.0, steps: StepSocket | None = None) -> None:
        self.telemetry = Telemetry("test")
        self.pods = Pods()
        self.users: list[int] = []
        self.others: list[int] = []
        self.now_s = 1000.0
        self.collector = ProcessCollector(
            self.telemetry, self.pods, self._users, others=lambda: self.others, steps=steps, first_s=first_s
        )

    def _users(self) -> Iterable[int]:
        return self.users

    def uses(self, *pids: int) -> None:
        self.users = [*self.users, *pids]
        self.pods.uids |= {pid: f"pod-{pid}" for pid in pids}

    def tick(self, passed_s: float = 1.0) -> dict[int, Process]:
        self.now_s += passed_s
        outs = self.collector.collect(replace(TICK, monotonic_s=self.now_s))
        samples = [decode(ProcessSample, one.value or b"", one.topic) for one in outs]
        assert [(one.topic, one.key) for one in outs] == [("processes", TICK.node)] * len(samples)
        return {one.pid: one for sample in samples for one in sample.processes}


def test_a_process_is_read_when_it_is_new_and_again_each_minute(site: Path, start: Start) -> None:
    node, child = Node(), start(LOADS + WAITS, site / "torch/lib/libtorch_cpu.so")
    assert node.tick() == {}
    node.uses(child.pid)
    found = node.tick()[child.pid]
    name = Path(f"/proc/{child.pid}/comm").read_text().strip()
    assert (found.pod_uid, found.name) == (f"pod-{child.pid}", name)
    assert found.software is not None
    assert found.software.frameworks is not None
    assert [bool(node.tick()) for _ in range(59)] == [False] * 59
    assert child.pid in node.tick()


def test_one_that_has_just_started_is_read_sooner_and_at_doubled_distances(start: Start) -> None:
    node, child = Node(first_s=1.0), start("import sys\n" + WAITS)
    node.uses(child.pid)
    read_at = [second for second in range(200) if node.tick()]
    assert read_at == [0, 1, 3, 7, 15, 31, 63, 123, 183]


def test_a_process_that_ends_and_one_of_no_pod_are_left_out(start: Start) -> None:
    node, child = Node(), start("import sys\n" + WAITS)
    node.users = [os.getpid(), child.pid]
    assert list(node.tick()) == [os.getpid()]
    node.uses(child.pid)
    child.communicate()
    assert node.tick(61).keys() == {os.getpid()}


def test_of_the_processes_of_a_command_only_trainings_count(site: Path, start: Start) -> None:
    node = Node()
    training = start(
        LOADS + FORKS_ONE + "else:\n    " + WAITS.strip().replace("\n", "\n    "), *site.rglob("*.so*")
    )
    shell = start("import sys\n" + WAITS, name="other.py")
    launcher = start(LOADS + WAITS, *site.rglob("*.so*"), name="torchrun")
    forked = [
        int(one) for one in Path(f"/proc/{training.pid}/task/{training.pid}/children").read_text().split()
    ]
    assert len(forked) == 1
    node.others = [training.pid, shell.pid, launcher.pid, *forked]
    node.pods.uids = dict.fromkeys(node.others, "run")
    found = node.tick()
    assert list(found) == [training.pid]
    software = found[training.pid].software
    assert software is not None
    assert software.data_workers == 1
    os.kill(forked[0], 9)


def test_steps_come_at_their_tick_and_have_the_process_read_anew(tmp_path: Path) -> None:
    pods = Pods()
    steps = StepSocket(tmp_path / "s", Telemetry("test"), pods)
    node = Node(steps=steps)
    node.users = [os.getpid()]
    first = node.tick()[os.getpid()]
    assert (first.software is not None, first.loop) == (True, None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for expected in (True, False):  # with its first steps it has its workers, and all its libraries
            sender.sendto(json.dumps(STEPS).encode(), str(tmp_path / "s"))
            found = node.tick()[os.getpid()]
            assert found.loop is not None
            assert (found.loop.steps, found.software is not None) == (3, expected)
    assert node.tick() == {}
    node.collector.close()
    assert not (tmp_path / "s").exists()


def test_more_than_a_tick_has_time_for_is_read_at_the_next(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BUDGET_S", 0.0)
    node, children = Node(), [start("import sys\n" + WAITS, name=f"{n}.py") for n in range(3)]
    node.uses(*(one.pid for one in children))
    read = [set(node.tick()) for _ in range(4)]
    assert [len(one) for one in read] == [1, 1, 1, 0]
    assert set.union(*read) == {one.pid for one in children}


def test_processes_beyond_the_limit_are_counted() -> None:
    node = Node()
    node.users = list(range(2**22, 2**22 + 300))  # no process has such a number
    assert node.tick() == {}
    assert node.telemetry.count(PROCESSES_LEFT_OUT) == 300 - 256
