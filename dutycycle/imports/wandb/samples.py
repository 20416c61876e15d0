"""Turns a run of Weights & Biases into samples: its GPUs, the machine and the run's own part of it, and its
steps.

W&B measures every 2 to 30 s; older versions give means of some seconds. ``cpu`` is the percentage of the
whole machine that the run's process takes; ``disk.in`` and ``network.recv`` are totals since the run began,
in MB and bytes (core/pkg/monitor of https://github.com/wandb/wandb, and wandb/sdk/internal/system of older
versions).
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from dutycycle.contract.catalogue import GPU_ROWS
from dutycycle.contract.codec import encode
from dutycycle.contract.records.base import VersionedRecord
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.processes import Loop, Process, ProcessSample
from dutycycle.contract.records.samples import Allocation, CgroupSample, Container, Host, PodCgroup
from dutycycle.contract.topics import full_name
from dutycycle.contract.trace import TraceRecord
from dutycycle.contract.units import NAME_PATTERN
from dutycycle.imports.dealing import APART_MS
from dutycycle.imports.quantities import Column, Notes, Row, complete
from dutycycle.imports.table.spellings import WANDB_FIELDS
from dutycycle.imports.wandb.run import Moment, Step, read_moments, read_number, read_run

_SHARES = frozenset(name for row in GPU_ROWS if row.gpm for name in row.wandb)
"""What W&B writes in percent where it asks NVML, and as shares of 1 where it asks DCGM, under one name. In a
run no value of which is above 1 they are shares, unless its GPUs were never busy for so long."""
_COARSE_PCT = 10
"""By so much a share may be above twice the utilization: the two are not of one moment."""
_GPU = re.compile(r"gpu\.(?P<index>\d+)\.(?P<name>\w+)").fullmatch
_OWN_GPU = re.compile(r"gpu\.process\.(?P<index>\d+)\.\w+").fullmatch
_CORE = re.compile(r"cpu\.\d+\.cpu_percent").fullmatch
_TOTALS = (
    ("disk_read_bytes_per_s", re.compile(r"disk\.(?:\w+\.)?in").fullmatch, 1024**2),
    ("disk_write_bytes_per_s", re.compile(r"disk\.(?:\w+\.)?out").fullmatch, 1024**2),
    ("net_rx_bytes_per_s", re.compile(r"network\.recv").fullmatch, 1),
    ("net_tx_bytes_per_s", re.compile(r"network\.sent").fullmatch, 1),
)
_LIMITS = (
    (re.compile(r"cpu(\.\d+\.cpu_percent)?").fullmatch, 200),
    (re.compile(r"memory(_percent)?").fullmatch, 100),
    (re.compile(r"proc\.memory\.rssMB").fullmatch, 1e8),
    (re.compile(r"disk\.(?:\w+\.)?(?:in|out)").fullmatch, 1e13),
    (re.compile(r"network\.(?:recv|sent)").fullmatch, 2**64),
)
"""The most that a machine has. The share of a core is now and then a little above 100 %."""
_MOST_BYTES_PER_S = 1e13
_LEAST_PCT = 5
"""A smaller share of memory is too coarse to tell the whole."""
_PID = 1
"""W&B does not tell the process; the first one of a container has this number."""
_NAMESPACE = "wandb"
_COLLECTOR = "import"


class WandbSamples:
    """Reads one run file; all that it has is of one pod, the run.

    ``node`` is taken where ``own_node`` is false, or the run does not tell its host. ``job`` names the run
    instead of its own name. Raises ``DutycycleError`` for a file that is no run file.
    """

    def __init__(self, path: str, node: str, prefix: str, *, job: str | None, own_node: bool) -> None:
        self.notes = Notes(columns=("system metrics of W&B",))
        self.has_figures = False
        self._path, self._prefix = path, prefix
        self.run = read_run(path, self.notes)
        has_name = re.fullmatch(NAME_PATTERN, self.run.host) is not None
        self.node = self.run.host if own_node and has_name else node
        self._uid = self.run.run_id or Path(path).stem
        self._job = job or self.run.name or self._uid
        self._namespace = self.run.project or _NAMESPACE
        self._columns: dict[str, Column] = {}
        self._own_gpus: set[int] = set()
        self._unit_of_shares = "%"

    def read(self) -> Iterator[Row | TraceRecord]:
        """Give the rows of GPUs, and records of everything else."""
        if not self.run.moments_ms:
            return
        largest, busiest_pct = 0.0, None
        for moment in read_moments(self._path):
            self._own_gpus |= {int(match["index"]) for match in map(_OWN_GPU, moment.stats) if match}
            for name, text in moment.stats.items():
                if (match := _GPU(name)) is None or (value := read_number(text)) is None:
                    continue
                if match["name"] in _SHARES:
                    largest = max(largest, value)
                elif match["name"] == "gpu":
                    busiest_pct = max(busiest_pct or 0.0, value)
        is_idle = busiest_pct is not None and 100 * largest > 2 * busiest_pct + _COARSE_PCT
        self._unit_of_shares = "%" if largest > 1 or is_idle else "ratio"
        began_ms = self.run.started_ms or min(self.run.moments_ms)
        yield self._pod(began_ms)
        before: Moment | None = None
        for seq, moment in enumerate(read_moments(self._path)):
            yield from self._read_gpus(moment)
            yield self._read_machine(moment, before, seq)
            yield from self._read_steps(before.ts_ms if before else began_ms, moment.ts_ms, seq)
            before = moment
        last_ms = max(self.run.moments_ms)
        ended_ms = max([last_ms, *(step.ts_ms for step in self.run.steps[-1:])])
        yield from self._read_steps(last_ms, ended_ms, len(self.run.moments_ms))
        yield self._pod(began_ms, ended_ms)

    def _record(self, topic: str, key: str, record: VersionedRecord, ts_ms: int) -> TraceRecord:
        return TraceRecord(
            topic=full_name(self._prefix, topic), key=key, payload=encode(record), ts_ms=ts_ms
        )  # fmt: skip

    def _pod(self, began_ms: int, ended_ms: int | None = None) -> TraceRecord:
        """Return the run when it begins, and when it is over: it failed, succeeded, or nobody knows."""
        phase = "Running"
        if ended_ms is not None:
            phase = {None: "Unknown", 0: "Succeeded"}.get(self.run.exit_code, "Failed")
        pod = Pod(
            uid=self._uid, namespace=self._namespace, name=self._job, node=self.node, phase=phase,
            started_ms=began_ms, finished_ms=ended_ms,
            job=JobRef(api_version="dutycycle/v1", kind="WandbRun", name=self._job, uid=self._uid),
        )  # fmt: skip
        # The end comes after the last samples, which are joined for a second.
        return self._record("pods", self._uid, pod, began_ms if ended_ms is None else ended_ms + APART_MS)

    def _read_gpus(self, moment: Moment) -> Iterator[Row]:
        """Give a row for each GPU. The run's are those that W&B saw its process on; all, if it saw none."""
        gpus: dict[int, dict[str, Any]] = {}
        for name, text in moment.stats.items():
            match = _GPU(name)
            if match is None or match["name"] not in WANDB_FIELDS:
                continue
            value = self._read_value(name, match["name"], text)
            fields = gpus.setdefault(int(match["index"]), {})
            if value is not None and not (match["name"] == "graphicsClock" and "sm_clock_mhz" in fields):
                fields[self._columns[name].field] = value
        models, amounts = self.run.gpu_models, self.run.gpu_bytes
        given = Allocation(pod_uid=self._uid, namespace=self._namespace, pod=self._job)
        for index, fields in gpus.items():
            self.has_figures = True
            share_pct = fields.get("mem_used_pct", 0)
            if index < len(amounts) and amounts[index]:
                fields["mem_total_bytes"] = amounts[index]
            elif share_pct >= _LEAST_PCT and "mem_used_bytes" in fields:
                fields["mem_total_bytes"] = round(fields["mem_used_bytes"] * 100 / share_pct)
            complete(fields)
            if index < len(models) and models[index]:
                fields["model"] = models[index]
            if not self._own_gpus or index in self._own_gpus:
                fields["allocated"] = (given,)
            yield Row(moment.ts_ms, {"index": index, **fields}, self.node)

    def _read_value(self, name: str, figure: str, text: str) -> Any:
        if name not in self._columns:
            field, unit = WANDB_FIELDS[figure]
            unit = self._unit_of_shares if figure in _SHARES else unit
            self._columns[name] = Column(name, field, unit, self.notes)
        try:
            return self._columns[name].read_value(text)
        except ValueError:  # an object, or a word
            self.notes.count_out_of_range(name, text)
            return None

    def _read_machine(self, moment: Moment, before: Moment | None, seq: int) -> TraceRecord:
        """Give what the machine, and the run of it, use of CPU, memory, disk and network."""
        run = self.run
        stats = {
            name: value for name, text in moment.stats.items()
            if (value := read_number(text)) is not None and self._is_possible(name, value)
        }  # fmt: skip
        cores = [value for name, value in stats.items() if _CORE(name)]
        run.cores = run.cores or len(cores) or None
        host: dict[str, Any] = {"cpu_count": run.cores, "mem_total_bytes": run.mem_total_bytes}
        if cores and len(cores) == run.cores:
            host["cpu_util_pct"] = sum(cores)
        mem_pct = stats.get("memory_percent", stats.get("memory"))
        if mem_pct is not None and run.mem_total_bytes is not None:
            host["mem_used_bytes"] = round(mem_pct * run.mem_total_bytes / 100)
        if before is not None and moment.ts_ms > before.ts_ms:
            for field, matches, unit in _TOTALS:
                totals = [
                    [number for name, text in before.stats.items() if matches(name)
                     and (number := read_number(text)) is not None],
                    [number for name, number in stats.items() if matches(name)],
                ]  # fmt: skip
                grown = sum(totals[1]) - sum(totals[0])
                per_s = grown * unit * 1000 / (moment.ts_ms - before.ts_ms)
                # It falls when a counter begins anew.
                if len(totals[0]) == len(totals[1]) > 0 and 0 <= per_s <= _MOST_BYTES_PER_S:
                    host[field] = per_s
        own: dict[str, Any] = {}
        if "cpu" in stats and run.cores:
            own["cpu_util_pct"] = stats["cpu"] * run.cores
        if "proc.memory.rssMB" in stats:
            own["mem_used_bytes"] = round(stats["proc.memory.rssMB"] * 1024**2)
        self.has_figures = self.has_figures or bool(own) or len(host) > 2
        container = msgspec.convert({"id": f"{self._uid}-run", **own}, Container)
        sample = CgroupSample(
            node=self.node, collector=f"{_COLLECTOR}-{self._uid}", seq=seq, ts_ms=moment.ts_ms,
            interval_ms=run.interval_ms, host=msgspec.convert(host, Host),
            pods=(PodCgroup(uid=self._uid, containers=(container,)),),
        )  # fmt: skip
        return self._record("cgroup-samples", self.node, sample, moment.ts_ms)

    def _is_possible(self, name: str, value: float) -> bool:
        """Tell whether a machine may have a value; one that it cannot have is counted."""
        most = next((most for matches, most in _LIMITS if matches(name)), None)
        if most is None or 0 <= value <= most:
            return True
        self.notes.of_machine.add(name)
        self.notes.count_out_of_range(name, f"{value:g}")
        return False

    def _read_steps(self, after_ms: int, until_ms: int, seq: int) -> Iterator[TraceRecord]:
        """Give the steps that the history has after one moment, until the next."""
        steps = self.run.steps
        first = bisect_right(steps, after_ms, key=_time_of)
        last = bisect_right(steps, until_ms, key=_time_of)
        rows = steps[max(first - 1, 0) : last]
        if len(rows) < 2 or rows[-1].step <= rows[0].step:
            return
        single = all(later.step - earlier.step == 1 for earlier, later in pairwise(rows))
        loop = Loop(
            loop=self.run.step_name[:200], steps=rows[-1].step - rows[0].step, step=rows[-1].step,
            seconds=(rows[-1].ts_ms - rows[0].ts_ms) / 1000,
            longest_s=max(later.ts_ms - earlier.ts_ms for earlier, later in pairwise(rows)) / 1000
            if single else None,
        )  # fmt: skip
        sample = ProcessSample(
            node=self.node, collector=f"{_COLLECTOR}-{self._uid}", seq=seq, ts_ms=until_ms,
            interval_ms=self.run.interval_ms,
            processes=(Process(pid=_PID, pod_uid=self._uid, name=self._job, loop=loop),),
        )  # fmt: skip
        yield self._record("processes", self.node, sample, until_ms)


def _time_of(step: Step) -> int:
    return step.ts_ms
