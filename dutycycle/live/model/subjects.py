"""Holds one row of the live view: a node, a GPU, a pod or a job, with its newest figures and its history.

None is unknown, never idle. ``seen_ms`` is when the last sample came in, by our clock: those of nodes differ.
"""

from copy import copy
from dataclasses import dataclass, field, fields
from typing import ClassVar, Self

from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Gpu, GpuProcess, Host
from dutycycle.contract.units import sum_of_known, weighted_mean
from dutycycle.live.model.derived import Derived
from dutycycle.live.model.history import MetricHistory

Value = float | None
GPU_HISTORY = ("gpu_util_pct", "mem_used_bytes", "power_w", "temp_c")
_NODE_HISTORY = ("cpu_util_pct", "mem_used_bytes")
_POD_GPU_HISTORY = ("gpu_util_pct", "gpu_mem_used_bytes")
_SILENT_MS = 10_000
_SILENT_TICKS = 5


def silent_after_ms(interval_ms: int) -> int:
    """Return after how long without a sample one is missed that comes each ``interval_ms``."""
    return max(_SILENT_MS, _SILENT_TICKS * interval_ms)


@dataclass(slots=True)
class SubjectRow:
    """Holds what all rows have."""

    key: str
    name: str
    derived: Derived = field(default_factory=Derived)
    seen_ms: int = 0
    ts_ms: int = 0
    """The event time of its newest sample."""
    interval_ms: int = 1000
    is_silent: bool = False
    """Is set while nobody samples it: its node does not, or its samples lack it."""

    @property
    def title(self) -> str:
        """Return what people call it."""
        return self.name

    def silent_s(self, now_ms: int) -> float | None:
        """Return for how many seconds no sample has come in; None while it is sampled."""
        return (now_ms - self.seen_ms) / 1000 if self.is_silent else None

    def is_overdue(self, now_ms: int) -> bool:
        """Tell whether the last sample came in longer ago than is usual."""
        return now_ms - self.seen_ms > silent_after_ms(self.interval_ms)

    def fall_silent(self) -> None:
        """Forget its figures: what was so when it was sampled last is not known of now."""
        self.is_silent = True

    def frozen(self) -> Self:
        """Return it as it is now, whatever comes later: with records and histories of its own."""
        other = copy(self)
        for part in fields(self):
            if isinstance(value := getattr(self, part.name), Derived | MetricHistory | dict):
                setattr(other, part.name, value.copy())
        return other


@dataclass(slots=True)
class GpuRow(SubjectRow):
    """Holds a GPU of a node; ``pods``: the uids of those that use it, or were given it. ``main``: the metric
    that counts most, as of all rows."""

    main: ClassVar[str] = "gpu_util_pct"
    node: str = ""
    now: Gpu = field(default_factory=lambda: Gpu(uuid="", index=0))
    util_max: Value = None
    mem_max: Value = None
    pods: frozenset[str] = frozenset()
    history: MetricHistory = field(default_factory=lambda: MetricHistory(GPU_HISTORY))

    @property
    def processes(self) -> tuple[GpuProcess, ...]:
        """Return the processes of the newest tick."""
        return self.now.processes or ()

    @property
    def order(self) -> tuple[str, int, str]:
        """Return the key for sorting, by which GPU 10 comes after GPU 9."""
        return self.node, self.now.index, self.key

    def fall_silent(self) -> None:
        """Forget the figures; which GPU it is stays known."""
        super(GpuRow, self).fall_silent()
        self.now = Gpu(uuid=self.now.uuid, index=self.now.index, model=self.now.model)


@dataclass(slots=True)
class NodeRow(SubjectRow):
    """Holds a host."""

    main: ClassVar[str] = "cpu_util_pct"
    now: Host = field(default_factory=Host)
    util_max: Value = None
    mem_max: Value = None
    history: MetricHistory = field(default_factory=lambda: MetricHistory(_NODE_HISTORY))

    def fall_silent(self) -> None:
        """Forget the figures, but for how many CPUs it has."""
        super(NodeRow, self).fall_silent()
        self.now = Host(cpu_count=self.now.cpu_count)


@dataclass(slots=True)
class PodRow(SubjectRow):
    """Holds a pod, or outside Kubernetes a container or unit. ``name`` is empty until it is told.

    ``cpu`` in percent of a core, ``mem`` in bytes; ``gpu_util`` is the mean over its GPUs, ``gpu_util_max``
    the most of any of them. ``gpus``: (index, whether it ever used it) of those that it has, None while that
    is unknown. ``programs`` (on GPUs) and ``container`` stand for a name that nobody told.
    """

    uid: str = ""
    node: str = ""
    identity: Pod | None = None
    programs: str = ""
    container: str = ""
    gpus_until_ms: int = 0
    cgroups_until_ms: int = 0
    """Until when the figures of each source hold: one may fall silent while the other goes on."""
    cpu: Value = None
    cpu_max: Value = None
    mem: Value = None
    mem_max: Value = None
    throttled: Value = None
    gpu_util: Value = None
    gpu_util_max: Value = None
    gpu_mem: Value = None
    gpu_mem_max: Value = None
    gpus: dict[int, bool | None] = field(default_factory=dict)
    history: MetricHistory = field(default_factory=lambda: MetricHistory(_NODE_HISTORY))
    gpu_history: MetricHistory = field(default_factory=lambda: MetricHistory(_POD_GPU_HISTORY))

    @property
    def title(self) -> str:
        """Return the name; without one, what is known of it."""
        if self.name:
            return self.name
        known = self.programs or self.container
        return f"{self.uid[:8]} ({known})" if known else self.uid[:8]

    @property
    def namespace(self) -> str:
        """Return the namespace, which is empty where it is not known."""
        return self.name.rpartition("/")[0]

    @property
    def main(self) -> str:
        """Return the metric that counts most."""
        return "cpu_util_pct" if self.gpu_util_max is None else "gpu_util_pct"

    def is_overdue(self, now_ms: int) -> bool:
        """Tell whether both sources have fallen silent."""
        return now_ms > max(self.gpus_until_ms, self.cgroups_until_ms)

    def fall_silent(self) -> None:
        """Forget the figures of now; its maxima stay."""
        super(PodRow, self).fall_silent()
        self.forget_gpus()
        self.forget_cgroups()

    def forget_gpus(self) -> None:
        """Forget what it does on GPUs now."""
        self.gpu_util = self.gpu_mem = None

    def forget_cgroups(self) -> None:
        """Forget what its containers use now."""
        self.cpu = self.mem = self.throttled = None

    def forget_overdue(self, now_ms: int) -> None:
        """Forget the figures of a source that has fallen silent."""
        if now_ms > self.gpus_until_ms:
            self.forget_gpus()
        if now_ms > self.cgroups_until_ms:
            self.forget_cgroups()


@dataclass(slots=True)
class JobRow(SubjectRow):
    """Holds a job, by its pods that are there; ``pods`` by their uids."""

    ref: JobRef | None = None
    namespace: str = ""
    pods: dict[str, PodRow] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """Return the metric that counts most."""
        of_gpus = any(pod.gpu_util_max is not None for pod in self.pods.values())
        return "gpu_util_pct" if of_gpus else "cpu_util_pct"

    @property
    def title(self) -> str:
        """Return its name with the namespace, such as ``ml/bert``."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def kind(self) -> str:
        """Return its kind, such as ``PyTorchJob``; empty where it is not known."""
        return "" if self.ref is None else self.ref.kind

    def total(self, name: str) -> Value:
        """Return the sum of a figure over its pods; None where no pod has it."""
        return sum_of_known(getattr(pod, name) for pod in self.pods.values())

    @property
    def gpu_util(self) -> Value:
        """Return the mean over its pods, each as often as it has GPUs."""
        return weighted_mean((pod.gpu_util, len(pod.gpus) or 1) for pod in self.pods.values())


Row = GpuRow | NodeRow | PodRow | JobRow


def most(a: Value, b: Value) -> Value:
    """Return the larger one that is known."""
    return a if b is None else b if a is None else max(a, b)
