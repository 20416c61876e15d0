"""A pod's container without a runtime: a real process in real cgroups, laid out as the kubelet does."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.data.real_cgroup import RealCgroup

_MIB = 1024**2
HAS_NETWORK = Path("/dev/net/tun").exists()
"""Whether a container can have an interface of its own here."""

# Holds memory; computes a quarter of the time, so that it can be measured and leaves the machine usable; and
# receives 8 Mbit/s on average: what is written to a tunnel has been received by its interface.
_PROGRAM = """
import fcntl, os, socket, struct, sys, time
sys.stdin.readline()                                  # until the parent has moved us into the cgroup
held = bytearray(os.urandom(1)) * int(sys.argv[1])    # touched, every page
tunnel = None
if sys.argv[2] == "True":
    TUNSETIFF, TUN_WITHOUT_HEADER, SIOCSIFFLAGS, UP = 0x400454CA, 0x1001, 0x8914, 1
    tunnel = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH", b"eth0", TUN_WITHOUT_HEADER))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"eth0", UP))
packet = bytes([0x45, 0, 3, 232]) + bytes(996)
print("ready", flush=True)
while True:
    end = time.perf_counter() + 0.05
    for _ in range(200 if tunnel else 0):
        os.write(tunnel, packet)
    while time.perf_counter() < end:
        pass
    time.sleep(0.15)
"""

# As every pod has, but for those on the host's network. util-linux brings unshare.
_OWN_NETWORK = ("unshare", "--net", "--")


class Container:
    """Runs from ``with`` to its end; as by the kubelet's systemd driver, or by its cgroupfs driver."""

    def __init__(self, pod_uid: str, *, held_mib: int = 64, systemd: bool = True) -> None:
        if systemd:
            pod = f"kubepods-burstable-pod{pod_uid.replace('-', '_')}.slice"
            above, name = ("kubepods.slice", "kubepods-burstable.slice", pod), "cri-containerd-{}.scope"
        else:
            above, name = ("kubepods", "burstable", f"pod{pod_uid}"), "{}"
        self._cgroup = RealCgroup(*above, name=name)
        self._held_bytes = held_mib * _MIB
        self.id = self._cgroup.container_id
        self.pid = 0

    def __enter__(self) -> "Container":
        try:
            self._cgroup.make()
        except OSError as error:
            self._cgroup.remove()
            pytest.skip(f"no cgroup can be made here (it takes root and a writable /sys/fs/cgroup): {error}")
        self._process = subprocess.Popen(
            [*_OWN_NETWORK, sys.executable, "-c", _PROGRAM, str(self._held_bytes), str(HAS_NETWORK)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.pid = self._process.pid
        try:
            self._begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the process, and remove the cgroup."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._cgroup.remove()

    def _begin(self) -> None:
        self._cgroup.enter(self.pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.close()
        assert self._process.stdout.readline() == b"ready\n"
