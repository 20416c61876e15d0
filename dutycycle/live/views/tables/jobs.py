"""Makes the table of jobs: what their pods do together."""

from collections.abc import Sequence
from math import isnan, nan

from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import JobRow
from dutycycle.live.views.findings import says
from dutycycle.live.views.tables.columns import TableColumn, TableView
from dutycycle.live.views.tables.kinds import amount, history, use, words
from dutycycle.live.views.tables.pods import gpus_held, of_gpus
from dutycycle.words import bytes_text, percent_text


def gpus_of(job: JobRow) -> tuple[int | None, int]:
    """Return on how many GPUs its pods ever worked, None where that is not known of all, and how many they
    have or ask for."""
    each = [gpus_held(pod) for pod in job.pods.values()]
    used = [known for known, _ in each if known is not None]
    return sum(used) if len(used) == len(each) else None, sum(held for _, held in each)


def values(job: JobRow, most: int) -> list[float]:
    """Return the mean GPU use of its pods over their newest ticks, the newest last; NaN where none is
    known."""
    each = [list(pod.gpu_history.values("gpu_util_pct", most)) for pod in job.pods.values()]
    length = max(map(len, each), default=0)
    padded = [[nan] * (length - len(series)) + series for series in each]
    known = [[value for value in column if not isnan(value)] for column in zip(*padded, strict=True)]
    return [sum(column) / len(column) if column else nan for column in known]


def columns(state: LiveState) -> Sequence[TableColumn[JobRow]]:
    """Return what is shown of a job, from left to right."""
    return [
        TableColumn(
            "job", 20, lambda job, _: [(job.title, "bold")], lambda job: job.title, comfort=24, grows=40
        ),
        TableColumn("kind", 12, lambda job, _: [(job.kind, "dim")], lambda job: job.kind, rank=5),
        amount("pods", 4, lambda job: len(job.pods), lambda count: f"{count:.0f}", rank=1),
        TableColumn(
            "GPUs", 8, lambda job, _: of_gpus(*gpus_of(job)), lambda job: gpus_of(job)[1], rank=1, right=True,
            descending=True,
        ),
        use("GPU use", lambda job: job.gpu_util, lambda job: gpus_of(job)[1] > 0),
        amount("GPU mem", 9, lambda job: job.total("gpu_mem"), bytes_text, rank=2),
        amount("CPU", 7, lambda job: job.total("cpu"), percent_text, rank=2),
        amount("memory", 9, lambda job: job.total("mem"), bytes_text, rank=2),
        history(values, lambda _: 100, lambda job: job.gpu_util, rank=4),
        words(state),
    ]  # fmt: skip


JOBS = TableView(
    title="Jobs",
    rows=LiveState.jobs,
    columns=columns,
    key=lambda job: job.key,
    subject=lambda job: job.key,
    text=lambda state, job: f"{job.title} {job.kind} {says(state, job)}",
    empty="no pod here belongs to a job; jobs are known where there is a Kubernetes API server",
)
