"""The table of processes on GPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dutycycle.contract.records.samples import GpuProcess
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuSeen
from dutycycle.live.views.tables.columns import Column
from dutycycle.live.views.tables.kinds import amount, use
from dutycycle.live.views.tables.table import TableView
from dutycycle.words import bytes_text


@dataclass(frozen=True, slots=True)
class OnGpu:
    """One process on one GPU; ``pod`` is the name of the pod that it runs in, if that is known."""

    gpu: GpuSeen
    process: GpuProcess
    pod: str

    @property
    def name(self) -> str:
        """The program."""
        return self.process.name or "process"


def on_gpus(state: LiveState) -> list[OnGpu]:
    """All of them, by GPU."""
    return list(_on_gpus(state))


def _on_gpus(state: LiveState) -> Iterator[OnGpu]:
    for gpu in state.gpus():
        for process in gpu.processes:
            pod = state.rows.get(f"pod/{process.pod_uid}")
            yield OnGpu(gpu, process, "" if pod is None else pod.title)


def columns(_: LiveState) -> Sequence[Column[OnGpu]]:
    """What is shown of a process, from left to right."""
    return [
        Column("GPU", 10, lambda row, _: [(row.gpu.name, "")], lambda row: row.gpu.order, grows=24),
        Column(
            "pid", 8, lambda row, _: [(str(row.process.pid), "")], lambda row: row.process.pid, right=True
        ),
        Column("process", 16, lambda row, _: [(row.name, "bold")], lambda row: row.name, grows=30),
        use("GPU use", lambda row: row.process.gpu_util_pct),
        amount("GPU mem", 9, lambda row: row.process.mem_used_bytes, bytes_text),
        Column("pod", 16, lambda row, _: [(row.pod, "")], lambda row: row.pod or None, rank=1, grows=60),
    ]


PROCESSES = TableView(
    title="Processes",
    rows=on_gpus,
    columns=columns,
    key=lambda row: f"{row.gpu.key}/{row.process.pid}",
    subject=lambda row: row.gpu.key,
    text=lambda _, row: f"{row.gpu.name} {row.process.pid} {row.name} {row.pod}",
    empty="no process uses a GPU now, or the driver does not say so",
)
