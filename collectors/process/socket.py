"""Listens on the socket on which training loops report their steps: one datagram a message, who sent it by
the kernel.

``SO_PASSCRED`` has the kernel put the sender's process id beside each datagram (unix(7)). The pod is looked
up by that, at once, and nothing in the datagram can name another. A thread takes datagrams as they come: the
kernel queues only some (``net.unix.max_dgram_qlen``), and a sender that meets a full queue keeps its steps.
"""

import os
import select
import socket
import stat
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from collectors.attribution.cgroup_path import CgroupId
from collectors.attribution.processes import Attribution, read_start_time
from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.records.processes import Loop, Process, StepReport
from dutycycle.telemetry.events import STEPS_REFUSED, Telemetry

DEFAULT_PATH = "/run/dutycycle/steps.sock"
MOST_BYTES = 4096
_MOST_PROCESSES = 256
_MOST_AT_ONCE = 1024
_MOST_OWNERS = 1024
_CREDENTIALS = struct.Struct("3i")
_WAIT_MS = 200
_PROC = Path("/proc")
"""The own one: the kernel gives a sender's id as this process sees it."""


class SocketTakenError(OSError):
    """Says that another collector listens there."""


class StepSocket:
    """Listens at ``path`` from the start until ``close``. Raises ``OSError`` where it cannot."""

    def __init__(self, path: Path, telemetry: Telemetry, attribution: Attribution) -> None:
        self._path = path
        self._telemetry = telemetry
        self._attribution = attribution
        self._lock = threading.Lock()
        self._reported: dict[int, Process] = {}
        self._owners: OrderedDict[int, tuple[int, CgroupId]] = OrderedDict()
        """Of processes that reported, the latest last: when each started, and whose it is."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.setblocking(False)
            _remove_stale(path)
            self._socket.bind(str(path))
            # Trainings run as anybody. To say something is all that they can do with it.
            os.chmod(path, 0o666)  # noqa: PTH101, S103 - as bind, by the name
        except OSError:
            self._socket.close()
            raise
        self._closing = False
        self._thread = threading.Thread(target=self._receive, name="steps", daemon=True)
        self._thread.start()

    def take(self) -> Iterable[Process]:
        """Return the processes that reported since the last time, each with the sums of its reports."""
        with self._lock:
            self._drain()
            reported, self._reported = self._reported, {}
        return reported.values()

    def close(self) -> None:
        """Stop listening, and remove the socket."""
        self._closing = True
        self._thread.join()
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _receive(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while not self._closing:
            if poll.poll(_WAIT_MS):
                with self._lock:
                    self._drain()

    def _drain(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                # No room for more than the credentials: a file descriptor that is sent along is not taken.
                data, ancillary, flags, _ = self._socket.recvmsg(
                    MOST_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size)
                )
            except BlockingIOError:
                return
            # In the collector's pid namespace; 0, which is nobody's, for a sender that it cannot see.
            pid: int = next(
                (
                    _CREDENTIALS.unpack_from(credentials)[0]
                    for level, kind, credentials in ancillary
                    if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS
                ),
                0,
            )
            if flags & socket.MSG_TRUNC:
                self._refuse("too_large", pid, f"larger than {MOST_BYTES} bytes")
            else:
                self._take(pid, data)

    def _take(self, pid: int, data: bytes) -> None:
        try:
            report = decode(StepReport, data, "steps")
        except DecodeError as error:
            self._refuse(error.reason.value, pid, error.brief)
            return
        owner = self._find_owner(pid)
        if owner is None or owner.pod_uid is None:
            self._refuse("no_pod", pid, "its process is of no pod")
            return
        loop = Loop(**{name: getattr(report, name) for name in Loop.__struct_fields__})
        before = self._reported.get(pid)
        if before is None and len(self._reported) >= _MOST_PROCESSES:
            self._refuse("too_many", pid, f"{_MOST_PROCESSES} processes report already")
            return
        if before is not None and before.pod_uid == owner.pod_uid and before.loop is not None:
            # Sums of steps; of all else the newest that is known
            newest = {
                name: value for name in Loop.__struct_fields__ if (value := getattr(loop, name)) is not None
            }
            longest = [seconds for seconds in (before.loop.longest_s, loop.longest_s) if seconds is not None]
            samples = [count for count in (before.loop.samples, loop.samples) if count is not None]
            newest |= {
                "steps": before.loop.steps + loop.steps,
                "seconds": before.loop.seconds + loop.seconds,
                "longest_s": max(longest, default=None),
                "samples": sum(samples) if samples else None,
            }
            loop = replace(before.loop, **newest)
        self._reported[pid] = Process(
            pid=pid, pod_uid=owner.pod_uid, container_id=owner.container_id, loop=loop
        )

    def _find_owner(self, pid: int) -> CgroupId | None:
        """Say whose process it is. One that has ended since it sent belongs to whom it belonged before: the
        last steps of a training are read late where the machine is busy."""
        started = read_start_time(_PROC, pid)
        known = self._owners.get(pid)
        if known is not None and started is None:
            return known[1]
        owner = self._attribution.of_pid(pid)
        if owner is None and known is not None and known[0] == started:  # a zombie is in no pod's cgroup
            return known[1]
        if owner is not None and started is not None:
            self._owners[pid] = (started, owner)
            self._owners.move_to_end(pid)
            if len(self._owners) > _MOST_OWNERS:
                self._owners.popitem(last=False)
        return owner

    def _refuse(self, reason: str, pid: int, detail: str) -> None:
        self._telemetry.emit(STEPS_REFUSED, f"of process {pid}: {detail}", about=str(pid), reason=reason)


def _remove_stale(path: Path) -> None:
    """Remove what a collector left that was killed; raises ``SocketTakenError`` where one listens."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path} is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        else:
            raise SocketTakenError(f"another collector listens at {path}")
