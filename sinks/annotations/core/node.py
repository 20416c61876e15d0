"""Decides what a Node carries of its GPUs: the newest sample, and what the streams know of them beyond it.
Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dutycycle.contract.catalogue import NODE_ANNOTATIONS
from dutycycle.contract.health.verdict import is_sick, rank, sentence
from dutycycle.contract.metering import HELD_DOWN
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.parts import GpuAnalysis, NodePart
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.view.newest import NewestRecords
from sinks.annotations.core import keys
from sinks.annotations.core.values import (
    MEGA,
    MOST_PROCESSES,
    UNKNOWN_PID,
    each_once,
    gigabytes,
    measured,
    number,
    significant,
)

GPU_IDLE, GPU_THROTTLED, GPU_UNHEALTHY = "gpu-idle", "gpu-throttled", "gpu-unhealthy"
CONDITIONS = (GPU_IDLE, GPU_THROTTLED, GPU_UNHEALTHY)
"""What may hold of a node as a whole; labels are called so."""
_ANALYSIS = ("cyclic", "period_s", *NODE_ANNOTATIONS.values(), "trend_pct_per_h")
_SECONDS_PER_HOUR = 3600


class NodeView:
    """Says what a node carries, of what is known of it in ``newest``. Which GPUs it has, and their indexes,
    is known from its samples only."""

    def __init__(self, node: str, newest: NewestRecords) -> None:
        self._node = node
        self._samples, self._parts = newest.of(NvmlSample), newest.of(NodePart)
        self._healths = newest.of(NodeHealth)
        self._adopted: dict[str, dict[str, Any]] = {}
        """By GPU, until a part comes, which knows all that is known."""

    @property
    def sample(self) -> NvmlSample | None:
        """Return the newest one; None before the first."""
        return self._samples.get(self._node)

    @property
    def _health(self) -> NodeHealth | None:
        return self._healths.get(self._node)

    @property
    def is_known(self) -> bool:
        """Tell whether there is something to write."""
        return self.sample is not None or bool(self.health())

    def is_news(self, record: NodeHealth) -> bool:
        """Tell whether another level holds of one of its GPUs than is known, or another finding."""
        return self._health is None or _verdicts(record) != _verdicts(self._health)

    def health(self) -> dict[str, str]:
        """Return the annotations of its GPUs' health by name; none before it was heard of."""
        if self._health is None or not self._health.gpus:
            return {}
        gpus = sorted(self._health.gpus, key=lambda gpu: -rank(gpu.level))
        reasons = "\n".join(sentence(gpu) for gpu in gpus if gpu.reason is not None)
        return measured({keys.GPU_HEALTH: gpus[0].level, keys.GPU_HEALTH_REASON: reasons or None})

    def conditions(self) -> dict[str, bool]:
        """Tell which of ``CONDITIONS`` hold: none of its GPUs was used in the last hour; one of them is held
        down now; one should get no more work. What is not known of every GPU is left out."""
        holds = {}
        gpus = () if self.sample is None else self.sample.gpus
        analyses = self._parts[self._node].gpus if self._node in self._parts else {}
        maxima = [
            analyses[gpu.uuid].maxima.get("gpu_util_pct") if gpu.uuid in analyses else None for gpu in gpus
        ]
        known = [most for most in maxima if most is not None]
        if gpus and len(known) == len(gpus):
            holds[GPU_IDLE] = max(known) == 0
        reasons = [gpu.throttle for gpu in gpus if gpu.throttle is not None]
        if gpus and len(reasons) == len(gpus):
            holds[GPU_THROTTLED] = any(not HELD_DOWN.isdisjoint(throttle) for throttle in reasons)
        if self._health is not None:
            holds[GPU_UNHEALTHY] = any(map(is_sick, self._health.gpus))
        return holds

    def adopt(self, written: Callable[[str], Mapping[str, Any]]) -> None:
        """Take over what an earlier process wrote, by key name, for the seconds until the first part."""
        if self._node in self._parts:
            return
        for gpu in () if self.sample is None else self.sample.gpus:
            values = written(keys.gpu_name(gpu.index))
            self._adopted[gpu.uuid] = {
                name: values[name]
                for name in _ANALYSIS
                if type(values.get(name)) in ((bool,) if name == "cyclic" else (int, float))
            }

    def values(self) -> dict[str, Any]:
        """Return the annotations by name; of its health alone before the first sample."""
        if self.sample is None:
            return self.health()
        values: dict[str, Any] = {keys.GPU_STATIC: gpu_static(self.sample.gpus)}
        part = self._parts.get(self._node)
        for gpu in sorted(self.sample.gpus, key=lambda gpu_of_sample: gpu_of_sample.index):
            if part is None:
                analysis = self._adopted.get(gpu.uuid, {})
            else:
                of_gpu = part.gpus.get(gpu.uuid, GpuAnalysis())
                slope, period_s = of_gpu.slope_per_s, of_gpu.period_s
                analysis = {
                    "cyclic": of_gpu.cyclic,
                    "period_s": None if period_s is None else significant(period_s),
                    "trend_pct_per_h": None if slope is None else significant(slope * _SECONDS_PER_HOUR),
                }
                for metric, name in NODE_ANNOTATIONS.items():
                    if metric in of_gpu.maxima:
                        analysis[name] = number(of_gpu.maxima[metric])
            known = measured({name: analysis.get(name) for name in _ANALYSIS})
            values[keys.gpu_name(gpu.index)] = gpu_now(gpu) | known
        maxima = [gpu["max_gpu_util"] for gpu in values.values() if "max_gpu_util" in gpu]
        plain = {keys.GPU_COUNT: len(self.sample.gpus), keys.GPU_UTIL_MAX: max(maxima, default=None)}
        return values | measured(plain) | self.health()


def _verdicts(record: NodeHealth) -> dict[str, tuple[str, frozenset[tuple[str, int | None]]]]:
    return {
        gpu.gpu: (gpu.level, frozenset((finding.kind, finding.code) for finding in gpu.findings))
        for gpu in record.gpus
    }


def gpu_static(gpus: Iterable[Gpu]) -> dict[str, Any]:
    """Return what a node's GPUs are. Where they differ, each kind is named, separated by a comma."""
    every = sorted(gpus, key=lambda gpu: gpu.index)
    sizes = [gigabytes(gpu.mem_total_bytes) for gpu in every if gpu.mem_total_bytes is not None]
    links = [f"{g.pcie_gen}x{g.pcie_width}" for g in every if None not in (g.pcie_gen, g.pcie_width)]
    value = {
        "count": len(every),
        "model": each_once(gpu.model for gpu in every if gpu.model is not None),
        "mem_size": each_once(sizes),
        "pcie_gen_width": each_once(links),
    }
    return measured(value)


def gpu_now(gpu: Gpu) -> dict[str, Any]:
    """Return memory and processes of one GPU at one tick."""
    used, total, processes = gpu.mem_used_bytes, gpu.mem_total_bytes, gpu.processes
    if processes is None or any(process.pid == UNKNOWN_PID for process in processes):
        processes = None  # a source that sees pods only, such as dcgm-exporter, gives PID 0
    sized = [
        (process.mem_used_bytes, process.pid)
        for process in processes or ()
        if process.mem_used_bytes is not None
    ]
    largest = sorted(sized, reverse=True)[:MOST_PROCESSES]
    value = {
        "mem_used": None if used is None else gigabytes(used),
        "mem_free": None if used is None or total is None else gigabytes(max(total - used, 0)),
        "process_cnt": None if processes is None else len(processes),
        "pid_mem": None if processes is None else [
            [pid, f"{number(of_process / MEGA)}MB"]
            for of_process, pid in sorted(largest, key=lambda pair: pair[1])
        ],
    }  # fmt: skip
    return measured(value)
