"""Reads Alibaba's cluster -trace-gpu-v2023: ``openb_pod_list_*.csv`` and ``openb_node_list_*.csv``.

See https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2023/README.md. It names no user and no
program: similar pods are those with the same requests.
"""

from collections.abc import Mapping
from pathlib import Path

from dutycycle.schedule.traces.reading import Wrong, number, read
from dutycycle.schedule.workload import WHOLE, Demand, TraceJob, TraceNode
from sinks.scheduling.core.similar import Template

_PODS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
_NODES = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_NOTHING = ("", "nan")


def jobs(path: Path, wrong: Wrong) -> list[TraceJob]:
    """Return a job for each pod that was scheduled; it ran until it was deleted."""
    return read(path, _PODS, _job, wrong)


def machines(path: Path, wrong: Wrong) -> list[TraceNode]:
    """Return the nodes."""
    return read(path, _NODES, _machine, wrong)


def _job(cells: Mapping[str, str]) -> TraceJob | None:
    if cells["scheduled_time"] in _NOTHING:
        return None
    count, milli = number(cells, "num_gpu"), number(cells, "gpu_milli")
    if not count.is_integer() or milli > WHOLE:
        raise ValueError(f"num_gpu {count:g}, gpu_milli {milli:g}: expected whole GPUs, or parts of one")
    cpu, mem = number(cells, "cpu_milli") / 1000, number(cells, "memory_mib") / 1024
    duration = number(cells, "deletion_time") - number(cells, "scheduled_time")
    if duration <= 0:
        return None
    gpu_milli = round(count) * WHOLE if count != 1 else round(milli)
    models = () if cells["gpu_spec"] in _NOTHING else cells["gpu_spec"].split("|")
    template = Template(cells["qos"], gpus=gpu_milli / WHOLE, requests=(cpu, mem))
    demand = Demand(1, gpu_milli, cpu, mem, frozenset(models))
    return TraceJob(cells["name"], number(cells, "creation_time"), duration, demand, template)


def _machine(cells: Mapping[str, str]) -> TraceNode:
    gpus, cpu = round(number(cells, "gpu")), number(cells, "cpu_milli") / 1000
    return TraceNode(cells["sn"], gpus, cpu, number(cells, "memory_mib") / 1024, cells["model"])
