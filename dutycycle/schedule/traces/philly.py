"""Reads Microsoft's Philly: ``cluster_job_log`` (JSON) and ``cluster_machine_list`` (CSV).

See https://github.com/msr-fiddle/philly-traces, README.md. It has no CPU and memory requests: a job asks for
the same share of a node's as of its GPUs. A job runs as long as all its attempts took together.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutycycle.contract.errors import DutycycleError
from dutycycle.schedule.traces.reading import Wrong, number, read
from dutycycle.schedule.workload import WHOLE, Demand, TraceJob, TraceNode
from sinks.scheduling.core.similar import Template

_MACHINES = ("machineId", "number of GPUs", "single GPU mem")
_CPU, _MEM, _MOST = 4.0, 32.0, 8
"""Of each GPU: cores and GiB. The most GPUs of a node."""


def jobs(path: Path, wrong: Wrong) -> list[TraceJob]:
    """Give a job for each that ran; pods have 8 GPUs each where a job has more. Raises ``DutycycleError``."""
    try:
        log = json.loads(path.read_bytes())
    except OSError as error:
        raise DutycycleError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise DutycycleError(f"{path}: is no JSON: {error}") from error
    if not isinstance(log, list):
        raise DutycycleError(f"{path}: expected a list of jobs, as cluster_job_log is")
    jobs = []
    for place, entry in enumerate(log, 1):
        try:
            job = _job(entry)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            name = entry.get("jobid") if isinstance(entry, dict) else None
            wrong.add(f"{path.name}: job {name or place}", f"{type(error).__name__}: {error}")
            continue
        if job is None:
            wrong.passed_over += 1
        else:
            jobs.append(job)
    return jobs


def machines(path: Path, wrong: Wrong) -> list[TraceNode]:
    """Return the nodes."""
    return read(path, _MACHINES, _machine, wrong)


def _job(entry: Mapping[str, Any]) -> TraceJob | None:
    attempts = [
        (_seconds(each["start_time"]), _seconds(each["end_time"]), each["detail"])
        for each in entry["attempts"]
        if _given(each["start_time"]) and _given(each["end_time"])
    ]
    duration = sum(end - begin for begin, end, _ in attempts)
    gpus = sum(len(node["gpus"]) for node in attempts[-1][2]) if attempts else 0
    if duration <= 0 or not gpus:
        return None
    pods = -(-gpus // _MOST)
    each = gpus if pods == 1 else _MOST
    demand = Demand(pods, each * WHOLE, each * _CPU, each * _MEM)
    template = Template(f"{entry['vc']}/{entry['user']}", gpus=float(gpus))
    return TraceJob(
        str(entry["jobid"]), _seconds(entry["submitted_time"]), duration, demand, template, str(entry["vc"])
    )


def _given(text: object) -> bool:
    return text not in (None, "None", "")


def _seconds(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def _machine(cells: Mapping[str, str]) -> TraceNode:
    gpus = round(number(cells, "number of GPUs"))
    return TraceNode(cells["machineId"], gpus, gpus * _CPU, gpus * _MEM)
