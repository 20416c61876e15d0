"""Measures a command as a collector measures a pod: its samples have one pod, the command's processes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from collectors.attribution.cgroup_path import CgroupId, CgroupKind
from collectors.attribution.kubelet_allocations import Allocations
from collectors.attribution.processes import Attribution
from collectors.base import Tick, of_node
from collectors.cgroup.host import HostReader
from collectors.rates import Rate, rounded, rounded_pct
from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import Allocation, CgroupSample, Container, PodCgroup
from dutycycle.contract.units import printable_text
from dutycycle.run.command import Ended
from dutycycle.run.process_tree import ProcessTree

NAMESPACE = "run"
_CONTAINER = "command"
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""``PROC_PID_INIT_INO`` of the kernel: in any other one the driver's process ids may not be ours."""


class CommandCollector:
    """Samples the host, and the command's processes as one pod. ``end`` is told what the command used in
    all."""

    name = "command"

    def __init__(self, pod: Pod, tree: ProcessTree) -> None:
        self._pod = pod
        self._tree = tree
        self._host = HostReader()
        self._cpu, self._read, self._written = Rate(), Rate(), Rate()
        self._named = False
        self._ended: Ended | None = None
        self.pids: frozenset[int] = frozenset()
        """The command's processes at the last tick."""

    def holds(self, pid: int) -> bool:
        """Tell whether it is, or just was, a process of the command."""
        return pid in self.pids or self._tree.holds(pid)

    def end(self, ended: Ended) -> None:
        """Note that the command has ended: the next tick is the last."""
        self._ended = ended

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Return one sample; with the first and the last one the pod's own record."""
        out = []
        if not self._named or self._ended is not None:
            pod = self._pod
            if self._ended is not None:
                phase = "Failed" if self._ended.status else "Succeeded"
                pod = replace(pod, phase=phase, finished_ms=tick.ts_ms)
            out.append(ProducerRecord(topic="pods", key=pod.uid, value=encode(pod), ts_ms=tick.ts_ms))
            self._named = True
        host = self._host.read()
        pods: tuple[PodCgroup, ...] = ()
        use = self._tree.read() if self._ended is None else None
        self.pids = use.pids if use else frozenset()
        # Of one that has ended the kernel's own sums: also of processes that no tick has seen
        counted = self._ended or use
        if counted is not None:
            # Rates are over the time between ticks, which records carry: their sum is what the kernel says,
            # however late a loaded machine reads.
            now_s = tick.monotonic_s
            cpu = self._cpu.per_s(round(counted.cpu_s * 1e9), now_s)
            container = Container(
                id=_CONTAINER, cpu_util_pct=rounded_pct(None if cpu is None else cpu / 1e7),
                mem_used_bytes=use.mem_bytes if use else None,
                io_read_bytes_per_s=rounded(self._read.per_s(counted.read_bytes, now_s)),
                io_write_bytes_per_s=rounded(self._written.per_s(counted.written_bytes, now_s)),
            )  # fmt: skip
            pods = (PodCgroup(uid=self._pod.uid, containers=(container,)),)
        return [*out, of_node("cgroup-samples", CgroupSample(**tick.head, host=host, pods=pods))]

    def close(self) -> None:
        """Close the files of the host."""
        self._host.close()


class OfCommand(Attribution):
    """Names the owner of a process on a GPU: the command, or nobody."""

    def __init__(self, collector: CommandCollector, uid: str) -> None:
        self._collector = collector
        self._owner = CgroupId(
            kind=CgroupKind.POD, path="/", name=_CONTAINER, pod_uid=uid, container_id=_CONTAINER
        )

    def of_pid(self, pid: int) -> CgroupId | None:
        """Return the command's pod, if it is one of its processes."""
        return self._owner if self._collector.holds(pid) else None


class GivenGpus(Allocations):
    """Gives the command the GPUs that it may use, inside a container, where the driver's process ids are the
    host's: they count as its own, as those that a kubelet gave to a pod."""

    def __init__(self, pod: Pod, visible: frozenset[str] | None) -> None:
        self._given = Allocation(pod_uid=pod.uid, namespace=NAMESPACE, pod=pod.name)
        self._visible = visible

    def of(self, uuid: str, index: int, slices: Mapping[str, int]) -> tuple[Allocation, ...]:
        """Return the command, on each GPU and slice that it may use."""
        if self._visible is None or str(index) in self._visible or uuid in self._visible:
            return (self._given,)
        return tuple(replace(self._given, mig=slice_) for slice_ in slices if slice_ in self._visible)

    def close(self) -> None:
        """Do nothing: nothing is held."""


def given_gpus(pod: Pod, environ: Mapping[str, str]) -> GivenGpus | None:
    """Return what the command may use, by ``CUDA_VISIBLE_DEVICES``; None where processes say it."""
    if Path("/proc/self/ns/pid").readlink().name == _INITIAL_PID_NAMESPACE:
        return None
    return GivenGpus(pod, visible_gpus(environ.get("CUDA_VISIBLE_DEVICES")))


def visible_gpus(text: str | None) -> frozenset[str] | None:
    """Return indexes and UUIDs in ``CUDA_VISIBLE_DEVICES``, up to the first that is neither; None for all."""
    if text is None:
        return None
    gpus = []
    for gpu in (part.strip() for part in text.split(",")):
        if not gpu.isdecimal() and not gpu.startswith(("GPU-", "MIG-")):
            break
        gpus.append(gpu)
    return frozenset(gpus)


def pod_of(command: Sequence[str], node: str, pid: int, ts_ms: int) -> Pod:
    """Return the pod that stands for the command: named as it is typed, cut to what is told apart by it."""
    name = printable_text(" ".join([Path(command[0]).name, *command[1:]]))
    return Pod(
        uid=f"run-{node}-{pid}-{ts_ms}", namespace=NAMESPACE,
        name=name[:80] or "?", node=node, phase="Running",
        created_ms=ts_ms, started_ms=ts_ms,
    )  # fmt: skip
