"""Reads the processes on a GPU: who they are, the memory they hold, the part of the GPU they use."""

from collections.abc import Iterable, Mapping
from threading import Lock

from collectors.attribution.cgroup_path import CgroupId
from collectors.attribution.processes import LASTING, Attribution, printable
from collectors.files import CounterFile, FilePool
from collectors.nvml import gate
from collectors.nvml.clock import Cursor, Now, wall_shift_us
from collectors.nvml.query import MOST_BYTES, DeviceQuery
from collectors.nvml.types import Handle, NoDataError, ProcessUtilization, RunningProcess
from dutycycle.contract.catalogue import PCT
from dutycycle.contract.records.samples import GpuProcess
from dutycycle.contract.units import sum_of_all

_PERIOD_US = 1_000_000
"""The longest time between two of the driver's samples: it averages over 1/6 to 1 s."""
_OPEN_FILES = 256
_MPS_SERVER = "nvidia-cuda-mps-server"[:15]
"""As the kernel cuts its name. It does the work of its clients, in whatever pods these are: the driver lists
it instead of them, and counts their kernels as its own (NVIDIA, "Multi-Process Service")."""
_Identity = tuple[str | None, str | None, str | None]


class _Process:
    """Holds a process: its ``comm``, which is kept open, and its owner as far as that is known for good."""

    __slots__ = ("comm", "identity", "name", "opened", "owner", "raw")

    def __init__(self, comm: CounterFile) -> None:
        self.comm = comm
        self.opened = 0
        self.raw: bytes | None = None
        self.name: str | None = None
        self.owner: CgroupId | None = None
        self.identity: _Identity | None = None
        """Of this tick."""


class ProcessIdentities:
    """Identifies each process once a tick, on however many GPUs it is.

    The ``comm`` of a process is kept open: reading it again costs a tenth of opening it, and fails when the
    process has ended, even if its pid is another's now. So an owner holds for as long as it can be read.
    ``of`` may be called by several threads.
    """

    def __init__(self, attribution: Attribution | None, host_root: str = "/") -> None:
        self._attribution = attribution
        self._proc = f"{host_root.rstrip('/')}/proc"
        self._pool = FilePool(_OPEN_FILES)
        self._known: dict[int, _Process] = {}
        self._lock = Lock()

    def begin_tick(self) -> None:
        """Forget the processes that were not asked for, and the names of all, which may change: each is read
        again."""
        for pid in [pid for pid, known in self._known.items() if known.identity is None]:
            self._known.pop(pid).comm.close()
        for known in self._known.values():
            known.identity = None

    def of(self, pid: int) -> _Identity:
        """Name (``/proc/<pid>/comm``), pod uid and container id of process ``pid``; None: unknown."""
        with self._lock:
            if (known := self._known.get(pid)) is None:
                known = self._known[pid] = _Process(self._pool.file(f"{self._proc}/{pid}/comm"))
            if known.identity is not None:
                return known.identity
            raw = known.comm.read()
            if raw is None or known.opened != known.comm.opened:  # the process ended, or is another one now
                known.opened, known.owner = known.comm.opened, None
            owner = known.owner
            if owner is None and self._attribution is not None:
                owner = self._attribution.of_pid(pid)
                if owner is not None and owner.kind in LASTING:
                    known.owner = owner
            if raw != known.raw:
                known.raw = raw
                known.name = None if raw is None else printable(raw.decode(errors="replace").rstrip("\n"))
            pod_uid, container_id = (owner.pod_uid, owner.container_id) if owner else (None, None)
            known.identity = known.name, pod_uid, container_id
            return known.identity

    def close(self) -> None:
        """Close the files that are held."""
        for known in self._known.values():
            known.comm.close()
        self._known.clear()


class ProcessUtilizations:
    """Holds one answer of the driver: the newest utilization of each process that did something.

    The driver leaves out a process that did nothing. So a missing process used 0 percent, but only if the
    answer covers a whole sampling period of the driver (``covers_period``); else it is unknown.
    """

    def __init__(
        self, by_pid: Mapping[int, ProcessUtilization], *, covers_period: bool, query: DeviceQuery
    ) -> None:
        self.by_pid = by_pid
        self._query = query
        self.covers_period = covers_period

    def of(self, pid: int) -> tuple[float | None, float | None]:
        """Return ``gpu_util_pct`` and ``mem_copy_util_pct`` (0-100; nvidia-smi pmon: sm, mem); None:
        unknown."""
        utilization = self.by_pid.get(pid)
        if utilization is not None:
            sm_pct, mem_copy_pct = utilization.sm_pct, utilization.mem_copy_pct
            if max(sm_pct, mem_copy_pct) <= PCT[1]:  # they have no sign
                return sm_pct, mem_copy_pct
            possible = self._query.possible
            return possible("process_util", sm_pct, PCT), possible("process_util", mem_copy_pct, PCT)
        return (0, 0) if self.covers_period else (None, None)


class ProcessUtilizationReader:
    """Asks one GPU once a tick, always from the last stamp it returned.

    The driver keeps up to nine seconds of the past (NVIDIA/go-nvml#51): without a stamp, old utilization
    would be taken for new.
    """

    def __init__(self) -> None:
        self._cursor = Cursor()
        self._rows = gate.process_utilization()
        self._moved_at_us = 0

    def ask(self, query: DeviceQuery, now: Now) -> None:
        """Ask the driver for what ``read`` reads next."""
        self._rows.after_us.value = self._cursor.after_us(now)
        query.begin("process_util", self._rows)

    def read(self, query: DeviceQuery, now: Now, interval_ms: int) -> ProcessUtilizations | None:
        """Return the utilization since the last read (at first: of one interval); None where there is none to
        have."""
        after_us = self._cursor.after_us(now)
        self._rows.after_us.value = after_us
        utilizations = query.ask("process_util", lambda handle: self._new(handle, now))
        if utilizations is None:
            return None
        quiet_us = _PERIOD_US
        if after_us:
            shift_us = wall_shift_us(after_us, now)
            if shift_us is None:
                quiet_us = now.monotonic_us - self._moved_at_us
            else:
                quiet_us = now.wall_us - after_us - shift_us
        if utilizations:
            self._cursor.last_us = max(utilization.stamp_us for utilization in utilizations)
            self._moved_at_us = now.monotonic_us
        if utilizations and not after_us:
            # The first answer holds seconds of the past: what counts of it is one interval.
            shift_us = wall_shift_us(self._cursor.last_us, now)
            if shift_us is None:
                # The stamps are of an unknown clock: nothing says how old they are.
                return ProcessUtilizations({}, covers_period=False, query=query)
            oldest_us = now.wall_us - shift_us - max(interval_ms * 1000, _PERIOD_US)
            utilizations = [utilization for utilization in utilizations if utilization.stamp_us >= oldest_us]
        by_pid = {utilization.pid: utilization for utilization in utilizations}
        return ProcessUtilizations(by_pid, covers_period=quiet_us >= _PERIOD_US, query=query)

    def _new(self, handle: Handle, now: Now) -> list[ProcessUtilization]:
        try:
            rows = self._rows(handle)
        except NoDataError:
            return []
        return self._cursor.new_of(rows, 1, now)


def read_processes(
    compute: list[RunningProcess] | None,
    graphics: list[RunningProcess] | None,
    utilizations: ProcessUtilizations | None,
    identities: ProcessIdentities,
    query: DeviceQuery,
    total_bytes: int | None,
) -> tuple[GpuProcess, ...] | None:
    """Return every process in the GPU's lists or with utilization, by pid. None where there is none in what
    is known, and it is not known which compute on it: nobody is no answer then. Memory that is more than the
    GPU's ``total_bytes`` is absent, and counted by ``query``.

    A process in the compute and in the graphics list is one process (nvidia-smi: type C+G). A server of MPS
    is none: whose work it does is not known, and a client of which no utilization is told may do it.
    """
    held = memory_by_pid([*(compute or ()), *(graphics or ())])
    most = total_bytes or MOST_BYTES
    for pid, used in held.items():
        if used is not None and used > most:  # as libraries older than the driver read it
            query.possible("process_memory", used, (0, most))
            held[pid] = None
    pids = sorted({*held, *(utilizations.by_pid if utilizations else ())})
    if compute is None and not pids:
        return None
    known = {pid: identities.of(pid) for pid in pids}
    clients = {pid: identity for pid, identity in known.items() if identity[0] != _MPS_SERVER}
    are_served = len(clients) < len(known)
    if are_served and not clients:
        return None
    processes = []
    for pid, (name, pod_uid, container_id) in clients.items():
        gpu_util = mem_copy_util = None
        if utilizations and (pid in utilizations.by_pid or not are_served):
            gpu_util, mem_copy_util = utilizations.of(pid)
        process = GpuProcess(
            pid=pid, pod_uid=pod_uid, container_id=container_id, name=name, gpu_util_pct=gpu_util,
            mem_copy_util_pct=mem_copy_util, mem_used_bytes=held.get(pid),
        )  # fmt: skip
        processes.append(process)
    return tuple(processes)


def memory_by_pid(listed: Iterable[RunningProcess]) -> dict[int, int | None]:
    """Return the bytes held by each process, summed over its MIG instances; None where one of them is
    unknown.

    For a process in both lists the driver gives the same bytes twice: they count once.
    """
    held: dict[int, dict[tuple[int, int], int | None]] = {}
    for process in listed:
        known = held.setdefault(process.pid, {})
        before = known.get(process.instance)
        known[process.instance] = (
            process.used_bytes if before is None else max(before, process.used_bytes or 0)
        )
    return {pid: sum_of_all(parts.values()) for pid, parts in held.items()}
