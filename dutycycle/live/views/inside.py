"""Shows what is inside of a subject: the processes on a GPU, the GPUs of a pod, the pods of a job or node."""

from collections.abc import Iterator, Sequence

from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, JobRow, PodRow, Row
from dutycycle.live.views.spans import Line, bar, fit, util_style
from dutycycle.words import bytes_text, percent_text


def inside(state: LiveState, row: Row, width: int) -> Iterator[Line]:
    """Yield the lines of processes, GPUs or pods."""
    if isinstance(row, GpuRow):
        yield from _processes(state, row)
    elif isinstance(row, JobRow):
        yield from _pods(sorted(row.pods.values(), key=lambda pod: pod.title), width)
    elif isinstance(row, PodRow):
        gpus = [gpu for gpu in state.gpus() if row.uid in gpu.pods]
        yield from _gpus(gpus, row.uid)
    else:
        yield from _gpus([gpu for gpu in state.gpus() if gpu.node == row.name], None)
        yield from _pods([pod for pod in state.pods() if pod.node == row.name], width)


def _processes(state: LiveState, row: GpuRow) -> Iterator[Line]:
    if row.processes:
        yield [("Processes", "bold")]
    for process in row.processes:
        pod = state.rows.get(f"pod/{process.pod_uid}")
        text = f"{process.pid:>9}  {process.name or 'process':<20} {percent_text(process.gpu_util_pct):>8}"
        yield [(text, ""), (f"  {bytes_text(process.mem_used_bytes):>10}", ""),
               ("" if pod is None else f"  {pod.title}", "dim")]  # fmt: skip


def _gpus(gpus: Sequence[GpuRow], of_pod: str | None) -> Iterator[Line]:
    if gpus:
        yield [("GPUs", "bold")]
    for gpu in gpus:
        mine = [process for process in gpu.processes if of_pod is None or process.pod_uid == of_pod]
        util = gpu.now.gpu_util_pct
        names = ", ".join(f"{process.name or 'process'} {process.pid}" for process in mine)
        yield [
            (f"{gpu.name:>12}  ", ""), *bar(None if util is None else util / 100, 12, util_style(util)),
            (f" {percent_text(util):>8}  {bytes_text(gpu.now.mem_used_bytes):>10}", ""),
            (f"  {names}", "dim"),
        ]  # fmt: skip


def _pods(pods: Sequence[PodRow], width: int) -> Iterator[Line]:
    if pods:
        yield [("Pods", "bold")]
    for pod in pods:
        gpu = f"GPU {percent_text(pod.gpu_util):>8}  " if pod.gpus else ""
        figures_ = f"{gpu}CPU {percent_text(pod.cpu):>8}  {bytes_text(pod.mem):>10}"
        yield [*fit([(f"  {pod.title}", "")], max(width // 3, 24)), (f"  {figures_}", ""),
               (f"  {pod.node}", "dim")]  # fmt: skip
