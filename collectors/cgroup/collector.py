"""The cgroup collector: at every tick the host, and each pod's containers, from the kernel's own counters."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from collectors.attribution.cgroup_path import CgroupKind
from collectors.attribution.processes import INCLUDED
from collectors.base import Outgoing, Tick
from collectors.cgroup.host import HostReader
from collectors.cgroup.meter import ContainerMeter
from collectors.cgroup.mounts import Hierarchy, find_hierarchies
from collectors.cgroup.network import PodNetworks
from collectors.cgroup.synthetic_pods import SyntheticPods, label
from collectors.cgroup.tree import CgroupTree, Group
from collectors.files import FilePool
from collectors.rates import rounded
from dutycycle.contract.codec import encode
from dutycycle.contract.records.samples import CgroupSample, Container, PodCgroup
from dutycycle.telemetry.events import NOT_MEASURED, Telemetry

_NETWORKED = frozenset({CgroupKind.POD, CgroupKind.CONTAINER})


@dataclass(frozen=True, slots=True)
class _Measured:
    """One group at one tick. ``uid``: of its pod, or a synthetic one."""

    uid: str
    group: Group
    container: Container


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
        self._host = HostReader(host_root, clock=clock)
        hierarchies = find_hierarchies(host_root)
        self._tree = CgroupTree(hierarchies, INCLUDED[containers])
        self._pool = FilePool()
        self._networks = PodNetworks(host_root, self._pool)
        self._synthetic_pods = SyntheticPods(retire_s)
        self._meters: dict[tuple[str, str], ContainerMeter] = {}
        self._report_missing_controllers(hierarchies)

    def collect(self, tick: Tick) -> Sequence[Outgoing]:
        """One sample, after the changes of synthetic pods. Raises ``OSError`` as ``CgroupTree`` does."""
        host = self._host.read()
        measured = list(self._measure(self._tree.groups(), tick.node))
        if self._tree.left_out:
            detail = f"{self._tree.left_out} cgroups are more than a record carries"
            self._telemetry.emit(NOT_MEASURED, detail, what="cgroups", reason="too_many")
        self._forget(
            {container.group.key for container in measured}, {container.uid for container in measured}
        )
        unnamed = {
            container.uid: container.group.id for container in measured if not container.group.id.pod_uid
        }
        sample = CgroupSample(
            node=tick.node, collector=tick.collector, seq=tick.seq, ts_ms=tick.ts_ms,
            interval_ms=tick.interval_ms, host=host, pods=tuple(self._pods(measured)),
        )  # fmt: skip
        outgoing = Outgoing(topic="cgroup-samples", key=tick.node, payload=encode(sample), ts_ms=tick.ts_ms)
        return [*self._synthetic_pods.update(unnamed, tick), outgoing]

    def close(self) -> None:
        """Close every file that is held open."""
        self._forget(set(), set())
        self._tree.close()

    def _measure(self, groups: list[Group], node: str) -> Iterator[_Measured]:
        for group in groups:
            meter = self._meters.get(group.key)
            if meter is None or meter.own_folders != group.own_folders:
                if meter is not None:
                    meter.close()
                container_id = label(group.id.container_id or group.id.name)
                meter = ContainerMeter(group, self._pool, container_id, clock=self._clock)
                self._meters[group.key] = meter
            if (container := meter.measure(self._host.disks)) is not None:
                yield _Measured(group.id.pod_uid or group.id.synthetic_uid(node), group, container)

    def _pods(self, measured: list[_Measured]) -> Iterator[PodCgroup]:
        pods: dict[str, list[_Measured]] = {}
        for container in measured:
            pods.setdefault(container.uid, []).append(container)
        host_namespace = self._networks.host_namespace()
        for uid, members in pods.items():
            who = members[0].group.id
            folders: list[str] = []
            if who.kind in _NETWORKED:
                folders = [folder for member in members for folder in member.group.folders]
            rx, tx = self._networks.rates(uid, folders, host_namespace, self._clock())
            yield PodCgroup(
                uid=uid, qos=who.qos, net_rx_bytes_per_s=rounded(rx), net_tx_bytes_per_s=rounded(tx),
                containers=tuple(member.container for member in members),
            )  # fmt: skip

    def _forget(self, keys: set[tuple[str, str]], uids: set[str]) -> None:
        for key in self._meters.keys() - keys:
            self._meters.pop(key).close()
        self._networks.forget_all_but(uids)

    def _report_missing_controllers(self, hierarchies: Sequence[Hierarchy]) -> None:
        controllers = {controller for each in hierarchies for controller in each.controllers}
        if not hierarchies:
            detail = "nothing is mounted at the host root's sys/fs/cgroup: the host alone is measured"
            self._telemetry.emit(NOT_MEASURED, detail, what="cgroups", reason="not_mounted")
            return
        for what, by in (("memory", {"memory"}), ("io", {"io", "blkio"})):
            if not by & controllers:
                detail = "no cgroup controller of this host counts it per container"
                self._telemetry.emit(NOT_MEASURED, detail, what=what, reason="not_counted")
