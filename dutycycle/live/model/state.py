"""All rows by subject key, fed with records as they lie on the topics."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.metering import highest_util_pct, with_means
from dutycycle.contract.records.derived import gpu_subject, node_subject, pod_subject
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.samples import CgroupSample, GpuProcess, NvmlSample
from dutycycle.contract.topics import TOPICS
from dutycycle.contract.units import sum_of_known
from dutycycle.live.model.derived import HEADS, Derived, Lazy, read_head
from dutycycle.live.model.history import ticks_of_each
from dutycycle.live.model.subjects import GpuRow, JobRow, NodeRow, PodRow, Row, most, silent_after_ms
from dutycycle.view.newest import NewestRecords

if TYPE_CHECKING:
    # At run time only where processes are shown: psutil is for a machine with a screen.
    from dutycycle.live.model.processes import LocalProcesses

_HIDDEN_MS = 60_000
"""A pod is no longer shown when it was seen last so long ago."""
_FORGOTTEN_MS = 600_000
"""Nor is anything else after so long, and nothing of it is kept."""
_PRUNE_EVERY_MS = 30_000
_LISTEN_EVERY_MS = 2_000
"""Between two looks for what has fallen silent."""
_DERIVED = 100_000
"""Subjects of which records of the streams are kept; those that were heard of longest ago leave first."""


@dataclass(slots=True)
class LiveState:
    """``nodes`` and ``namespace``: what is shown alone, if that is not all. ``local``: what this machine says
    of processes, if it is one of the nodes. Times are of our clock."""

    nodes: Collection[str] = ()
    namespace: str | None = None
    local: "LocalProcesses | None" = None
    rows: dict[str, Row] = field(default_factory=dict)
    dead_letters: int = 0
    unreadable: int = 0
    ticks: int = 0
    now_ms: int = 0
    _newest: NewestRecords = field(default_factory=NewestRecords)
    """Of samples and health, so that none that comes late is shown as what is now."""
    _derived: dict[str, Derived] = field(default_factory=dict)
    _on_gpus: dict[str, set[str]] = field(default_factory=dict)
    """By node, the keys of the pods on its GPUs at its newest tick."""
    _ended: dict[str, int] = field(default_factory=dict)
    """When pods ended, oldest first: a sample that comes a moment later does not bring them back."""
    _pruned_ms: int = 0
    _listened_ms: int = 0

    def feed(self, topic: str, key: str, payload: bytes | None, now_ms: int) -> None:
        """Take what lies on a topic (without prefix); None is a tombstone."""
        self.at(now_ms)
        if payload is None:
            if topic == "pods":
                self._end(f"pod/{key}")
            elif topic in ("cycles", "trends"):
                subject, _, source = key.rpartition("/")
                self._of(subject).forget(topic, source)
            elif topic == "insights":
                self._of(key).forget(topic)
        elif topic in ("nvml-samples", "cgroup-samples", "gpu-health", "pods"):
            if topic == "pods" or self._is_shown(key):  # the others have the node for their key
                self._decoded(topic, key, payload)
        elif topic in HEADS:
            head = read_head(topic, key, payload)
            if head is None:
                self._unreadable()
            else:
                self._of(head.subject_key).put(topic, head, Lazy(topic, payload, self._unreadable))
        elif topic == "dead-letters":
            self.dead_letters += 1

    def at(self, now_ms: int) -> None:
        """The clock goes on, whether or not records come."""
        self.now_ms = max(self.now_ms, now_ms)
        if self.now_ms - self._listened_ms >= _LISTEN_EVERY_MS:
            self._listened_ms = self.now_ms
            for row in self.rows.values():
                if row.ts_ms and not row.is_silent and row.is_overdue(self.now_ms):
                    row.fall_silent()
                elif isinstance(row, PodRow):
                    row.forget_overdue(self.now_ms)
        if self.now_ms - self._pruned_ms >= _PRUNE_EVERY_MS:
            self._pruned_ms = self.now_ms
            for key in [key for key, row in self.rows.items() if self.now_ms - row.seen_ms > _FORGOTTEN_MS]:
                del self.rows[key]
                self._derived.pop(key, None)
            for key in [key for key, at_ms in self._ended.items() if self.now_ms - at_ms > _HIDDEN_MS]:
                del self._ended[key]

    def _is_shown(self, node: str) -> bool:
        return not self.nodes or node in self.nodes

    def _unreadable(self) -> None:
        self.unreadable += 1

    def _decoded(self, topic: str, key: str, payload: bytes) -> None:
        """Take a record; one that cannot be read, or is another key's, is counted alone."""
        try:
            record: Any = decode(TOPICS[topic].record, payload, topic)
        except DecodeError:  # the streams make a dead letter of it
            self.unreadable += 1
            return
        if not TOPICS[topic].is_under_its_key(key, record):
            self.unreadable += 1
        elif topic == "nvml-samples":
            self._nvml(record)
        elif topic == "cgroup-samples":
            self._cgroup(record)
        elif topic == "gpu-health":
            self._newest.put(record.node, record)
        elif self._is_shown(record.node):  # a pod
            key = pod_subject(record.node, record.uid).key
            if record.finished:
                self._end(key)
                return
            self._ended.pop(key, None)
            row = self._pod_row(key, record.node, record.uid)
            row.name = "/".join((record.namespace or "", record.name.strip("/"))).strip("/")
            row.identity, row.seen_ms = record, row.seen_ms or self.now_ms

    def _of(self, key: str) -> Derived:
        """Return what is derived of a subject, which may not have been sampled yet."""
        derived = self._derived.pop(key, None) or Derived()
        self._derived[key] = derived  # last: it was heard of now
        if len(self._derived) > _DERIVED:
            del self._derived[next(iter(self._derived))]
        if key in self.rows:
            self.rows[key].derived = derived
        return derived

    def _end(self, key: str) -> None:
        self.rows.pop(key, None)
        self._ended[key] = self.now_ms

    # -- samples

    def _nvml(self, sample: NvmlSample) -> None:
        self.ticks += 1
        before = self._newest.of(NvmlSample).get(sample.node)
        if not self._newest.put(sample.node, sample):
            return
        highest = [highest_util_pct(gpu) for gpu in sample.gpus]
        sample, ticks = with_means(sample), ticks_of_each(len(self.rows))
        sampled = {gpu.uuid for gpu in sample.gpus}
        for gpu in () if before is None else before.gpus:
            if gpu.uuid not in sampled and (row := self.rows.get(gpu_subject(sample.node, gpu.uuid).key)):
                row.fall_silent()
        for gpu, util_pct in zip(sample.gpus, highest, strict=True):
            key = gpu_subject(sample.node, gpu.uuid).key
            row = self.rows.get(key)
            if not isinstance(row, GpuRow):
                row = GpuRow(key, f"{sample.node}:{gpu.index}", self._of(key), node=sample.node)
                self.rows[key] = row
            row.now, row.ts_ms, row.seen_ms, row.is_silent = gpu, sample.ts_ms, self.now_ms, False
            row.interval_ms = sample.interval_ms
            row.util_max = most(row.util_max, util_pct)
            row.mem_max = most(row.mem_max, gpu.mem_used_bytes)
            on_it: Iterable[GpuProcess] = gpu.processes or ()
            given = (allocation.pod_uid for allocation in gpu.allocated or ())
            row.pods = frozenset(uid for uid in (*(use.pod_uid for use in on_it), *given) if uid is not None)
            row.history.add(
                sample.ts_ms, (gpu.gpu_util_pct, gpu.mem_used_bytes, gpu.power_w, gpu.temp_c), ticks
            )
        # Here, because it brings numpy: the first screen does not wait for that.
        from dutycycle.live.model.ownership import uses_of_pods

        uses = uses_of_pods(sample)
        keys = {pod_subject(sample.node, uid).key for uid in uses}
        for key in self._on_gpus.get(sample.node, set()) - keys:
            if isinstance(gone := self.rows.get(key), PodRow):
                gone.forget_gpus()
        self._on_gpus[sample.node] = keys
        for uid, use in uses.items():
            if (pod := self._sampled_pod(sample, uid)) is None:
                continue
            pod.gpu_util, pod.gpu_mem = use.util, use.mem
            pod.gpus_until_ms = self.now_ms + silent_after_ms(sample.interval_ms)
            pod.gpu_util_max = most(pod.gpu_util_max, use.busiest)
            pod.gpu_mem_max = most(pod.gpu_mem_max, use.mem)
            ever = pod.gpus
            pod.gpus = {
                index: ever.get(index) if busy is None else bool(busy or ever.get(index))
                for index, busy in use.gpus.items()
            }
            pod.programs = use.programs or pod.programs
            pod.name = pod.name or use.name
            pod.gpu_history.add(sample.ts_ms, (use.util, use.mem), ticks_of_each(len(self.rows)))

    def _sampled_pod(self, sample: NvmlSample | CgroupSample, uid: str) -> PodRow | None:
        """Return the row of a pod that a sample saw; None of one that has ended."""
        key = pod_subject(sample.node, uid).key
        if key in self._ended:
            return None
        pod = self._pod_row(key, sample.node, uid)
        pod.ts_ms, pod.seen_ms, pod.is_silent = max(pod.ts_ms, sample.ts_ms), self.now_ms, False
        pod.interval_ms = sample.interval_ms
        return pod

    def _pod_row(self, key: str, node: str, uid: str) -> PodRow:
        row = self.rows.get(key)
        if not isinstance(row, PodRow):
            row = PodRow(key, "", self._of(key), uid=uid, node=node)
            self.rows[key] = row
        return row

    def _cgroup(self, sample: CgroupSample) -> None:
        self.ticks += 1
        if not self._newest.put(sample.node, sample):
            return
        key, host = node_subject(sample.node).key, sample.host
        row = self.rows.get(key)
        if not isinstance(row, NodeRow):
            row = NodeRow(key, sample.node, self._of(key))
            self.rows[key] = row
        row.now, row.ts_ms, row.seen_ms, row.is_silent = host, sample.ts_ms, self.now_ms, False
        row.interval_ms = sample.interval_ms
        row.util_max = most(row.util_max, host.cpu_util_pct)
        row.mem_max = most(row.mem_max, host.mem_used_bytes)
        row.history.add(sample.ts_ms, (host.cpu_util_pct, host.mem_used_bytes), ticks_of_each(len(self.rows)))
        for cgroup in sample.pods:
            pod = self._sampled_pod(sample, cgroup.uid)
            if pod is None:
                continue
            held = cgroup.containers
            pod.cgroups_until_ms = self.now_ms + silent_after_ms(sample.interval_ms)
            pod.cpu = sum_of_known(container.cpu_util_pct for container in held)
            pod.mem = sum_of_known(container.mem_used_bytes for container in held)
            throttled = (container.cpu_throttled_pct for container in held)
            pod.throttled = max((share for share in throttled if share is not None), default=None)
            pod.cpu_max, pod.mem_max = most(pod.cpu_max, pod.cpu), most(pod.mem_max, pod.mem)
            pod.container = f"container {held[0].id[:12]}" if held else ""
            pod.history.add(sample.ts_ms, (pod.cpu, pod.mem), ticks_of_each(len(self.rows)))

    # -- what is shown

    @property
    def health(self) -> dict[str, NodeHealth]:
        """Return what is known of the health of GPUs, by node."""
        return self._newest.of(NodeHealth)

    def gpus(self) -> list[GpuRow]:
        """By node and index; with a namespace those that its pods use."""
        rows = [row for row in tuple(self.rows.values()) if isinstance(row, GpuRow)]
        if self.namespace is not None:
            shown = {pod.uid for pod in self.pods()}
            rows = [row for row in rows if row.pods & shown]
        return sorted(rows, key=lambda row: row.order)

    def node_rows(self) -> list[NodeRow]:
        """By name."""
        rows = [row for row in tuple(self.rows.values()) if isinstance(row, NodeRow)]
        return sorted(rows, key=lambda row: row.name)

    def pods(self) -> list[PodRow]:
        """Return those that were sampled within a minute, the busiest first."""
        rows = [
            row
            for row in tuple(self.rows.values())  # at once: a page of records is made beside what feeds
            if isinstance(row, PodRow) and row.ts_ms and self.now_ms - row.seen_ms < _HIDDEN_MS
        ]
        if self.namespace is not None:
            rows = [row for row in rows if row.namespace == self.namespace]
        return sorted(rows, key=lambda row: (-(row.gpu_util or 0), -(row.cpu or 0), row.title))

    def jobs(self) -> list[JobRow]:
        """Return the jobs of these pods, by name."""
        rows: dict[str, JobRow] = {}
        for pod in self.pods():
            if pod.identity is None or pod.identity.job is None:
                continue
            ref = pod.identity.job
            key = f"job/{ref.uid}"
            job = rows.get(key)
            if job is None:
                derived = self._derived.get(key) or Derived()
                job = JobRow(key, ref.name, derived, is_silent=True, ref=ref, namespace=pod.namespace)
                rows[key] = job
            job.pods[pod.uid] = pod
            job.is_silent = job.is_silent and pod.is_silent
            job.seen_ms, job.ts_ms = max(job.seen_ms, pod.seen_ms), max(job.ts_ms, pod.ts_ms)
        return sorted(rows.values(), key=lambda row: row.title)

    def row(self, key: str) -> Row | None:
        """Return the subject of a key; None if it is gone."""
        return self.rows.get(key) or next((job for job in self.jobs() if job.key == key), None)

    def frozen(self) -> "LiveState":
        """As it is now, whatever comes later."""
        other = self.of_rows({key: row.frozen() for key, row in self.rows.items()})
        other.local = None if self.local is None else self.local.frozen()
        other._derived = {key: derived.copy() for key, derived in other._derived.items()}
        return other

    def of_rows(self, rows: dict[str, Row]) -> "LiveState":
        """Return it as it is now with these rows, and the jobs of their pods; without what this machine says
        of processes."""
        other = LiveState(self.nodes, self.namespace, now_ms=self.now_ms, ticks=self.ticks)
        for health in tuple(self.health.values()):
            other._newest.put(health.node, health)
        other.dead_letters, other.unreadable = self.dead_letters, self.unreadable
        other.rows = rows
        other._derived = self._derived
        other._derived = {job.key: job.derived for job in other.jobs()}
        return other
