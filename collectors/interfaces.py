"""Network interfaces, from ``net/dev``: bytes received and sent since each came up."""

import re
from collections.abc import Iterable
from pathlib import Path

# Their bytes pass a physical interface too, or never leave the machine.
_VIRTUAL = re.compile(
    r"lo|(?:veth|docker|br-|virbr|vnet|tap|tun|cni|cbr|cali|lxc|lxd|cilium|flannel|vxlan|geneve|weave|ovs|"
    r"kube-|nodelocaldns|dummy|ifb|bond|team|wg|tailscale|sit|gre|ip6|podman|macvtap|ipvlan|macvlan).*"
    r"|br\d+|.+\.\d+"
)


def interface_bytes(text: str) -> dict[str, tuple[int, int]]:
    """Bytes received and sent by each interface of a ``net/dev``."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        fields = rest.split()
        if colon and len(fields) >= 16:
            found[name.strip()] = (int(fields[0]), int(fields[8]))
    return found


def physical(names: Iterable[str], host_root: str) -> frozenset[str]:
    """Which interfaces are hardware, by sysfs; where none is (inside a container), by their names."""
    known = frozenset(names)
    folder = Path(host_root) / "sys/class/net"
    hardware = frozenset(name for name in known if (folder / name / "device").exists())
    return hardware or frozenset(name for name in known if not _VIRTUAL.fullmatch(name))
