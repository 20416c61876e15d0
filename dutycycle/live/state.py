"""What the live view knows: the newest figures of every node, GPU and pod. Pure; fed with records."""

from dataclasses import dataclass, field
from typing import Any

from contract.records.derived import gpu_subject, node_subject, pod_subject

Plain = dict[str, Any]


@dataclass(slots=True)
class SubjectRow:
    """One subject. ``util`` is GPU percent for a GPU, CPU percent else; None is unknown, never idle.

    ``processes`` of a GPU are (name and pid, GPU percent, bytes), ``pods`` the uids of those on it. ``does``
    is a pod's kind, and its bottleneck where it has one.
    """

    kind: str
    name: str
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
    cycle: str = ""
    trend: str = ""
    seen_ms: int = 0

    def saw(self, util: float | None, mem: float | None, ts_ms: int) -> None:
        """Take the figures of a tick, and lift the maxima."""
        self.util, self.mem, self.seen_ms = util, mem, ts_ms
        self.util_max = _most(self.util_max, util)
        self.mem_max = _most(self.mem_max, mem)


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
            self.rows.pop(f"pod/{key}", None)
        else:
            take(plain)

    def _row(self, key: str, kind: str, name: str) -> SubjectRow:
        return self.rows.setdefault(key, SubjectRow(kind, name))

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
        busiest: dict[str, float | None] = {}
        for gpu in sample["gpus"]:
            for process in gpu.get("processes") or ():
                if (uid := process.get("pod_uid")) is not None:
                    busiest[uid] = _most(busiest.get(uid), process.get("gpu_util_pct"))
        for uid, util in busiest.items():
            pod = self._row(pod_subject(sample["node"], uid).key, "pod", "")
            pod.gpu_util, pod.gpu_util_max = util, _most(pod.gpu_util_max, util)

    def _cgroup(self, sample: Plain) -> None:
        ts_ms, node, host = self._tick(sample), sample["node"], sample["host"]
        row = self._row(node_subject(node).key, "node", node)
        row.saw(host.get("cpu_util_pct"), host.get("mem_used_bytes"), ts_ms)
        row.mem_total = host.get("mem_total_bytes")
        for pod in sample["pods"]:
            containers = pod.get("containers") or ()
            cpu, mem = (_sum(containers, metric) for metric in ("cpu_util_pct", "mem_used_bytes"))
            self._row(pod_subject(node, pod["uid"]).key, "pod", "").saw(cpu, mem, ts_ms)

    def _pod(self, pod: Plain) -> None:
        key = pod_subject(pod["node"], pod["uid"]).key
        if "finished_ms" in pod:
            self.rows.pop(key, None)
            return
        self._row(key, "pod", "").name = "/".join((pod.get("namespace", ""), pod["name"].strip("/"))).strip(
            "/"
        )

    def _peaks(self, peaks: Plain) -> None:
        row = self.rows.get(f"pod/{peaks['pod']['uid']}")
        if row is None:
            return
        most = {metric: peak["max"] for metric, peak in peaks["metrics"].items()}
        row.util_max = _most(row.util_max, most.get("cpu_util_pct"))
        row.mem_max = _most(row.mem_max, most.get("mem_used_bytes"))
        row.gpu_util_max = _most(row.gpu_util_max, most.get("gpu_util_pct"))

    def _cycle(self, cycle: Plain) -> None:
        row = self.rows.get(_key(cycle["subject"]))
        if row is None or cycle["metric"] != _main_metric(row):
            return
        row.cycle = f"{cycle['period_s']:.3g} s" if cycle["cyclic"] and "period_s" in cycle else ""

    def _trend(self, trend: Plain) -> None:
        row = self.rows.get(_key(trend["subject"]))
        if row is None:
            return
        if trend["metric"] == "mem_used_bytes" and "exhausts_in_s" in trend:
            row.trend = f"memory full in {short_duration(trend['exhausts_in_s'])}"
        elif trend["metric"] == _main_metric(row) and trend["forecast"]:
            last = trend["forecast"][-1]
            row.trend = f"{last['value']:.0f} % in {short_duration(last['horizon_s'])}"

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
            rows = [row for row in rows if row.name and self.newest_ms - row.seen_ms < 60_000]
            return sorted(rows, key=lambda row: (-(row.gpu_util or 0), -(row.util or 0), row.name))
        return sorted(rows, key=lambda row: row.name)


def _main_metric(row: SubjectRow) -> str:
    return "gpu_util_pct" if row.kind == "gpu" or row.gpu_util_max is not None else "cpu_util_pct"


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
