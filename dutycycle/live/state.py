"""What the live view knows: the newest figures of every node, GPU and pod. Pure; fed with records."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any

import msgspec

from contract.records.derived import gpu_subject, node_subject, pod_subject
from contract.records.samples import Gpu

Plain = dict[str, Any]
_UNUSED = (nan,) * 4
_OLD_MS = 60_000
"""A pod is no longer shown when it was seen last so long ago."""
_UNSAID_MS = 180_000
"""Memory that runs out is told again every minute or so: what was not for so long has ended."""


@dataclass(slots=True)
class SubjectRow:
    """One subject. ``util`` is GPU percent for a GPU, CPU percent else; None is unknown, never idle.

    ``processes`` of a GPU are (name and pid, GPU percent, bytes), ``pods`` the uids of those on it. ``does``
    is a pod's kind, and its bottleneck where it has one. A pod's ``gpu_util`` is the mean over its GPUs,
    ``gpu_util_max`` the most of any of them. Its ``name`` is empty until it is told; samples know its
    ``programs`` (on GPUs) and a ``container``. ``cycles`` and ``trends``: the newest record of each source.
    """

    kind: str
    name: str
    uid: str = ""
    programs: str = ""
    container: str = ""
    util: float | None = None
    util_max: float | None = None
    mem: float | None = None
    mem_max: float | None = None
    mem_total: float | None = None
    gpu_util: float | None = None
    gpu_util_max: float | None = None
    processes: list[tuple[str, float | None, float | None]] = field(default_factory=list)
    pods: frozenset[str] = frozenset()
    does: str = ""
    cycles: dict[str, Plain] = field(default_factory=dict)
    trends: dict[str, Plain] = field(default_factory=dict)
    seen_ms: int = 0

    @property
    def title(self) -> str:
        """The name; of a pod without one, what is known of it."""
        if self.name or self.kind != "pod":
            return self.name
        known = self.programs or self.container
        return f"{self.uid[:8]} ({known})" if known else self.uid[:8]

    @property
    def main(self) -> tuple[str, float | None]:
        """The metric that counts most, and its newest value."""
        if self.kind == "gpu":
            return "gpu_util_pct", self.util
        if self.gpu_util_max is not None:
            return "gpu_util_pct", self.gpu_util
        return "cpu_util_pct", self.util

    @property
    def cycle(self) -> str:
        """The period of the main metric; empty without a cycle."""
        cycle, _ = _newest(self.cycles, self.main[0])
        return f"{cycle['period_s']:.3g} s" if "period_s" in cycle else ""

    def saw(self, util: float | None, mem: float | None, ts_ms: int) -> None:
        """Take the figures of a tick, and lift the maxima."""
        self.util, self.mem, self.seen_ms = util, mem, ts_ms
        self.util_max = _most(self.util_max, util)
        self.mem_max = _most(self.mem_max, mem)


def _programs(gpus: Iterable[Plain]) -> dict[str, str]:
    """By pod, the names of its processes on the GPUs."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for gpu in gpus:
        for process in gpu.get("processes") or ():
            if "pod_uid" in process and "name" in process:
                found[process["pod_uid"]].add(process["name"])
    return {uid: ", ".join(sorted(names)) for uid, names in found.items()}


def _process(process: Plain) -> tuple[str, float | None, float | None]:
    """(name and pid, GPU percent, bytes)."""
    name = f"{process.get('name', 'process')} {process['pid']}"
    return name, process.get("gpu_util_pct"), process.get("mem_used_bytes")


def _most(a: float | None, b: float | None) -> float | None:
    return a if b is None else b if a is None else max(a, b)


@dataclass(slots=True)
class LiveState:
    """All rows by subject key, and how many records could not be used."""

    rows: dict[str, SubjectRow] = field(default_factory=dict)
    dead_letters: int = 0
    unreadable: int = 0
    ticks: int = 0
    newest_ms: int = 0
    _on_gpus: dict[str, set[str]] = field(default_factory=dict)
    """By node, the keys of the pods on its GPUs at its newest tick."""
    _ended: dict[str, int] = field(default_factory=dict)
    """When pods ended, oldest first: a sample that comes a moment later does not bring them back."""

    def feed(self, topic: str, key: str, plain: Plain | None) -> None:
        """Take a record of a topic (without prefix); topics that the view does not show are ignored."""
        take = {
            "nvml-samples": self._nvml,
            "cgroup-samples": self._cgroup,
            "pods": self._pod,
            "pod-peaks": self._peaks,
            "cycles": self._cycle,
            "trends": self._trend,
            "insights": self._insight,
            "dead-letters": self._dead,
        }.get(topic)
        if take is None:
            return
        if plain is None:
            self._end(f"pod/{key}")
        else:
            take(plain)

    def _row(self, key: str, kind: str, name: str) -> SubjectRow:
        return self.rows.setdefault(key, SubjectRow(kind, name))

    def _sampled_pod(self, node: str, uid: str) -> SubjectRow:
        """The row of a pod that a sample saw; one that has ended has a row that is not shown."""
        key = pod_subject(node, uid).key
        return SubjectRow("pod", "") if key in self._ended else self._pod_row(key, uid)

    def _pod_row(self, key: str, uid: str) -> SubjectRow:
        row = self._row(key, "pod", "")
        row.uid = uid
        return row

    def _end(self, key: str) -> None:
        self.rows.pop(key, None)
        self._ended[key] = self.newest_ms
        while self.newest_ms - next(iter(self._ended.values())) > _OLD_MS:
            del self._ended[next(iter(self._ended))]

    def _tick(self, sample: Plain) -> int:
        self.ticks += 1
        ts_ms = int(sample["ts_ms"])
        self.newest_ms = max(self.newest_ms, ts_ms)
        return ts_ms

    def _nvml(self, sample: Plain) -> None:
        ts_ms, node = self._tick(sample), sample["node"]
        for gpu in sample["gpus"]:
            key = gpu_subject(node, gpu["uuid"]).key
            row = self._row(key, "gpu", f"{node} gpu {gpu['index']} {gpu.get('model', '')}".rstrip())
            row.saw(gpu.get("gpu_util_pct"), gpu.get("mem_used_bytes"), ts_ms)
            row.mem_total = gpu.get("mem_total_bytes")
            row.processes = [_process(one) for one in gpu.get("processes") or ()]
            on_it = (*(gpu.get("processes") or ()), *(gpu.get("allocated") or ()))
            row.pods = frozenset(one["pod_uid"] for one in on_it if "pod_uid" in one)
        self._pods_on_gpus(sample)

    def _pods_on_gpus(self, sample: Plain) -> None:
        # Here, because it brings numpy: the first screen does not wait for that.
        from streams.operators.columns.ownership import pods_of, use_plan

        node, programs = sample["node"], _programs(sample["gpus"])
        gpus = msgspec.convert(sample["gpus"], tuple[Gpu, ...])
        plan = use_plan(node, gpus)
        use = plan.arrays()
        used = dict(zip(plan.pods, pods_of(plan.uses(gpus), use.pod_ends, use.places).tolist(), strict=True))
        pods = {uid for uid, _ in plan.attribution}
        for key in self._on_gpus.get(node, set()):
            if key in self.rows:
                self.rows[key].gpu_util = None
        self._on_gpus[node] = {pod_subject(node, uid).key for uid in pods}
        for uid in pods:
            pod = self._sampled_pod(node, uid)
            util, _, _, busiest = (None if isnan(one) else one for one in used.get(uid, _UNUSED))
            pod.gpu_util, pod.gpu_util_max = util, _most(pod.gpu_util_max, busiest)
            pod.programs, pod.seen_ms = programs.get(uid, pod.programs), sample["ts_ms"]
        self._name_allocated(sample)

    def _name_allocated(self, sample: Plain) -> None:
        for gpu in sample["gpus"]:
            for one in gpu.get("allocated") or ():
                if "pod_uid" in one:
                    pod = self._sampled_pod(sample["node"], one["pod_uid"])
                    pod.name = pod.name or f"{one['namespace']}/{one['pod']}"

    def _cgroup(self, sample: Plain) -> None:
        ts_ms, node, host = self._tick(sample), sample["node"], sample["host"]
        row = self._row(node_subject(node).key, "node", node)
        row.saw(host.get("cpu_util_pct"), host.get("mem_used_bytes"), ts_ms)
        row.mem_total = host.get("mem_total_bytes")
        for pod in sample["pods"]:
            containers = pod.get("containers") or ()
            cpu, mem = (_sum(containers, metric) for metric in ("cpu_util_pct", "mem_used_bytes"))
            row = self._sampled_pod(node, pod["uid"])
            row.saw(cpu, mem, ts_ms)
            row.container = f"container {containers[0]['id'][:12]}" if containers else ""

    def _pod(self, pod: Plain) -> None:
        key = pod_subject(pod["node"], pod["uid"]).key
        if "finished_ms" in pod:
            self._end(key)
            return
        self._ended.pop(key, None)
        name = "/".join((pod.get("namespace", ""), pod["name"].strip("/"))).strip("/")
        self._pod_row(key, pod["uid"]).name = name

    def _peaks(self, peaks: Plain) -> None:
        row = self.rows.get(f"pod/{peaks['pod']['uid']}")
        if row is None:
            return
        most = {metric: peak["max"] for metric, peak in peaks["metrics"].items()}
        row.util_max = _most(row.util_max, most.get("cpu_util_pct"))
        row.mem_max = _most(row.mem_max, most.get("mem_used_bytes"))
        row.gpu_util_max = _most(row.gpu_util_max, most.get("gpu_util_pct"))

    def _cycle(self, cycle: Plain) -> None:
        if row := self.rows.get(_key(cycle["subject"])):
            row.cycles[cycle["source"]] = cycle

    def _trend(self, trend: Plain) -> None:
        if row := self.rows.get(_key(trend["subject"])):
            row.trends[trend["source"]] = trend

    def trend(self, row: SubjectRow) -> str:
        """What runs out, and where the main metric goes."""
        said, (main, now) = [], row.main
        memory, told_ms = _newest(row.trends, "mem_used_bytes")
        if "exhausts_in_s" in memory and self.newest_ms - told_ms < _UNSAID_MS:
            left_s = memory["exhausts_in_s"] - (self.newest_ms - told_ms) / 1000
            said.append(f"memory full in {short_duration(max(left_s, 0))}")
        forecast = _newest(row.trends, main)[0].get("forecast")
        # A trend that does not change is told once: it holds for as long as its metric is measured.
        if forecast and now is not None:
            last = forecast[-1]
            said.append(f"{last['value']:.0f} % in {short_duration(last['horizon_s'])}")
        return ", ".join(said)

    def _insight(self, insight: Plain) -> None:
        row = self.rows.get(_key(insight["subject"]))
        if row is not None:
            kind, bottleneck = insight["kind"], insight["bottleneck"]
            row.does = kind if bottleneck in (kind, "none", "unknown") else f"{kind}: {bottleneck}"

    def does(self, row: SubjectRow) -> str:
        """What a pod does; of a GPU, what the pods on it do; empty where that is not known."""
        if row.kind != "gpu":
            return row.does
        of_pods = {self.rows[key].does for uid in row.pods if (key := f"pod/{uid}") in self.rows}
        return " + ".join(sorted(of_pods - {""}))

    def _dead(self, _letter: Plain) -> None:
        self.dead_letters += 1

    def of_kind(self, kind: str) -> list[SubjectRow]:
        """Rows of one kind: others by name, pods by what they use now and if seen within a minute."""
        rows = [row for row in self.rows.values() if row.kind == kind]
        if kind == "pod":
            rows = [row for row in rows if row.seen_ms and self.newest_ms - row.seen_ms < _OLD_MS]
            return sorted(rows, key=lambda row: (-(row.gpu_util or 0), -(row.util or 0), row.title))
        return sorted(rows, key=lambda row: row.name)


def _newest(records: dict[str, Plain], metric: str) -> tuple[Plain, int]:
    """What was said last of a metric, which only one source measures, and when; empty if nothing was."""
    of_it = (one for one in records.values() if metric in one["metrics"])
    return next(((one["metrics"][metric], one["ts_ms"]) for one in of_it), ({}, 0))


def _key(subject: Plain) -> str:
    parts = {"gpu": ("node", "gpu"), "node": ("node",), "pod": ("pod_uid",), "job": ("job_uid",)}
    return "/".join((subject["kind"], *(subject[name] for name in parts[subject["kind"]])))


def _sum(containers: Any, metric: str) -> float | None:
    known = [value for one in containers if (value := one.get(metric)) is not None]
    return sum(known) if known else None


def short_duration(seconds: float) -> str:
    """``95`` s as ``1m35s``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s" if whole % 60 else f"{whole // 60}m"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"
