"""The processes on a GPU: who they are, what they hold and what they use."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from collectors.nvml import gate
from collectors.nvml.query import Asker
from collectors.nvml.shares import Shares
from collectors.nvml.types import Running
from contract.records.samples import GpuProcess


class Owner(Protocol):
    """Whose a process is: ``collectors.attribution.cgroup_path.CgroupId`` is one."""

    @property
    def pod_uid(self) -> str | None: ...

    @property
    def container_id(self) -> str | None: ...


class Attributor(Protocol):
    """Finds a process's owner: ``collectors.attribution.processes.Attribution`` is one."""

    def of_pid(self, pid: int) -> Owner | None: ...


class Identity(NamedTuple):
    """What is known of a process outside the GPU; absent is unknown."""

    name: str | None
    pod_uid: str | None
    container_id: str | None


class Identities:
    """Looks each process up once a tick, on however many GPUs it is."""

    def __init__(self, attributor: Attributor | None, host_root: str = "/") -> None:
        self._attributor = attributor
        self._proc = Path(host_root) / "proc"
        self._known: dict[int, Identity] = {}

    def begin_tick(self) -> None:
        """Forget: a name may change, and a pid be given to another process."""
        self._known.clear()

    def of(self, pid: int) -> Identity:
        """Who process ``pid`` is."""
        if (known := self._known.get(pid)) is None:
            owner = self._attributor.of_pid(pid) if self._attributor else None
            pod_uid, container_id = (owner.pod_uid, owner.container_id) if owner else (None, None)
            known = self._known[pid] = Identity(self._name(pid), pod_uid, container_id)
        return known

    def _name(self, pid: int) -> str | None:
        try:
            raw = (self._proc / str(pid) / "comm").read_bytes()
        except OSError:
            return None
        return printable(raw.decode(errors="replace").rstrip("\n"))


def printable(text: str) -> str | None:
    """``text`` with what cannot be printed as "?"; None if there is nothing left to read."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text).strip()
    return shown[:1024] or None


def read_processes(
    asker: Asker, shares: Shares | None, identities: Identities
) -> tuple[GpuProcess, ...] | None:
    """Every process that a GPU's lists or its utilization name, by pid; None if none of them can be had."""
    compute = asker.ask("compute_processes", gate.compute_processes)
    graphics = asker.ask("graphics_processes", gate.graphics_processes)
    if compute is None and graphics is None and shares is None:
        return None
    held = memory_by_pid([*(compute or ()), *(graphics or ())])
    pids = sorted({*held, *(shares.by_pid if shares else ())})
    return tuple(_process(pid, held.get(pid), shares, identities.of(pid)) for pid in pids)


def memory_by_pid(listed: Iterable[Running]) -> dict[int, int | None]:
    """Bytes held by each process, over all its MIG instances; None where any of them is unknown.

    A process in both lists is one process: the driver gives the same figure twice.
    """
    held: dict[int, dict[tuple[int, int], int | None]] = {}
    for one in listed:
        known = held.setdefault(one.pid, {})
        before = known.get(one.instance)
        known[one.instance] = one.used_bytes if before is None else max(before, one.used_bytes or 0)
    return {pid: _sum(parts.values()) for pid, parts in held.items()}


def _sum(parts: Iterable[int | None]) -> int | None:
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)


def _process(pid: int, used: int | None, shares: Shares | None, identity: Identity) -> GpuProcess:
    gpu_util, mem_copy_util = shares.of(pid) if shares else (None, None)
    return GpuProcess(
        pid=pid,
        pod_uid=identity.pod_uid,
        container_id=identity.container_id,
        name=identity.name,
        gpu_util_pct=gpu_util,
        mem_copy_util_pct=mem_copy_util,
        mem_used_bytes=used,
    )
