"""Makes the table of processes on GPUs, by job: with what this machine knows of its own ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dutycycle.contract.records.samples import GpuProcess
from dutycycle.live.model.processes import ProcessFacts
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, PodRow
from dutycycle.live.views.spans import Line
from dutycycle.live.views.tables.columns import TableColumn, TableView
from dutycycle.live.views.tables.kinds import amount, use
from dutycycle.words import UNKNOWN, bytes_text, percent_text, short_duration


@dataclass(frozen=True, slots=True)
class OnGpu:
    """Holds one process on one GPU. ``job`` and ``pod``: names, empty for unknown; ``facts``: None for one of
    another machine. ``is_first``: of its job, in the natural order."""

    gpu: GpuRow
    process: GpuProcess
    job: str
    pod: str
    facts: ProcessFacts | None
    is_first: bool = True

    @property
    def name(self) -> str:
        """Return the program, with its arguments where they are known."""
        known = self.facts.command if self.facts is not None else None
        return known or self.process.name or UNKNOWN

    @property
    def group(self) -> str:
        """Return what it belongs to: the job, or without one the pod."""
        return self.job or self.pod

    @property
    def key(self) -> str:
        """Name the row: a process on two GPUs has two."""
        return f"{self.gpu.key}/{self.process.pid}"


def on_gpus(state: LiveState) -> list[OnGpu]:
    """Return all of them, by job, pod and GPU; those of no job come last."""
    rows = []
    for gpu in state.gpus():
        local = state.local if state.local is not None and state.local.node == gpu.node else None
        for process in gpu.processes:
            pod = state.rows.get(f"pod/{process.pod_uid}")
            facts = None if local is None else local.facts(process.pid)
            job = ""
            if isinstance(pod, PodRow) and pod.identity is not None and pod.identity.job is not None:
                job = "/".join(filter(None, (pod.namespace, pod.identity.job.name)))
            rows.append(OnGpu(gpu, process, job, "" if pod is None else pod.title, facts))
    rows.sort(key=lambda row: (not row.group, row.group, row.pod, row.gpu.order, row.process.pid))
    return [
        replace(row, is_first=before is None or before.group != row.group)
        for before, row in zip([None, *rows], rows, strict=False)
    ]


def age_s(state: LiveState, facts: ProcessFacts | None) -> float | None:
    """Return for how many seconds a process has run; None for unknown."""
    if facts is None or facts.started_s is None:
        return None
    return max(state.now_ms / 1000 - facts.started_s, 0.0)


def _tree(row: OnGpu, _: int) -> Line:
    """Return the job once, and below it a line for each of its processes; without a job the pod, or login
    session, which all of them have."""
    if not row.group:
        return []
    return [(row.group, "bold")] if row.is_first else [("  └ ", "dim"), (row.pod if row.job else "", "dim")]


def columns(state: LiveState) -> Sequence[TableColumn[OnGpu]]:
    """Return what is shown of a process, from left to right; what nobody here can know has no column."""
    rows = on_gpus(state)
    longest = max((len(row.gpu.name) for row in rows), default=0)
    shown: list[TableColumn[OnGpu]] = [
        TableColumn(
            "GPU",
            min(longest, 10),
            lambda row, _: [(row.gpu.name, "")],
            lambda row: row.gpu.order,
            grows=min(longest, 24),
        ),
        TableColumn(
            "pid", 8, lambda row, _: [(str(row.process.pid), "")], lambda row: row.process.pid, right=True
        ),
    ]
    if any(row.facts is not None for row in rows):
        shown.append(
            TableColumn(
                "user", 8, lambda row, _: [(_user(row), "")], lambda row: _user(row), rank=4, grows=14
            )
        )
    shown += [
        use("GPU use", lambda row: row.process.gpu_util_pct),
        amount("GPU mem", 9, lambda row: row.process.mem_used_bytes, bytes_text),
    ]
    if any(row.facts is not None for row in rows):
        shown += [
            amount("CPU", 7, lambda row: row.facts.cpu_pct if row.facts else None, percent_text, rank=2),
            amount("memory", 9, lambda row: row.facts.mem_bytes if row.facts else None, bytes_text, rank=3),
            amount(
                "age", 6, lambda row: age_s(state, row.facts),
                lambda age: UNKNOWN if age is None else short_duration(age), rank=3,
            ),
        ]  # fmt: skip
    return [
        *shown,
        TableColumn("job, pod", 12, _tree, lambda row: row.group or None, rank=1, grows=40),
        TableColumn("process", 14, lambda row, _: [(row.name, "bold")], lambda row: row.name, grows=80),
    ]


def _user(row: OnGpu) -> str:
    return (row.facts.user if row.facts is not None else None) or UNKNOWN


PROCESSES = TableView(
    title="Processes",
    rows=on_gpus,
    columns=columns,
    key=lambda row: row.key,
    subject=lambda row: row.gpu.key,
    text=lambda _, row: f"{row.gpu.name} {row.process.pid} {_user(row)} {row.name} {row.job} {row.pod}",
    empty="no process uses a GPU now, or the driver does not say so",
)
