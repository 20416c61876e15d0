"""Measures a pod's network: the counters of its network namespace, seen through one of its processes."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from collectors.cgroup.tree import first_pid
from collectors.files import CounterFile, FilePool
from collectors.interfaces import interface_bytes, of_pod
from collectors.rates import PairRate

NoRates = tuple[None, None]
_HOST_CALLS = 10
"""A pod stays on the host's network: it is looked at once in so many calls."""


@dataclass(slots=True)
class _PodNetwork:
    """Holds of one pod the process whose ``net/dev`` is read, its cgroup folder and network namespace, the
    rates.

    ``comm`` is a file of that process, kept open: it can be read while the process is there, and never tells
    of another one that was given its pid.
    """

    next_pause: int
    """Says how many calls it goes unseen after a look at it on the host's network: at first another number
    for each pod, so that not all are looked at in the same."""
    folder: str = ""
    pid: int = 0
    comm: CounterFile | None = None
    namespace: str | None = None
    on_host: int = 0
    """For how many calls more it counts as a pod on the host's network, unseen."""
    rate: PairRate = field(default_factory=PairRate)

    def forget_process(self) -> None:
        """Search the cgroups for a process again."""
        if self.comm is not None:
            self.comm.close()
            self.comm = None


class PodNetworks:
    """Receive and transmit rates of pods.

    A pod on the host's network has none of its own: its counters would be the node's. Nor has one whose
    namespace is not known, for it may be on the host's.

    A namespace's link may be read by those alone who may trace the process. Where the host's may not, the
    namespace goes by the inode of its ``net/dev``, of which each has its own, and which all may see.
    """

    def __init__(self, host_root: str, pool: FilePool) -> None:
        self._pool = pool
        self._proc = f"{host_root.rstrip('/')}/proc"
        self._networks: dict[str, _PodNetwork] = {}
        self._by_link = True

    def rates(
        self, uid: str, folders: Sequence[str], host: str | None, now: float
    ) -> tuple[float, float] | NoRates:
        """Return bytes per second received and sent by pod ``uid``, whose cgroups are ``folders``.

        ``host``: the host's namespace, from ``host_namespace``; ``now``: monotonic seconds.
        """
        if (network := self._networks.get(uid)) is None:
            network = self._networks[uid] = _PodNetwork(len(self._networks) % _HOST_CALLS)
        if network.on_host:
            network.on_host -= 1
            return None, None
        for _ in range(2):
            pid = self._process(network, folders)
            if pid is None or host is None:
                return None, None
            if pid != network.pid:
                network.pid = pid
                if (namespace := self._namespace(pid)) != network.namespace:
                    network.namespace, network.rate = namespace, PairRate()
            if network.namespace is None:
                return None, None
            if network.namespace == host:
                network.on_host, network.next_pause = network.next_pause, _HOST_CALLS - 1
                return None, None
            if counters := self._counters(pid):
                return network.rate.per_s(counters, now)
            network.forget_process()  # it has ended, and waits to be reaped: another one may be there
        return network.rate.per_s({}, now)

    def host_namespace(self) -> str | None:
        """Return the host's network namespace, pid 1's; None when it is not to be known."""
        self._by_link = self._link(1) is not None
        return self._namespace(1)

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Drop what is known of pods that are gone."""
        kept = set(uids)
        for uid in self._networks.keys() - kept:
            self._networks.pop(uid).forget_process()

    def _process(self, network: _PodNetwork, folders: Sequence[str]) -> int | None:
        # It stays in its container: the groups need not be searched while it is there.
        if network.comm is not None and network.comm.read() is not None and network.comm.opened == 1:
            return network.pid
        network.forget_process()
        # On v1 some of a container's folders may be empty of processes: first where one was the last time.
        for folder in (network.folder, *folders):
            if folder and (pid := first_pid(folder)):
                network.folder = folder
                network.comm = self._pool.file(f"{self._proc}/{pid}/comm")
                network.comm.read()
                return pid
        return None

    def _namespace(self, pid: int) -> str | None:
        if self._by_link:
            return self._link(pid)
        try:
            return str(os.stat(f"{self._proc}/{pid}/net/dev").st_ino)  # noqa: PTH116 - a Path costs thrice
        except OSError:
            return None

    def _link(self, pid: int) -> str | None:
        try:
            return os.readlink(f"{self._proc}/{pid}/ns/net")  # noqa: PTH115 - a Path costs thrice the call
        except OSError:
            return None

    def _counters(self, pid: int) -> dict[str, tuple[int, int]]:
        # Opened each time: an open file would keep the namespace alive after its pod is gone.
        try:
            with open(f"{self._proc}/{pid}/net/dev", "rb", buffering=0) as file:  # noqa: PTH123 - as above
                text = file.readall()
        except OSError:
            return {}
        return of_pod(interface_bytes(text.decode(errors="replace")))
