"""Reads Alibaba's cluster -trace-gpu-v2020: ``pai_task_table.csv`` and ``pai_machine_spec.csv``.

See https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2020/README.md. A task's instances start
together. The task table has no user, and its times begin with the launch: what a task waited before that is
not in it.
"""

from collections.abc import Mapping
from pathlib import Path

from dutycycle.schedule.traces.reading import Wrong, number, read
from dutycycle.schedule.workload import WHOLE, Demand, TraceJob, TraceNode
from sinks.scheduling.core.similar import Template

_TASKS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem",
    "plan_gpu", "gpu_type",
)  # fmt: skip
_MACHINES = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
_PERCENT = 100


def jobs(path: Path, wrong: Wrong) -> list[TraceJob]:
    """Return a job for each task that ended."""
    return read(path, _TASKS, _job, wrong)


def machines(path: Path, wrong: Wrong) -> list[TraceNode]:
    """Return the nodes."""
    return read(path, _MACHINES, _machine, wrong)


def _job(cells: Mapping[str, str]) -> TraceJob | None:
    if not cells["start_time"] or not cells["end_time"]:
        return None
    begin = number(cells, "start_time")
    duration = number(cells, "end_time") - begin
    pods = round(number(cells, "inst_num", empty=1))
    if duration <= 0 or pods < 1:
        return None
    gpu_milli = round(number(cells, "plan_gpu", empty=0) / _PERCENT * WHOLE)
    if gpu_milli > WHOLE:
        gpu_milli = -(-gpu_milli // WHOLE) * WHOLE
    cpu, mem = number(cells, "plan_cpu", empty=0) / _PERCENT, number(cells, "plan_mem", empty=0)
    template = Template(cells["task_name"], gpus=gpu_milli / WHOLE, requests=(cpu, mem))
    name = f"{cells['job_name']}/{cells['task_name']}"
    return TraceJob(name, begin, duration, Demand(pods, gpu_milli, cpu, mem), template)


def _machine(cells: Mapping[str, str]) -> TraceNode:
    gpus, cpu = round(number(cells, "cap_gpu")), number(cells, "cap_cpu")
    return TraceNode(cells["machine"], gpus, cpu, number(cells, "cap_mem"), cells["gpu_type"])
