"""A pod's container without a runtime: a real process in real cgroups, laid out as the kubelet does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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


class Container(NamedTuple):
    """Its id, and the pid of its process."""

    id: str
    pid: int


@contextmanager
def run_container(pod_uid: str, *, held_mib: int = 64, systemd: bool = True) -> Iterator[Container]:
    """Run one until the block ends; as by the kubelet's systemd driver, or by its cgroupfs driver."""
    cgroup = RealCgroup.of_pod(pod_uid, systemd=systemd)
    cgroup.make_or_skip()
    try:
        with cgroup.run(_PROGRAM, held_mib * _MIB, HAS_NETWORK, before=_OWN_NETWORK) as pid:
            yield Container(cgroup.container_id, pid)
    finally:
        cgroup.remove()
