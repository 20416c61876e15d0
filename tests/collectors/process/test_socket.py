"""Goal: whose steps they are, by the kernel alone; and that nothing sent to the socket does any harm."""

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.attribution.cgroup_path import CgroupId, CgroupKind
from collectors.attribution.processes import Attribution
from collectors.process.socket import MOST_BYTES, SocketTakenError, StepSocket
from dutycycle.contract.records.processes import Loop, Process
from dutycycle.telemetry.events import Telemetry
from tests.support.processes.open_files import open_files

STEPS = {"v": 1, "loop": "pytorch", "steps": 3, "seconds": 1.5}


class Pods(Attribution):
    """Processes by their pods; all others are of none."""

    def __init__(self) -> None:
        self.uids = {os.getpid(): "mine"}

    def of_pid(self, pid: int) -> CgroupId | None:
        uid = self.uids.get(pid)
        return uid and CgroupId(kind=CgroupKind.POD, path="/", name="c", pod_uid=uid, container_id="c")  # type: ignore[return-value]


class Node:
    """A socket, and one who sends to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "steps.sock"
        self.telemetry = Telemetry("test")
        self.pods = Pods()
        self.socket = StepSocket(self.path, self.telemetry, self.pods)
        self.sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def send(self, data: bytes | dict[str, object]) -> None:
        self.sender.sendto(data if isinstance(data, bytes) else json.dumps(data).encode(), str(self.path))

    def taken(self) -> list[Process]:
        return list(self.socket.take())

    def refused(self) -> dict[str, int]:
        return {labels[0]: count for (name, labels), count in self.telemetry.counts.items()}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = Node(tmp_path)
    yield found
    found.socket.close()
    found.sender.close()


def test_reports_of_a_tick_are_summed_up_and_the_newest_word_counts(node: Node) -> None:
    node.send({**STEPS, "longest_s": 0.9, "samples": 96, "model": "Bert", "loss_scale": 65536})
    node.send({**STEPS, "longest_s": 0.6, "samples": 96, "loss_scale": 32768, "step": 6})
    assert node.taken() == [
        Process(
            pid=os.getpid(), pod_uid="mine", container_id="c",
            loop=Loop(loop="pytorch", steps=6, seconds=3.0, longest_s=0.9, samples=192, model="Bert",
                      loss_scale=32768, step=6),
        )
    ]  # fmt: skip
    assert node.taken() == []


BAD: dict[str, tuple[bytes | dict[str, object], str]] = {
    "empty": (b"", "decode"),
    "not JSON": (b"steps=3", "decode"),
    "not Unicode": (b'{"v":1,"loop":"\xff","steps":1,"seconds":1}', "decode"),
    "a list": (b"[1,2]", "decode"),
    "deep": (b"[" * 4000, "decode"),
    "too large": (b" " * MOST_BYTES + json.dumps(STEPS).encode(), "too_large"),
    "another version": ({**STEPS, "v": 2}, "version"),
    "no version": ({"loop": "pytorch", "steps": 3, "seconds": 1}, "schema"),
    "without steps": ({"v": 1, "loop": "pytorch", "seconds": 1}, "schema"),
    "steps as text": ({**STEPS, "steps": "3"}, "schema"),
    "fewer than no steps": ({**STEPS, "steps": -3}, "schema"),
    "more steps than a counter holds": ({**STEPS, "steps": 2**63}, "schema"),
    "seconds before the beginning": ({**STEPS, "seconds": -1}, "schema"),
    "not a number": (json.dumps({**STEPS, "seconds": float("nan")}).encode(), "decode"),
    "a name that writes on the terminal": ({**STEPS, "model": "\x1b[2J"}, "schema"),
    "a name without end": ({**STEPS, "model": "x" * 201}, "schema"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_report_is_counted_and_the_next_one_is_taken(node: Node, case: str) -> None:
    data, reason = BAD[case]
    node.send(data)
    node.send(STEPS)
    assert [one.loop and one.loop.steps for one in node.taken()] == [3]
    assert node.refused() == {reason: 1}


def test_a_report_cannot_name_its_pod(node: Node) -> None:
    node.send({**STEPS, "pod_uid": "theirs", "pid": 1, "uid": "theirs"})
    assert [(one.pod_uid, one.pid) for one in node.taken()] == [("mine", os.getpid())]


def test_a_process_of_no_pod_is_refused(node: Node) -> None:
    node.pods.uids.clear()
    node.send(STEPS)
    assert node.taken() == []
    assert node.refused() == {"no_pod": 1}


ENDS = """
import socket, sys
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for _ in sys.stdin:
    sender.sendto(sys.argv[2].encode(), sys.argv[1])
    print("sent", flush=True)
"""


@pytest.mark.parametrize("known", [True, False])
def test_the_last_steps_of_a_process_that_has_ended_count_where_it_is_known(node: Node, known: bool) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", ENDS, node.path, json.dumps(STEPS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        if known:
            node.pods.uids[child.pid] = "theirs"
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "sent\n"
            assert [process.pod_uid for process in node.taken()] == ["theirs"]
        with node.socket._lock:  # a busy machine: nobody reads until the process is gone
            child.communicate("\n")
            del node.pods.uids[os.getpid()]
            node.pods.uids.pop(child.pid, None)
    assert [(process.pid, process.pod_uid) for process in node.taken()] == (
        [(child.pid, "theirs")] if known else []
    )
    assert node.refused() == ({} if known else {"no_pod": 1})


FORGES = """
import os, socket, struct, sys
path, pid = sys.argv[1], int(sys.argv[2])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.connect(path)
claim = struct.pack("3i", pid, 65534, 65534)
try:
    sender.sendmsg([b"{}"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, claim)])
except PermissionError:
    print("refused")
sender.send(sys.argv[3].encode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_nobody_can_claim_to_be_another_process() -> None:
    """In no folder of pytest's: each pytest that starts closes those of its user to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        node = Node(Path(folder))
        done = subprocess.run(
            [sys.executable, "-c", FORGES, node.path, str(os.getpid()), json.dumps(STEPS)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == "refused\n"  # by the kernel
        assert node.taken() == []
        assert node.refused() == {"no_pod": 1}  # what it could send counts as its own: it is of no pod here
        node.socket.close()


def test_files_that_are_sent_along_are_not_taken(node: Node, tmp_path: Path) -> None:
    node.sender.connect(str(node.path))
    sent = tmp_path / "sent"
    with sent.open("wb") as file:
        socket.send_fds(node.sender, [json.dumps(STEPS).encode()], [file.fileno()] * 5)
    assert len(node.taken()) == 1
    assert open_files(sent) == []


def test_a_flood_is_bounded(node: Node) -> None:
    node.pods.uids = {pid: f"pod-{pid}" for pid in range(1, 400)}
    for pid in range(1, 400):
        node.socket._take(pid, json.dumps(STEPS).encode())
    assert len(node.taken()) == 256
    assert node.refused() == {"too_many": 399 - 256}


@pytest.mark.slow
def test_datagrams_are_taken_as_they_come(node: Node) -> None:
    """More than the kernel would queue, without a tick in between."""
    node.sender.settimeout(10)
    for _ in range(3000):
        node.send(STEPS)
    assert [one.loop and one.loop.steps for one in node.taken()] == [9000]


def test_who_may_send_and_that_nothing_is_left(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert stat.S_IMODE(node.path.stat().st_mode) == 0o666
    begun = time.monotonic()
    node.socket.close()
    assert time.monotonic() - begun < 30
    node.sender.close()
    assert not node.path.exists()


def test_the_socket_of_one_that_was_killed_is_taken_over_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "steps.sock"
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(path))
    dead.close()
    first = StepSocket(path, Telemetry("test"), Pods())
    with pytest.raises(SocketTakenError, match="another collector"):
        StepSocket(path, Telemetry("test"), Pods())
    first.close()
    path.write_text("a file of somebody")
    with pytest.raises(FileExistsError):
        StepSocket(path, Telemetry("test"), Pods())
    assert path.read_text() == "a file of somebody"
