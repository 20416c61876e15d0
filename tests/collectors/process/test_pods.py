"""Goal: steps are those of the pod whose process sent them, with real processes in real cgroups of pods."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from uuid import uuid4

from collectors.attribution.processes import Attribution
from collectors.process.socket import StepSocket
from dutycycle.telemetry.events import STEPS_REFUSED, Telemetry
from tests.support.data.real_cgroup import RealCgroup

SENDS = """
import socket, sys
sys.stdin.readline()    # until it was moved into its cgroup
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
    sender.sendto(sys.argv[2].encode(), sys.argv[1])
print("sent", flush=True)
sys.stdin.read()
"""


@contextmanager
def sender(path: Path, steps: int, claims: str, group: RealCgroup | None) -> Iterator[int]:
    """A process that has sent a report in which it claims to be another pod."""
    report = json.dumps({"v": 1, "loop": "pytorch", "steps": steps, "seconds": 1, "pod_uid": claims})
    with subprocess.Popen(
        [sys.executable, "-c", SENDS, path, report], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            if group is not None:
                group.enter(child.pid)
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "sent\n"
            yield child.pid
        finally:
            child.kill()


def test_no_pod_can_speak_for_another(tmp_path: Path) -> None:
    uids = [str(uuid4()), str(uuid4())]
    groups = [RealCgroup.of_pod(uid, systemd=False) for uid in uids]
    telemetry = Telemetry("test")
    path = tmp_path / "s"
    with ExitStack() as stack:
        for group in groups:
            stack.callback(group.remove)
            group.make_or_skip()
        steps = stack.enter_context(
            closing(StepSocket(path, telemetry, Attribution(node="n", telemetry=telemetry)))
        )
        with (
            sender(path, 1, uids[1], groups[0]) as first,
            sender(path, 2, uids[0], groups[1]) as second,
            sender(path, 4, uids[0], None),
        ):
            found = {
                (one.pid, one.pod_uid, one.container_id, one.loop and one.loop.steps) for one in steps.take()
            }
    assert found == {
        (first, uids[0], groups[0].container_id, 1), (second, uids[1], groups[1].container_id, 2)
    }  # fmt: skip
    assert telemetry.count(STEPS_REFUSED) == 1  # of a process of no pod
