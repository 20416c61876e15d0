"""A cgroup of its own on the machine that runs the tests, in all of its hierarchies, and a load in it."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from collectors.cgroup.mounts import Hierarchy, find_hierarchies
from tests.support.waiting import wait_until

LOAD = """
import mmap, os, sys
sys.stdin.readline()                                  # until the parent has moved us into the cgroup
held = bytearray(os.urandom(1)) * int(sys.argv[1])    # touched, every page
if len(sys.argv) > 2:
    page = mmap.mmap(-1, 1 << 20)
    file = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
print("ready", flush=True)
while True:
    for _ in range(100_000):
        pass
    if len(sys.argv) > 2:
        os.pwrite(file, page, 0)
"""


class RealCgroup:
    """One cgroup below a folder of its own: ``above`` are the folders between, Docker's if none are given.

    ``name`` is that of the container's own folder, with ``{}`` for its id.
    """

    def __init__(self, *above: str, name: str = "{}") -> None:
        self.container_id = uuid4().hex * 2
        top = f"dutycycle-test-{uuid4().hex[:12]}"
        self._names = (top, *(above or ("docker",)), name.format(self.container_id))
        self.path = "/" + "/".join(self._names)
        self._hierarchies = [one for one in find_hierarchies("/") if one.controllers]

    @classmethod
    def of_pod(cls, uid: str, qos: str = "burstable", *, systemd: bool = True) -> "RealCgroup":
        """One where the kubelet puts a pod's container, by its systemd driver or its cgroupfs driver."""
        if not systemd:
            return cls("kubepods", qos, f"pod{uid}")
        pod = f"kubepods-{qos}-pod{uid.replace('-', '_')}.slice"
        return cls("kubepods.slice", f"kubepods-{qos}.slice", pod, name="cri-containerd-{}.scope")

    def make_or_skip(self) -> None:
        """Skip the test where this machine does not let us."""
        try:
            self.make()
        except OSError as error:
            self.remove()
            pytest.skip(f"no cgroup can be made here (it takes root and a writable /sys/fs/cgroup): {error}")

    def make(self) -> None:
        """Raises ``OSError`` where this machine does not let us."""
        if not self._hierarchies:
            raise FileNotFoundError("no cgroup hierarchy is mounted")
        for hierarchy in self._hierarchies:
            if hierarchy.version == 2:
                self._enable(hierarchy)
            self.folder(hierarchy).mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Take the folders away; nothing may run in them any more."""
        for hierarchy in self._hierarchies:
            folder = self.folder(hierarchy)
            for one in (folder, *folder.parents[: len(self._names) - 1]):
                wait_until(partial(_removed, one), partial("removing {}".format, one))

    def folder(self, hierarchy: Hierarchy) -> Path:
        """The cgroup's folder in one hierarchy."""
        return Path(hierarchy.root) / self.path[1:]

    def file(self, v1: str, v2: str) -> Path:
        """The file of this cgroup that has one name on v1 and another on v2."""
        found = [self.folder(one) / (v1 if one.version == 1 else v2) for one in self._hierarchies]
        return next(file for file in found if file.exists())

    def _enable(self, hierarchy: Hierarchy) -> None:
        folder = Path(hierarchy.root)
        for name in self._names:
            wanted = " ".join(f"+{one}" for one in ("cpu", "memory", "io") if one in hierarchy.controllers)
            (folder / "cgroup.subtree_control").write_text(wanted)
            folder /= name
            folder.mkdir(exist_ok=True)

    def enter(self, pid: int) -> None:
        """Move a process into the cgroup, in every hierarchy."""
        for hierarchy in self._hierarchies:
            (self.folder(hierarchy) / "cgroup.procs").write_text(str(pid))

    @contextmanager
    def run(self, program: str, *arguments: object, before: Sequence[str] = ()) -> Iterator[int]:
        """A Python program in the cgroup, which waits for a line before it says ``ready``; its pid.

        ``before``: what its command line begins with.
        """
        child = subprocess.Popen(
            [*before, sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            self.enter(child.pid)
            child.stdin.write(b"\n")
            child.stdin.close()
            assert child.stdout.readline() == b"ready\n"
            yield child.pid
        finally:
            child.kill()
            child.wait()
            child.stdout.close()

    def load(self, held_bytes: int, *direct_io: Path) -> AbstractContextManager[int]:
        """A process that holds memory, keeps one core busy, and writes to a file if one is given; its pid."""
        return self.run(LOAD, held_bytes, *direct_io)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # EBUSY: its last process was waited for, but the kernel has not yet let go of it
        return False
    return True


@pytest.fixture
def real_cgroup() -> Iterator[RealCgroup]:
    """A cgroup to load; skips where none can be made."""
    group = RealCgroup()
    group.make_or_skip()
    yield group
    group.remove()
