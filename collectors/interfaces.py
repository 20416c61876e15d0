"""Reads network interfaces, from ``net/dev`` and sysfs: bytes received and sent since each came up, and
speeds."""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from collectors.files import number_in

_MEGABIT = 1_000_000 // 8  # sysfs has the speed in megabits a second

# Their bytes pass another interface beside them, or never leave the machine or pod.
_INNER = re.compile(
    r"lo|(?:veth|docker|br-|virbr|vnet|tap|tun|cni|cbr|cali|lxc|lxd|cilium|flannel|vxlan|geneve|weave|ovs|"
    r"kube-|k6t-|nodelocaldns|dummy|ifb|bond|team|wg|tailscale|sit|gre|ip6|podman).*"
    r"|br\d+|.+\.\d+"
)
# Below another interface of the host, also where they are in a pod: there no other one counts their bytes.
_BELOW_HOSTS = re.compile(r"(?:macvtap|ipvlan|macvlan).*")


def interface_bytes(text: str) -> dict[str, tuple[int, int]]:
    """Return bytes received and sent by each interface of a ``net/dev``."""
    bytes_by_name = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        if colon and len(fields := rest.split(None, 9)) == 10:
            received, sent = number_in(fields[0]), number_in(fields[8])
            if received is not None and sent is not None:
                bytes_by_name[name.strip()] = received, sent
    return bytes_by_name


def physical(names: Iterable[str], host_root: str) -> frozenset[str]:
    """Tell which interfaces are hardware, by sysfs; where none is (inside a container), by their names.

    Hardware below other hardware is left out: the virtual function of a network card, whose bytes the
    interface of the hypervisor (Azure, ``net_failover``) counts as well.
    """
    known = frozenset(names)
    folder = Path(host_root) / "sys/class/net"
    hardware = frozenset(name for name in known if (folder / name / "device").exists())
    above = {name: (folder / name / "master").resolve().name for name in hardware}
    counted = (name for name in hardware if above[name] not in hardware)
    return frozenset(counted) or frozenset(
        name for name in known if not _is_inner(name) and not _BELOW_HOSTS.fullmatch(name)
    )


def of_pod(bytes_by_name: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return the interfaces of a pod's own network that lead out of it: not those of containers, machines and
    tunnels in it, whose bytes pass another one. Where each looks like that, all but the loopback."""
    outer = {name: counts for name, counts in bytes_by_name.items() if not _is_inner(name)}
    return outer or {name: counts for name, counts in bytes_by_name.items() if name != "lo"}


@lru_cache(1024)
def _is_inner(name: str) -> bool:
    return _INNER.fullmatch(name) is not None


def speed(names: Iterable[str], host_root: str) -> int | None:
    """Return the bytes per second that the interfaces carry together in each direction; None unless known of
    each.

    A virtual machine's often do not say, and one that is down cannot.
    """
    total = 0
    for name in names:
        try:
            megabits = int((Path(host_root) / "sys/class/net" / name / "speed").read_text())
        except (OSError, ValueError):
            return None
        if megabits <= 0:
            return None
        total += megabits * _MEGABIT
    return total or None
