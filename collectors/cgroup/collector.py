"""Measures at every tick the host, and each pod's containers, from the kernel's own counters."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectors.attribution.cgroup_path import CgroupId, CgroupKind
from collectors.attribution.processes import INCLUDED
from collectors.base import Tick, of_node
from collectors.cgroup.host import HostReader
from collectors.cgroup.meter import ContainerMeter
from collectors.cgroup.mounts import find_hierarchies
from collectors.cgroup.network import PodNetworks
from collectors.cgroup.synthetic_pods import SyntheticPods, label
from collectors.cgroup.tree import CgroupTree, Group
from collectors.files import FilePool
from collectors.rates import rounded
from collectors.within_host import within_host
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.samples import CgroupSample, Container, PodCgroup
from dutycycle.telemetry.events import NOT_MEASURED, Telemetry

_NETWORKED = frozenset({CgroupKind.POD, CgroupKind.CONTAINER})


@dataclass(slots=True)
class _Reported:
    """Holds what is one pod in a sample, or stands for one: its uid, and its groups with what measures each.

    ``folders``: where its processes are, those of containers nested in it last, whose network is another;
    none where its network is the host's.
    """

    uid: str
    meters: list[tuple[Group, ContainerMeter]]
    folders: list[str]
    measured: tuple[list[Container], int | None, int | None] | None = None
    """Holds the containers and the network's rates that ``record`` has."""
    record: PodCgroup | None = None


class CgroupCollector:
    """Measures a host and what runs on it, without asking any daemon.

    ``containers``: "pods", "containers" or "all" (the setting of that name). What is no pod gets a uid of
    its own and a record on ``pods``, withdrawn ``retire_s`` seconds after it is gone.
    """

    name = "cgroup"

    def __init__(
        self,
        *,
        telemetry: Telemetry,
        host_root: str = "/",
        containers: str = "pods",
        retire_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._pool = FilePool()
        self._host = HostReader(host_root, pool=self._pool, clock=clock)
        hierarchies = find_hierarchies(host_root)
        self._tree = CgroupTree(hierarchies, INCLUDED[containers])
        self._networks = PodNetworks(host_root, self._pool)
        self._synthetic_pods = SyntheticPods(retire_s)
        self._meters: dict[tuple[str, str], ContainerMeter] = {}
        self._groups: list[Group] = []
        self._reported: list[_Reported] = []
        controllers = {controller for each in hierarchies for controller in each.controllers}
        if not hierarchies:
            detail = "nothing is mounted at the host root's sys/fs/cgroup: the host alone is measured"
            telemetry.emit(NOT_MEASURED, detail, what="cgroups", reason="not_mounted")
        for what, by in (("memory", {"memory"}), ("io", {"io", "blkio"})):
            if hierarchies and not by & controllers:
                detail = "no cgroup controller of this host counts it per container"
                telemetry.emit(NOT_MEASURED, detail, what=what, reason="not_counted")

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Return a sample, after the changes of synthetic pods. Raises ``OSError`` as ``CgroupTree`` does."""
        host = self._host.read()
        groups = self._tree.groups()
        if groups is not self._groups:
            self._arrange(groups, tick.node)
        if self._tree.left_out:
            detail = f"{self._tree.left_out} cgroups are more than a record carries"
            self._telemetry.emit(NOT_MEASURED, detail, what="cgroups", reason="too_many")
        pods: list[PodCgroup] = []
        unnamed: dict[str, CgroupId] = {}
        disks, host_namespace = self._host.disks, self._networks.host_namespace()
        for pod in self._reported:
            containers = []
            for group, meter in pod.meters:
                if (container := meter.measure(disks)) is not None:
                    container, left_out = within_host(container, host)
                    for field, value in left_out.items():
                        detail = (
                            f"{field} of {group.id.path} is {value:g}, more than its host has: it is left out"
                        )
                        self._telemetry.emit(NOT_MEASURED, detail, what=field, reason="out_of_range")
                    containers.append(container)
                    who = group.id
            if not containers:
                continue
            if not who.pod_uid:  # no API server names it
                unnamed[pod.uid] = who
            rx, tx = self._networks.rates(pod.uid, pod.folders, host_namespace, self._clock())
            measured = containers, rounded(rx), rounded(tx)
            if pod.record is None or measured != pod.measured:
                pod.measured = measured
                pod.record = PodCgroup(
                    uid=pod.uid, qos=who.qos, net_rx_bytes_per_s=measured[1], net_tx_bytes_per_s=measured[2],
                    containers=tuple(containers),
                )  # fmt: skip
            pods.append(pod.record)
        sample = CgroupSample(**tick.head, host=host, pods=tuple(pods))
        return [*self._synthetic_pods.update(unnamed, tick), of_node("cgroup-samples", sample)]

    def close(self) -> None:
        """Close every file that is held open."""
        self._arrange([], "")
        self._tree.close()
        self._host.close()

    def _arrange(self, groups: list[Group], node: str) -> None:
        """Put the groups together by pod: worked out anew only when one came or went."""
        meters, self._meters = self._meters, {}
        reported: dict[str, _Reported] = {}
        for group in groups:
            meter = meters.get(group.key)
            if meter is None or meter.own_folders != group.own_folders:
                container_id = label(group.id.container_id or group.id.name)
                meter = ContainerMeter(group, self._pool, container_id, clock=self._clock)
            else:
                del meters[group.key]
            self._meters[group.key] = meter
            uid = group.id.pod_uid or group.id.synthetic_uid(node)
            pod = reported.setdefault(uid, _Reported(uid, [], []))
            pod.meters.append((group, meter))
            if group.id.kind in _NETWORKED:
                pod.folders += group.folders
        for pod in reported.values():
            pod.folders.sort(key=lambda folder: folder.count("/"))
        for meter in meters.values():
            meter.close()
        self._groups, self._reported = groups, [*reported.values()]
        self._networks.forget_all_but(reported)
