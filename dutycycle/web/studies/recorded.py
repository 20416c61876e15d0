"""Makes the report of a job whose samples the topics have no more: from the records in SQL, and the series of
a Prometheus where one is set."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

import numpy as np

from dutycycle.contract.catalogue import GPU_ROWS
from dutycycle.contract.catalogue import unit_of as unit_of_name
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import sum_of_known, unix_ms
from dutycycle.measures.noise import error_of_mean
from dutycycle.measures.steps import Measure, relative_error
from dutycycle.report.charts.chart import Chart, Line
from dutycycle.report.facts import Facts, GpuUse, Verdict
from dutycycle.report.gather import TracedGpu
from dutycycle.report.page import PageTable, Report
from dutycycle.report.view import GpuView, View
from dutycycle.traces.frames import Buckets, Frame
from dutycycle.web.jobs import JobUse, insight_of, job_use
from dutycycle.web.questions import DAY_MS
from dutycycle.web.subject.past import charts_of_prometheus
from dutycycle.words import bytes_text, digits, percent_text
from sinks.records.jobs import GPU_TIME, JobRecord, read_gpu_time, read_job, read_pods
from sinks.records.location import default_records_url
from sinks.records.usage import LEDGER_MEANS, hours_since

_MOST_LINES = 16
"""With more GPUs a chart has their mean, and a band from the least to the most."""
_MOST_ROWS = 256
_LETTERS = 12
"""Of a UUID, where these tell the GPUs of a job apart."""
_AT_MOST = ("gpu_util_pct", "mem_used_bytes", "power_w", "temp_c")
_NOT_KEPT = (
    "The records keep no ticks: phases, processes, forecasts, traffic and the cycle over time are not known."
)


@dataclass(frozen=True, slots=True)
class _LedgerGpu:
    """Holds what a job had of a GPU, in the columns ``GPU_TIME``: in all, and by the beginning of each hour
    or day (Unix ms)."""

    name: str
    node: str
    uuid: str
    model: str | None
    total: Mapping[str, float | None]
    steps: Mapping[int, Mapping[str, float | None]]


def recorded_run(
    uid: str, name: str, settings: Settings, why: str, namespaces: Collection[str] | None
) -> tuple[Report, dict[str, Measure]]:
    """Make the report of the whole life of a job, and what it is compared by.

    ``why``: its samples cannot be had, in words; ``namespaces``: those whose names may be told, None for all.
    Raises ``DutycycleError``, also of a job that the records do not have.
    """
    url = settings.records or default_records_url()
    record = read_job(url, uid, namespaces)
    if record is None:
        raise DutycycleError(f"{why}; and the records have no such job: {name}")
    job = job_use(record.row)
    span = job.first_ms, job.last_ms
    since_ms = hours_since(url)
    step_ms = DAY_MS if since_ms is not None and span[0] < since_ms else HOUR_MS
    gpus = _gpus_of(url, uid, step_ms)
    charts, notes = _charts_of(settings, gpus, span, step_ms)
    empty = Frame(()).between(0, 0)
    views = [
        GpuView(gpu.name, TracedGpu(gpu.node, place, gpu.uuid, gpu.model), empty)
        for place, gpu in enumerate(gpus)
    ]
    # What its records know beside the ledger
    figures: tuple[tuple[str, float | None, Callable[[float], str]], ...] = (
        ("GPU utilization, max", job.max_util_pct, percent_text),
        ("GPU memory, max of a pod", job.gpu_mem_bytes, bytes_text),
        ("Memory, max of a pod", job.mem_bytes, bytes_text),
        ("Cycle", job.period_s, lambda period_s: f"{digits(period_s)} s"),
        ("Steps a minute", job.steps_per_min, digits),
    )
    report = Report(
        view=View(job.title, job.first_ms, job.last_ms, views, [], [], {f"job/{job.uid}": job.title}, []),
        facts=_facts_of(job, record, gpus),
        charts=charts,
        phases=[],
        source="the records, of its whole life",
        notes=[*notes, _NOT_KEPT],
        caution=f"From the records, of its whole life. Its samples cannot be had: {why}.",
        title=name,
        key_figures=[(title, text(value)) for title, value, text in figures if value is not None],
        tables=list(_tables(url, uid, namespaces)),
    )
    return report, dict(_measures_of(job, report.facts, gpus))


def _gpus_of(url: str, uid: str, step_ms: int) -> list[_LedgerGpu]:
    """Read what it had of each GPU, in all and by hour or day."""
    by_gpu: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in read_gpu_time(url, uid):
        by_gpu[row["node"], row["gpu"]][unix_ms(row["at"]) // step_ms * step_ms].append(row)
    several = len({node for node, _ in by_gpu}) > 1
    letters = _LETTERS if len({uuid[:_LETTERS] for _, uuid in by_gpu}) == len(by_gpu) else None
    gpus = []
    for (node, uuid), rows_at in sorted(by_gpu.items()):
        steps = {at_ms: _total_of(rows) for at_ms, rows in sorted(rows_at.items())}
        models = [row["gpu_model"] for rows in rows_at.values() for row in rows if row["gpu_model"]]
        name = " ".join(filter(None, (node if several else "", uuid[:letters])))
        total = _total_of(steps.values())
        gpus.append(_LedgerGpu(name, node, uuid, max(models, default=None), total, steps))
    return gpus


def _total_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """Add up rows of the ledger; None where none knows a figure."""
    total: dict[str, float | None] = dict.fromkeys(GPU_TIME)
    for row in rows:
        for name in GPU_TIME:
            if row[name] is not None:
                total[name] = (total[name] or 0.0) + row[name]
    return total


def _facts_of(job: JobUse, record: JobRecord, gpus: Sequence[_LedgerGpu]) -> Facts:
    insight = insight_of(record.row)
    verdicts = []
    if insight is not None:
        plain = {
            "kind": insight.kind, "confidence": insight.confidence, "bottleneck": insight.bottleneck,
            "bottleneck_confidence": insight.bottleneck_confidence, "evidence": insight.evidence,
            "advice": job.advice,
        }  # fmt: skip
        verdicts = [Verdict(job.title, plain, max(insight.ts_ms - insight.since_ms, 0) / 1000)]
    incidents = [
        (
            unix_ms(event["at"]),
            f"{event['name']} on {event['node']} gpu {event['gpu_index']}, used by {event['pod']}"
            + (f": {event['action']}" if event["action"] else ""),
        )
        for event in reversed(record.events)
    ]
    uses = []
    for gpu in gpus:
        row = gpu.total
        values = {metric: mean.of(row) for metric, mean in LEDGER_MEANS.items()}
        means = {metric: None if np.isnan(value) else value for metric, value in values.items()}
        uses.append(GpuUse(
            name=gpu.name, node=gpu.node, model=gpu.model, seconds=row["gpu_s"] or 0.0,
            known_s=sum_of_known((row["gpu_busy_s"], row["gpu_idle_s"])) or 0.0, busy_s=row["gpu_busy_s"],
            working_s=row["gpu_working_s"], judged_s=row["gpu_working_known_s"] or 0.0,
            idle_s=row["gpu_idle_s"], untouched_s=row["gpu_untouched_s"],
            energy_j=row["energy_j"], metered_s=row["energy_known_s"] or 0.0, util_mean=means["gpu_util_pct"],
            util_max=None, sm_mean=means["sm_active_pct"], tensor_mean=means["tensor_active_pct"],
            dram_mean=None, of_peak_mean=None, mem_copy_max=None, mem_max=None, mem_total=None,
            power_mean=means["power_w"], power_max=None, temp_max=None, throttled=None,
        ))  # fmt: skip
    return Facts(
        duration_s=job.lasted_s, gpus=uses, verdicts=verdicts, cycles=[],
        cost=job.cost, idle_cost=job.idle_cost, incidents=incidents,
        is_cost_part=job.is_cost_part,
    )  # fmt: skip


def _charts_of(
    settings: Settings, gpus: Sequence[_LedgerGpu], span: tuple[int, int], step_ms: int
) -> tuple[list[Chart], list[str]]:
    """Draw the series of a Prometheus, and of what it has not the ledger; with what is to be said of them."""
    charts: list[Chart] = []
    notes: list[str] = []
    if settings.prometheus is not None and gpus:
        # Here, not above: 7 MB, for who has one.
        from collectors.prometheus.query import Prometheus, QueryError

        named = [(gpu.uuid, gpu.name) for gpu in gpus]
        try:
            charts += charts_of_prometheus(Prometheus(settings), named, *span)
        except QueryError as error:
            notes.append(f"Prometheus: {error}.")
        if charts:
            titles = ", ".join(chart.title for chart in charts)
            notes.append(f"From Prometheus, of its GPUs and all who used them meanwhile: {titles}.")
    of_ledger = [
        chart
        for metric in LEDGER_MEANS
        if (chart := _ledger_chart(metric, gpus, span, step_ms)) is not None
        and chart.id not in {other.id for other in charts}
    ]
    if of_ledger:
        titles = ", ".join(chart.title for chart in of_ledger)
        step = "day" if step_ms == DAY_MS else "hour"
        notes.append(
            f"From the ledger, by the {step}, of what the job itself had of its GPUs: {titles}. A point is "
            "the mean over the time in which it was known; a gap is not known."
        )
    return [*charts, *of_ledger], notes


def _ledger_chart(
    metric: str, gpus: Sequence[_LedgerGpu], span: tuple[int, int], step_ms: int
) -> Chart | None:
    """Draw a line a GPU, or one of all; None where nothing of it is known."""
    start_ms = span[0] // step_ms * step_ms
    # The means of the ledger, shape (GPUs, steps)
    count = (span[1] - start_ms) // step_ms + 1
    values = np.full((len(gpus), count), np.nan)
    for place, gpu in enumerate(gpus):
        for at_ms, figures in gpu.steps.items():
            at = (at_ms - start_ms) // step_ms
            if 0 <= at < count:
                values[place, at] = LEDGER_MEANS[metric].of(figures)
    known = [place for place in range(len(gpus)) if np.isfinite(values[place]).any()]
    if not known:
        return None
    if len(known) > _MOST_LINES:
        # Of each step over the GPUs of which it is known; NaN where it is of none
        of_known = values[known]
        is_known = np.isfinite(of_known).any(axis=0)
        mean, low, high = np.full((3, count), np.nan)
        for figure, of in ((mean, np.nanmean), (low, np.nanmin), (high, np.nanmax)):
            figure[is_known] = of(of_known[:, is_known], axis=0)
        lines = [
            Line(f"mean of {len(known)} GPUs", "", 0, Buckets(start_ms, step_ms, mean, low, high, False))
        ]
    else:
        lines = [
            Line(
                gpus[place].name if len(gpus) > 1 else "", gpus[place].name, place,
                Buckets(start_ms, step_ms, values[place], values[place], values[place], exact=True),
            )
            for place in known
        ]  # fmt: skip
    row = next(row for row in GPU_ROWS if row.field == metric)
    unit = unit_of_name(metric).text
    return Chart(row.chart, row.title, unit, lines, most=100 if unit == "%" else None)


def _tables(url: str, uid: str, namespaces: Collection[str] | None) -> Iterator[PageTable]:
    """Yield what its pods reached on each GPU."""
    rows = [
        [
            pod.pod.name, gpu,
            *(
                text
                for metric in _AT_MOST
                for text in _peak_texts(metric, peaks.get(metric))
            ),
        ]
        for pod in read_pods(url, uid, namespaces)
        for gpu, peaks in sorted(pod.gpus.items())
    ]  # fmt: skip
    if rows:
        head = [
            f"{row.title}, {figure}"
            for metric in _AT_MOST
            for row in GPU_ROWS
            if row.field == metric
            for figure in ("mean", "max")
        ]
        left = len(rows) - _MOST_ROWS
        note = f"{left} more are in the records" if left > 0 else ""
        yield PageTable("By pod and GPU", ["Pod", "GPU", *head], rows[:_MOST_ROWS], (0, 1), note)


def _peak_texts(metric: str, peak: Any) -> tuple[str, str]:
    if peak is None:
        return "", ""
    if metric.endswith("_bytes"):
        return bytes_text(peak.mean), bytes_text(peak.max)
    unit = unit_of_name(metric).text
    return f"{peak.mean:.1f} {unit}", f"{peak.max:.1f} {unit}"


def _measures_of(job: JobUse, facts: Facts, gpus: Sequence[_LedgerGpu]) -> Iterator[tuple[str, Measure]]:
    """Yield what it is compared by. The noise is that between its hours, of one with six hours or more."""
    # The mean over its GPUs and known time, with the standard error by its hours or days
    means: dict[str, Measure | None] = dict.fromkeys(LEDGER_MEANS)
    for metric, mean in LEDGER_MEANS.items():
        sums: dict[int, dict[str, float]] = {}
        for at_ms, row in (item for gpu in gpus for item in gpu.steps.items()):
            known = {column: value for column in mean.columns if (value := row[column]) is not None}
            if len(known) == len(mean.columns):
                before = sums.get(at_ms, {})
                sums[at_ms] = {column: before.get(column, 0.0) + value for column, value in known.items()}
        by_step = np.array([mean.of(sums[at_ms]) for at_ms in sorted(sums)])
        by_step = by_step[np.isfinite(by_step)]
        if len(by_step):
            whole = {column: sum(of_step[column] for of_step in sums.values()) for column in mean.columns}
            means[metric] = Measure(mean.of(whole), error_of_mean(by_step[:, np.newaxis]))
    pace, power = relative_error(means["gpu_util_pct"]), relative_error(means["power_w"])
    both = None if pace is None or power is None else hypot(pace, power)
    energy_j = job.energy_j if facts.is_metered else None
    cost = None if facts.is_cost_part else job.cost
    amounts = (
        ("duration_s", job.lasted_s, pace), ("gpu_s", job.gpu_s, pace), ("energy_j", energy_j, both),
        ("cost", cost, both), ("steps_per_min", job.steps_per_min, pace),
    )  # fmt: skip
    for id_, value, share in amounts:
        if value is not None:
            yield id_, Measure(value, None if share is None else value * share)
    if job.period_s is not None:
        yield "cycle_s", Measure(job.period_s, None)
    for metric, measure in means.items():
        if measure is not None:
            yield metric, measure
