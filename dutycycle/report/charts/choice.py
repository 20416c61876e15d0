"""Chooses which charts a report has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dutycycle.contract.catalogue import CAPACITIES, GPU_ROWS
from dutycycle.contract.catalogue import unit_of as unit_of_name
from dutycycle.report.charts.chart import POINTS, Chart, Line, Marks, folded, points_of, scaled, unit_of
from dutycycle.report.charts.cycles import FOLD_PERIODS, SeriesCycles, ShownCycle, cycles_of, shown_cycle
from dutycycle.report.charts.forecasts import forecasts_of
from dutycycle.report.charts.inside import plane_chart, time_chart
from dutycycle.report.gather import Gathered
from dutycycle.report.view import GpuView, HostView, View
from dutycycle.traces.frames import Buckets, aligned
from dutycycle.traces.processes import TracedProcess
from dutycycle.words import digits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """Describes a chart of the same columns of several subjects.

    ``columns``: what to call the line of each; empty where the subject's name is enough. ``unit``: "bytes"
    and "bytes/s" get the prefix that fits. ``limit``: which field of a GPU has it.
    """

    id: str
    title: str
    unit: str
    columns: Mapping[str, str]
    most: float | None = None
    limit: str | None = None
    note: str = ""


_OF_GPUS = tuple(
    _Spec(
        id=row.chart,
        title=row.title,
        unit=unit_of_name(row.field).text,
        columns={row.field: ""},
        most=row.limits[1] if row.field.endswith("_pct") else None,
        limit=row.bound or None,
        note=row.sentence,
    )
    for row in GPU_ROWS
    if row.chart
)
_CPU = _Spec(id="cpu", title="CPU", unit="%", columns={"cpu_util_pct": ""}, note="100 % is one core.")
_MEMORY = _Spec(id="memory", title="Host memory", unit="bytes", columns={"mem_used_bytes": ""})
_NETWORK = _Spec(
    id="network", title="Network", unit="bytes/s",
    columns={"net_rx_bytes_per_s": "received", "net_tx_bytes_per_s": "sent"},
)  # fmt: skip
_DISK_OF_PODS, _DISK_OF_HOSTS = (
    _Spec(
        id="disk", title="Disk", unit="bytes/s",
        columns={f"{of}_read_bytes_per_s": "read", f"{of}_write_bytes_per_s": "written"},
    )
    for of in ("io", "disk")
)  # fmt: skip


def _made(gathered: Gathered, view: View, spec: _Spec, of: Sequence[GpuView | HostView]) -> Chart | None:
    """Return a chart by its specification; None where nothing of it was measured."""
    unit, scale = unit_of(spec.unit, (part.ticks.most(column) for part in of for column in spec.columns))
    lines = [
        Line(
            " ".join(filter(None, (part.name if len(of) > 1 or not label else "", label))),
            part.name if isinstance(part, GpuView) else "",
            len(spec.columns) * place + nth,
            scaled(points_of(view, part.ticks, column), scale),
        )
        for place, part in enumerate(of)
        for nth, (column, label) in enumerate(spec.columns.items())
        if np.isfinite(part.ticks[column]).any()
    ]
    if not lines:
        return None
    label = "total" if spec.limit in CAPACITIES else "limit"
    limits = {getattr(part.traced, spec.limit) for part in of if spec.limit and isinstance(part, GpuView)}
    marks = _throttle_marks(gathered, view) if spec.id == "clock" else []
    explanation = "Marks are moments at which the driver reduced the clock, with its reason." if marks else ""
    of_hosts = any(isinstance(part, HostView) and not part.of_pod for part in of)
    return Chart(
        spec.id, spec.title, unit, lines,
        note=" ".join(filter(None, (spec.note, explanation, "Of the whole machine." if of_hosts else ""))),
        most=spec.most,
        limits=[(label, value / scale) for value in sorted(limits - {None})],
        cycle=_mark([
            cycle
            for cycle in cycles_of(gathered, view, next(iter(spec.columns)))
            if cycle.source == ("nvml" if isinstance(of[0], GpuView) else "cgroup")
        ]),
        marks=marks,
    )  # fmt: skip


def _throttle_marks(gathered: Gathered, view: View) -> list[Marks]:
    """Tell where the clock was reduced: of each bucket of the chart at most one mark for each reason."""
    marks = []
    for gpu in view.gpus:
        ticks = gpu.ticks
        step_ms = max(-(-(view.last_ms - view.first_ms + 1) // (POINTS // 4)), 1)
        for place, names in enumerate(gathered.throttles):
            where = np.flatnonzero(ticks["throttle"] == place) if names else np.array([], int)
            _, first = np.unique((ticks.times[where] - view.first_ms) // step_ms, return_index=True)
            chosen = where[first]
            chosen = chosen[np.isfinite(ticks["sm_clock_mhz"][chosen])]
            if len(chosen):
                clocks = ticks["sm_clock_mhz"][chosen].tolist()
                marks.append(Marks(" + ".join(names), gpu.name, ticks.times[chosen].tolist(), clocks))
    return marks


def _mark(cycles: Sequence[SeriesCycles]) -> tuple[str, int, int, float] | None:
    """Return what a chart marks: the first of the cycles of what it shows."""
    return cycles[0].mark() if cycles else None


def _heat(gathered: Gathered, view: View) -> Chart | None:
    """Draw a row for each GPU. Those of one job are its ranks, which wait for one another; others do not."""
    if len(view.gpus) < 2:
        return None
    gpus = [gpu for gpu in view.gpus if np.isfinite(gpu.ticks["gpu_util_pct"]).any()]
    if not gpus:
        return None
    span_ms = view.last_ms - view.first_ms + 1
    step_ms = max(min(gpu.ticks.step_ms for gpu in gpus), -(-span_ms // (POINTS // 3)), 1)
    rows = aligned((gpu.ticks for gpu in gpus), "gpu_util_pct", view.first_ms, view.last_ms, step_ms)
    lines = [
        Line(gpu.name, gpu.name, place, Buckets(view.first_ms, step_ms, row, row, row, exact=True))
        for place, (gpu, row) in enumerate(zip(gpus, rows, strict=True))
    ]
    pods = {uid: gathered.identities.get(uid) for gpu in view.gpus for uid in gpu.traced.users}
    pods = {uid: pod for uid, pod in pods.items() if not view.subjects or f"pod/{uid}" in view.subjects}
    jobs = {uid if pod is None or pod.job is None else pod.job.uid for uid, pod in pods.items()}
    title, note = "GPU utilization by GPU", "Each row is one GPU."
    if len(jobs) == 1:
        title = "GPU utilization by rank"
        note += " Rows that stay lighter than the others wait for them."
    return Chart("ranks", title, "%", lines, kind="heat", note=note, most=100)


def _fold(view: View, chosen: ShownCycle | None) -> Chart | None:
    """Return the mean over one cycle, of the GPUs whose it is."""
    if chosen is None:
        return None
    ticks = [(gpu.ticks.times, gpu.ticks[chosen.metric]) for gpu in chosen.gpus]
    times, values = (np.concatenate(parts) for parts in zip(*ticks, strict=True))
    of_cycles = (times >= chosen.from_ms) & (times < chosen.to_ms)
    points = folded(times[of_cycles], values[of_cycles], chosen.period_s, view.gpus[0].ticks.step_ms)
    title = next(row.title for row in GPU_ROWS if row.field == chosen.metric)
    note = (
        f"{title}: the last cycles of {digits(chosen.period_s)} s, up to {FOLD_PERIODS}, on one another; "
        "the band has 80 % of the ticks."
    )
    return Chart(
        "cycle", "One cycle", "%", [Line("mean of the GPUs", "", 0, points)], kind="fold", note=note, most=100
    )


def _steps(gathered: Gathered, view: View, processes: Sequence[TracedProcess]) -> Chart | None:
    """Return what the steps took, as the training loops say."""
    ticks = [(process, process.frame.between(view.first_ms, view.last_ms)) for process in processes]
    shown = [(process, frame) for process, frame in ticks if len(frame.times)]
    lines = [
        Line(process.name if len(shown) > 1 else "", "", place, points_of(view, frame, "step_s"))
        for place, (process, frame) in enumerate(shown)
    ]
    note = "As the training loops report it: the mean over the steps that ended in a tick."
    pods = {process.pod_uid for process, _ in shown}
    cycle = _mark(
        [
            cycle_of_series
            for cycle_of_series in cycles_of(gathered, view, "gpu_util_pct")
            if not pods.isdisjoint(cycle_of_series.pods)
        ]
    )
    return Chart("steps", "Step time", "s", lines, note=note, cycle=cycle) if lines else None


def charts_of(gathered: Gathered, view: View, processes: Sequence[TracedProcess] = ()) -> list[Chart]:
    """Return every chart for which something was measured."""
    of_machines: list[tuple[_Spec, list[HostView]]] = [
        (_CPU, view.machines),
        (_MEMORY, view.machines),
        (_NETWORK, view.pods_on_network or view.hosts),
        (_DISK_OF_PODS if view.pods else _DISK_OF_HOSTS, view.machines),
    ]
    chosen = shown_cycle(gathered, view)
    made = [
        time_chart(view),
        *(_made(gathered, view, spec, view.gpus) for spec in _OF_GPUS),
        plane_chart(view, chosen),
        *(_made(gathered, view, spec, of) for spec, of in of_machines),
        _steps(gathered, view, processes),
        _heat(gathered, view),
        _fold(view, chosen),
        *forecasts_of(gathered, view),
    ]
    return [chart for chart in made if chart is not None]
