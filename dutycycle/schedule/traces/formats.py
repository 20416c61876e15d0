"""Lists what ``--format`` may be, and a workload from files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from dutycycle.contract.errors import DutycycleError
from dutycycle.schedule.cluster import Cluster, RunningPod
from dutycycle.schedule.traces import alibaba_2020, alibaba_2023, philly
from dutycycle.schedule.traces.reading import Wrong
from dutycycle.schedule.workload import Demand, JobTrace, TraceJob, TraceNode

FORMATS: dict[str, ModuleType] = {
    "alibaba-2020": alibaba_2020,
    "alibaba-2023": alibaba_2023,
    "philly": philly,
}


def workload_of(
    form: str, path: Path, machines: Path | None, made: Sequence[TraceNode], most: int, wrong: Wrong
) -> JobTrace:
    """Return the first ``most`` jobs of a trace, on the nodes of the file ``machines`` or else on those
    ``made``.

    Raises ``DutycycleError`` without any job that fits.
    """
    nodes = FORMATS[form].machines(machines, wrong) if machines else made
    trace_jobs: list[TraceJob] = sorted(
        FORMATS[form].jobs(path, wrong), key=lambda job: (job.arrival_s, job.name)
    )
    if not trace_jobs:
        raise DutycycleError(f"{path}: has no jobs: is it a trace in the format {form}?")
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
