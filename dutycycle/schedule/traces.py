"""Reads arrivals that others have published: a workload of a file in one of ``FORMATS``.

Columns are as the README files of the traces have them. What is wrong is named and counted, and the rest is
used.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from dutycycle.contract.errors import DutycycleError
from dutycycle.encodings import encoding_of, explain_packed
from dutycycle.schedule.cluster import Cluster, RunningPod
from dutycycle.schedule.workload import WHOLE, Demand, JobTrace, TraceJob, TraceNode
from sinks.scheduling.core.similar import Template

SHOWN = 5
_HEAD_BYTES = 4096
_PERCENT = 100
_NOTHING = ("", "nan", "none", "null")
"""What tables have where there is nothing, in small letters."""
_CPU, _MEM, _MOST = 4.0, 32.0, 8
"""Of each GPU of Philly: cores and GiB. The most GPUs of a node."""
_Cells = Mapping[str, str]
_Made = TypeVar("_Made", TraceJob, TraceNode)


@dataclass(slots=True)
class Wrong:
    """Counts what could not be used: the first five ``lines`` with place and reason, and how many there are.

    ``passed_over``: rows that are right, and are no job to simulate, such as those that never ran or did not
    end.
    """

    lines: list[str] = field(default_factory=list)
    count: int = 0
    passed_over: int = 0

    def add(self, place: str, reason: object) -> None:
        """Count one more line that is of no use."""
        self.count += 1
        if len(self.lines) < SHOWN:
            self.lines.append(f"{place}: {reason}")

    def first_of(self, path: Path) -> str:
        """Return what is wrong first in a file, behind a semicolon; "" where nothing of it is among the
        lines."""
        return next((f"; {line}" for line in self.lines if line.startswith(f"{path.name}:")), "")


def workload_of(
    form: str, path: Path, machines: Path | None, made: Sequence[TraceNode], most: int, wrong: Wrong
) -> JobTrace:
    """Return the first ``most`` jobs of a trace, on the nodes of the file ``machines`` or else on those
    ``made``.

    Raises ``DutycycleError`` for a file that cannot be read, and without any job that fits.
    """
    trace, nodes = FORMATS[form], made
    if machines is not None:
        nodes = _make_all(_rows(machines, trace.node_columns, wrong), trace.node, wrong)
        if not nodes:
            reason = wrong.first_of(machines)
            raise DutycycleError(f"{machines}: has no nodes: is it of a trace in the format {form}?{reason}")
    entries = _entries(path) if trace.job_columns is None else _rows(path, trace.job_columns, wrong)
    trace_jobs = _make_all(entries, trace.job, wrong)
    trace_jobs.sort(key=lambda job: (job.arrival_s, job.name))
    if not trace_jobs:
        reason = wrong.first_of(path)
        raise DutycycleError(f"{path}: has no jobs: is it a trace in the format {form}?{reason}")
    trace_jobs = trace_jobs[:most]
    empty, known = Cluster(nodes), dict[Demand, bool]()
    fitting = []
    for job in trace_jobs:
        demand = job.demand
        if demand not in known:  # could it start if nothing else ran?
            pods: list[RunningPod] = []
            while len(pods) < demand.pods and len(rows := empty.fitting(demand)):
                pods.append(empty.take(int(rows[0]), demand))
            for pod in pods:
                empty.give(pod, demand)
            known[demand] = len(pods) == demand.pods
        if known[demand]:
            fitting.append(job)
    if not fitting:
        raise DutycycleError(f"{path}: none of its {len(trace_jobs)} jobs fits on the {len(nodes)} nodes")
    first = fitting[0].arrival_s
    jobs = [replace(job, arrival_s=job.arrival_s - first) for job in fitting]
    return JobTrace(jobs, nodes, left_out=len(trace_jobs) - len(fitting))


def _rows(path: Path, columns: Sequence[str], wrong: Wrong) -> Iterator[tuple[str, _Cells]]:
    """Yield the place and the cells of each row of a CSV, by column; with or without a heading, in which
    columns may be written in other cases.

    Rows end with their line: a quote that is not closed costs its own line, and not all that follow.
    """
    names, known = list(columns), {name.lower(): name for name in columns}
    try:
        with path.open(encoding=encoding_of(_head_of(path)), errors="replace", newline="") as file:
            for number, line in enumerate(file, 1):
                try:
                    cells = [cell.strip() for cell in next(csv.reader([line], strict=True))]
                except csv.Error as error:
                    wrong.add(f"{path.name}:{number}", f"no row of CSV: {error}")
                    continue
                if number == 1 and len({cell.lower() for cell in cells} & known.keys()) > 1:
                    names = [known.get(cell.lower(), cell) for cell in cells]
                    if missing := [name for name in columns if name not in names]:
                        raise DutycycleError(f"{path}: no column {', '.join(missing)}")
                elif cells and len(cells) != len(names):
                    wrong.add(f"{path.name}:{number}", f"{len(cells)} values for {len(names)} columns")
                elif cells:
                    yield f"{path.name}:{number}", dict(zip(names, cells, strict=True))
    except OSError as error:
        raise DutycycleError(f"{path}: {error.strerror}") from error


def _head_of(path: Path) -> bytes:
    """Return how a file begins. Raises ``OSError``, and ``DutycycleError`` for one that has its text
    packed."""
    with path.open("rb") as binary:
        head = binary.read(_HEAD_BYTES)
    if reason := explain_packed(head):
        raise DutycycleError(f"{path}: {reason}")
    return head


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and the content of each entry of a list in JSON."""
    try:
        _head_of(path)
        log = json.loads(path.read_bytes())
    except OSError as error:
        raise DutycycleError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DutycycleError(f"{path}: is no JSON: {error}") from error
    if not isinstance(log, list):
        raise DutycycleError(f"{path}: expected a list of jobs, as cluster_job_log is")
    for place, entry in enumerate(log, 1):
        name = entry.get("jobid") if isinstance(entry, dict) else None
        yield f"{path.name}: job {name or place}", entry


def _make_all(
    entries: Iterable[tuple[str, Any]], make: Callable[[Any], _Made | None], wrong: Wrong
) -> list[_Made]:
    """Return what ``make`` makes of each entry. It raises ``ValueError`` for a wrong one; None is passed
    over."""
    made = []
    for place, entry in entries:
        try:
            row = make(entry)
        except ValueError as error:
            wrong.add(place, error)
            continue
        if row is None:
            wrong.passed_over += 1
        else:
            made.append(row)
    return made


def _number(cells: _Cells, name: str, *, empty: float | None = None) -> float:
    """Return a finite number, 0 or more. ``empty``: what nothing stands for. Raises ``ValueError``."""
    text = cells[name]
    if _is_absent(text) and empty is not None:
        return empty
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is no number") from None
    if not isfinite(value) or value < 0:
        raise ValueError(f"{name}: {text!r}: expected 0 or more")
    return value


def _is_absent(text: str | None) -> bool:
    return text is None or text.lower() in _NOTHING


def _alibaba_2020_job(cells: _Cells) -> TraceJob | None:
    """Make a job of a task that ended: its instances start together. The task table has no user, and its
    times begin with the launch: what a task waited before that is not in it."""
    if _is_absent(cells["start_time"]) or _is_absent(cells["end_time"]):
        return None
    begin = _number(cells, "start_time")
    duration = _number(cells, "end_time") - begin
    pods = round(_number(cells, "inst_num", empty=1))
    if duration <= 0 or pods < 1:
        return None
    gpu_milli = round(_number(cells, "plan_gpu", empty=0) / _PERCENT * WHOLE)
    if gpu_milli > WHOLE:
        gpu_milli = -(-gpu_milli // WHOLE) * WHOLE
    cpu, mem = _number(cells, "plan_cpu", empty=0) / _PERCENT, _number(cells, "plan_mem", empty=0)
    template = Template(cells["task_name"], gpus=gpu_milli / WHOLE, requests=(cpu, mem))
    name = f"{cells['job_name']}/{cells['task_name']}"
    return TraceJob(name, begin, duration, Demand(pods, gpu_milli, cpu, mem), template)


def _alibaba_2020_node(cells: _Cells) -> TraceNode:
    gpus, cpu = round(_number(cells, "cap_gpu")), _number(cells, "cap_cpu")
    return TraceNode(cells["machine"], gpus, cpu, _number(cells, "cap_mem"), cells["gpu_type"])


def _alibaba_2023_job(cells: _Cells) -> TraceJob | None:
    """Make a job of a pod that was scheduled, and ran until it was deleted. The trace names no user and no
    program: similar pods are those with the same requests."""
    if _is_absent(cells["scheduled_time"]) or _is_absent(cells["deletion_time"]):
        return None
    count, milli = _number(cells, "num_gpu"), _number(cells, "gpu_milli")
    if not count.is_integer() or milli > WHOLE:
        raise ValueError(f"num_gpu {count:g}, gpu_milli {milli:g}: expected whole GPUs, or parts of one")
    cpu, mem = _number(cells, "cpu_milli") / 1000, _number(cells, "memory_mib") / 1024
    duration = _number(cells, "deletion_time") - _number(cells, "scheduled_time")
    if duration <= 0:
        return None
    gpu_milli = round(count) * WHOLE if count != 1 else round(milli)
    models = () if _is_absent(cells["gpu_spec"]) else cells["gpu_spec"].split("|")
    template = Template(cells["qos"], gpus=gpu_milli / WHOLE, requests=(cpu, mem))
    demand = Demand(1, gpu_milli, cpu, mem, frozenset(models))
    return TraceJob(cells["name"], _number(cells, "creation_time"), duration, demand, template)


def _alibaba_2023_node(cells: _Cells) -> TraceNode:
    gpus, cpu = round(_number(cells, "gpu")), _number(cells, "cpu_milli") / 1000
    return TraceNode(cells["sn"], gpus, cpu, _number(cells, "memory_mib") / 1024, cells["model"])


def _philly_job(entry: Mapping[str, Any]) -> TraceJob | None:
    """Make a job of one that ran, as long as all its attempts took together; pods have 8 GPUs each where it
    has more. The trace has no requests of CPU and memory: a job asks for the same share of a node's as of its
    GPUs."""

    def seconds(text: str) -> float:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()

    def lasted(begin: float, end: float) -> float:
        if end < begin:
            raise ValueError("an attempt ends before it begins")
        return end - begin

    try:
        attempts = [
            (seconds(each["start_time"]), seconds(each["end_time"]), each["detail"])
            for each in entry["attempts"]
            if not any(_is_absent(each[name]) for name in ("start_time", "end_time"))
        ]
        duration = sum(lasted(begin, end) for begin, end, _ in attempts)
        # As many as it had last: one that ended at once may have got none.
        held = [gpus for _, _, nodes in attempts if (gpus := sum(len(node["gpus"]) for node in nodes))]
        gpus = held[-1] if held else 0
        if duration <= 0 or not gpus:
            return None
        pods = -(-gpus // _MOST)
        each = gpus if pods == 1 else _MOST
        demand = Demand(pods, each * WHOLE, each * _CPU, each * _MEM)
        template = Template(f"{entry['vc']}/{entry['user']}", gpus=float(gpus))
        name, submitted_s = str(entry["jobid"]), seconds(entry["submitted_time"])
        return TraceJob(name, submitted_s, duration, demand, template, str(entry["vc"]))
    except KeyError as error:
        raise ValueError(f"has no {error.args[0]}") from error
    except (TypeError, AttributeError) as error:
        raise ValueError("is no job as cluster_job_log has them") from error


def _philly_node(cells: _Cells) -> TraceNode:
    gpus = round(_number(cells, "number of GPUs"))
    return TraceNode(cells["machineId"], gpus, gpus * _CPU, gpus * _MEM)


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """Describes a trace: the columns of its files, and what a row is. ``job_columns``: None where the jobs
    are a list in JSON."""

    job_columns: Sequence[str] | None
    job: Callable[[Any], TraceJob | None]
    node_columns: Sequence[str]
    node: Callable[[_Cells], TraceNode]


FORMATS: Mapping[str, TraceFormat] = {
    # https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2020: pai_task_table, pai_machine_spec
    "alibaba-2020": TraceFormat(
        ("job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem",
         "plan_gpu", "gpu_type"),
        _alibaba_2020_job,
        ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"),
        _alibaba_2020_node,
    ),
    # The same, cluster-trace-gpu-v2023: openb_pod_list_*, openb_node_list_*
    "alibaba-2023": TraceFormat(
        ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
         "creation_time", "deletion_time", "scheduled_time"),
        _alibaba_2023_job,
        ("sn", "cpu_milli", "memory_mib", "gpu", "model"),
        _alibaba_2023_node,
    ),
    # https://github.com/msr-fiddle/philly-traces: cluster_job_log (JSON), cluster_machine_list
    "philly": TraceFormat(
        None, _philly_job, ("machineId", "number of GPUs", "single GPU mem"), _philly_node
    ),
}  # fmt: skip
"""What ``--format`` may be."""
