"""Reads records, samples and what the stages made of them, into frames."""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import nan
from typing import Any

import orjson

from dutycycle.contract.catalogue import (
    CAPACITIES,
    CONTAINER_METRICS,
    GPU_ROWS,
    HOST_METRICS,
    MIG_METRICS,
    POD_CGROUP_METRICS,
    names,
)
from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.metering import highest_power_w, highest_util_pct, with_means, working_pct
from dutycycle.contract.ownership.division import seen_processes
from dutycycle.contract.records.health import GpuEvent
from dutycycle.contract.records.insights import ProfileVerdict
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.records.samples import CgroupSample, Gpu, Host, NvmlSample
from dutycycle.contract.topics import TICK_TOPICS
from dutycycle.contract.units import sum_of_known
from dutycycle.traces.frames import Frame
from dutycycle.traces.processes import TracedProcess

GPU_COLUMNS = (
    *names(row for row in GPU_ROWS if row.chart or row.kind == "counter"),
    "gpu_util_high_pct",
    "power_high_w",
    "working_pct",
    "untouched",
    "throttle",
)
"""``gpu_util_high_pct`` and ``power_high_w``: the most within the tick, of which the others have the mean
(``contract.metering``); ``working_pct``: the part of it in which the GPU was busy and worked;
``untouched``: 1 while pods hold it and no process is on it, 0 otherwise;
``throttle``: a place in ``Gathered.throttles``."""
SLICE_COLUMNS = tuple(name for name in GPU_COLUMNS if name in MIG_METRICS)
HOST_COLUMNS = tuple(name for name in HOST_METRICS if name not in CAPACITIES)
POD_COLUMNS = tuple(name for name in POD_CGROUP_METRICS if name not in CAPACITIES)
_SUMMED = tuple(name for name in POD_COLUMNS if name in CONTAINER_METRICS and name != "cpu_throttled_pct")
_TRENDS_KEPT = 48
GpuKey = tuple[str, str]
"""Names a GPU by its node and uuid: a uuid that is made of an index is on every node."""
Plain = dict[str, Any]


@dataclass(slots=True)
class TracedSlice:
    """Holds one MIG slice of a GPU, and the uids of the pods that it was given to."""

    frame: Frame = field(default_factory=lambda: Frame(SLICE_COLUMNS))
    users: set[str] = field(default_factory=set)


@dataclass(slots=True)
class TracedGpu:
    """Holds one GPU of the trace, and from when to when each pod used it or had it; ``slices``: of one that
    is divided, by uuid."""

    node: str
    index: int
    uuid: str
    model: str | None = None
    mem_total_bytes: float | None = None
    power_limit_w: float | None = None
    frame: Frame = field(default_factory=lambda: Frame(GPU_COLUMNS))
    users: dict[str, list[int]] = field(default_factory=dict)
    slices: dict[str, TracedSlice] = field(default_factory=dict)

    def add_slices(self, ts_ms: int, gpu: Gpu) -> None:
        """Take what the slices of the GPU tell of themselves, and whose they are."""
        for piece in gpu.mig or ():
            traced = self.slices.setdefault(piece.uuid, TracedSlice())
            traced.frame.add(ts_ms, {name: getattr(piece, name) for name in SLICE_COLUMNS})
            traced.users |= {
                given.pod_uid
                for given in gpu.allocated or ()
                if given.mig == piece.uuid and given.pod_uid is not None
            }


@dataclass(slots=True)
class TracedHost:
    """Holds one node of the trace."""

    cpu_count: int | None = None
    mem_total_bytes: float | None = None
    frame: Frame = field(default_factory=lambda: Frame(HOST_COLUMNS))


@dataclass(slots=True)
class Gathered:
    """Gathers all that a report may need of a trace. What derived records say is kept as plain objects."""

    gpus: dict[GpuKey, TracedGpu] = field(default_factory=dict)
    hosts: dict[str, TracedHost] = field(default_factory=dict)
    pods: dict[str, Frame] = field(default_factory=lambda: defaultdict(lambda: Frame(POD_COLUMNS)))
    identities: dict[str, Pod] = field(default_factory=dict)
    processes: dict[tuple[str, int], TracedProcess] = field(default_factory=dict)
    """By the pod's uid and the process id."""
    throttles: list[tuple[str, ...]] = field(default_factory=lambda: [()])
    insights: dict[str, list[Plain]] = field(default_factory=lambda: defaultdict(list))
    cycles: dict[str, list[Plain]] = field(default_factory=lambda: defaultdict(list))
    trends: dict[str, deque[bytes]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_TRENDS_KEPT))
    )
    profiles: dict[tuple[str, str], ProfileVerdict] = field(default_factory=dict)
    """By a pod's uid and the profile's source, the newest."""
    gpu_events: list[GpuEvent] = field(default_factory=list)
    """Incidents of GPUs, in their order."""
    dead_letters: int = 0
    ticks: int = 0
    late: int = 0
    """Ticks that came after later ones, too late for what the stages make of them."""
    first_ms: int | None = None
    last_ms: int | None = None

    def sample(self, record: ConsumerRecord) -> None:
        """Take a sample, a pod, an event or a profile. One that cannot be read is left to the stages, which
        say so."""
        if record.value is None:
            return
        self.ticks += record.topic in TICK_TOPICS
        try:
            if record.topic == "nvml-samples":
                self._nvml(decode(NvmlSample, record.value, record.topic))
            elif record.topic == "cgroup-samples":
                self._cgroup(decode(CgroupSample, record.value, record.topic))
            elif record.topic == "processes":
                sample = decode(ProcessSample, record.value, record.topic)
                for process in sample.processes:
                    key = process.pod_uid, process.pid
                    self.processes.setdefault(key, TracedProcess(*key)).add(sample.ts_ms, process)
            elif record.topic == "gpu-events":
                event = decode(GpuEvent, record.value, record.topic)
                self.gpu_events += [event] if event.kind != "state" else []
            elif record.topic == "pods":
                pod = decode(Pod, record.value, record.topic)
                self.identities[pod.uid] = pod
            elif record.topic == "profiles":
                profile = decode(ProfileVerdict, record.value, record.topic)
                self.profiles[profile.pod.uid, profile.source] = profile
        except DecodeError:
            return

    def derived(self, outs: Iterable[ProducerRecord]) -> None:
        """Take what the stages sent."""
        for out in outs:
            if out.value is None:
                continue
            if out.topic == "insights":
                self.insights[out.key].append(orjson.loads(out.value))
            elif out.topic == "cycles":
                self.cycles[out.key].append(orjson.loads(out.value))
            elif out.topic == "trends":
                self.trends[out.key].append(out.value)
            elif out.topic == "dead-letters":
                self.dead_letters += 1

    def _at(self, ts_ms: int) -> None:
        self.first_ms = ts_ms if self.first_ms is None else min(self.first_ms, ts_ms)
        self.last_ms = ts_ms if self.last_ms is None else max(self.last_ms, ts_ms)

    def _nvml(self, sample: NvmlSample) -> None:
        self._at(sample.ts_ms)
        for gpu, raw in zip(with_means(sample).gpus, sample.gpus, strict=True):
            key = sample.node, gpu.uuid
            traced = self.gpus.get(key)
            if traced is None:
                traced = self.gpus[key] = TracedGpu(sample.node, gpu.index, gpu.uuid)
            traced.model = gpu.model or traced.model
            traced.mem_total_bytes = gpu.mem_total_bytes or traced.mem_total_bytes
            traced.power_limit_w = gpu.power_limit_w or traced.power_limit_w
            values: dict[str, float | None] = {name: getattr(gpu, name, None) for name in GPU_COLUMNS[:-1]}
            values["gpu_util_high_pct"], values["power_high_w"] = highest_util_pct(raw), highest_power_w(raw)
            processes = seen_processes(gpu)
            known = (gpu.gpu_util_pct, gpu.sm_active_pct, gpu.power_w, gpu.power_limit_w)
            values["working_pct"] = working_pct(*(nan if value is None else value for value in known))
            if processes is not None:
                values["untouched"] = float(bool(gpu.allocated) and not processes and not gpu.gpu_util_pct)
            if gpu.throttle is not None:
                if gpu.throttle not in self.throttles:
                    self.throttles.append(gpu.throttle)
                values["throttle"] = self.throttles.index(gpu.throttle)
            traced.frame.add(sample.ts_ms, values)
            traced.add_slices(sample.ts_ms, gpu)
            # The uids of the pods with a process on a GPU, or to which it was given
            named = [user.pod_uid for user in gpu.processes or ()] + [
                user.pod_uid for user in gpu.allocated or ()
            ]
            users = {uid for uid in named if uid is not None}
            for uid in users:
                traced.users.setdefault(uid, [sample.ts_ms, 0])[1] = sample.ts_ms

    def _cgroup(self, sample: CgroupSample) -> None:
        self._at(sample.ts_ms)
        host = sample.host
        if host != Host():
            traced = self.hosts.setdefault(sample.node, TracedHost())
            traced.cpu_count = host.cpu_count or traced.cpu_count
            traced.mem_total_bytes = host.mem_total_bytes or traced.mem_total_bytes
            traced.frame.add(sample.ts_ms, {name: getattr(host, name) for name in HOST_COLUMNS})
        for pod in sample.pods:
            values: dict[str, float | None] = {
                "net_rx_bytes_per_s": pod.net_rx_bytes_per_s,
                "net_tx_bytes_per_s": pod.net_tx_bytes_per_s,
            }
            for name in _SUMMED:
                values[name] = sum_of_known(getattr(container, name) for container in pod.containers)
            throttled = (container.cpu_throttled_pct for container in pod.containers)
            values["cpu_throttled_pct"] = max(
                (share for share in throttled if share is not None), default=None
            )
            self.pods[pod.uid].add(sample.ts_ms, values)
