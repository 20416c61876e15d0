"""Defines what is compared: the figures of a run, each with its standard error."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt
from typing import Literal

import numpy as np

from dutycycle.contract.catalogue import GPU_ROWS, unit_of
from dutycycle.contract.units import sum_of_known
from dutycycle.measures.noise import blocks_of, error_of_max, error_of_mean
from dutycycle.measures.steps import WORK, Measure, product, relative_error, step_measures
from dutycycle.report.charts.inside import layers_of
from dutycycle.report.facts import joules_text, of_peak, seconds_text
from dutycycle.report.page import Report
from dutycycle.report.phases import seconds_by_name
from dutycycle.report.view import GpuView, HostView
from dutycycle.traces.frames import Floats, aligned, mean_of_known, total_of_known
from dutycycle.words import bytes_text, decimal_bytes, short_duration

Better = Literal["less", "more", ""]
_OF_PERIOD = 0.005
"""The error of a period, as a share of it: what the detector is tested for."""
_LEAST_BYTES = 1000
"""Of less than a kilobyte nothing is said."""
_DEGREE = 1.0
"""The error of a temperature, which comes in whole degrees."""
_EDGE_S = 2.0
"""The error of where a phase begins or ends."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Defines one row of a comparison. ``better``: which values are, empty where neither is."""

    id: str
    title: str
    shown: Callable[[float], str]
    better: Better = ""


def _unit(unit: str, digits: int = 4) -> Callable[[float], str]:
    return lambda value: f"{value:.{digits}g} {unit}"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 120 else short_duration(value)


_PHASES = ("loading", *WORK, "checkpoint", "idle")
TIME_LAYERS = {
    "gpu_tensor_time_pct": "tensor cores", "gpu_sm_time_pct": "SM without tensor cores",
    "gpu_empty_time_pct": "in use, SM empty", "gpu_untold_time_pct": "in use, not told further",
    "gpu_idle_time_pct": "idle",
}  # fmt: skip
"""Where the GPUs' time goes, by figure: the layers of the report's chart of it."""
COMPARED = tuple(row for row in GPU_ROWS if row.compared)
FIGURES = (
    Figure("duration_s", "Duration", _seconds, "less"),
    Figure("gpu_s", "GPU time", seconds_text, "less"),
    Figure("energy_j", "GPU energy", joules_text, "less"),
    Figure("cost", "Cost", lambda value: f"{value:.4g}", "less"),
    Figure("steps", "Steps", lambda value: f"{value:.0f}"),
    Figure("steps_per_min", "Steps a minute", lambda value: f"{value:.4g}", "more"),
    Figure("samples_per_s", "Samples a second", lambda value: f"{value:.4g}", "more"),
    Figure("gpu_s_per_step", "GPU time a step", _unit("GPU-s"), "less"),
    Figure("energy_j_per_step", "GPU energy a step", _unit("J"), "less"),
    Figure("cycle_s", "Cycle", _unit("s")),
    Figure("cycles", "Cycles, about", lambda value: f"{value:.0f}"),
    *(Figure(row.field, f"{row.title}, {row.compared}", _unit(unit_of(row.field).text)) for row in COMPARED),
    Figure("tensor_of_peak_pct", "Tensor use of peak, mean", _unit("%")),
    *(Figure(id_, f"GPUs' time: {layer}", _unit("%")) for id_, layer in TIME_LAYERS.items()),
    Figure("gpu_mem_bytes", "GPU memory, max of one", bytes_text),
    Figure("cpu_cores", "CPU, mean", _unit("cores", 3)),
    Figure("mem_bytes", "Host memory, max of one", bytes_text),
    Figure("read_bytes", "Disk read", decimal_bytes),
    Figure("written_bytes", "Disk written", decimal_bytes),
    Figure("received_bytes", "Network received", decimal_bytes),
    Figure("sent_bytes", "Network sent", decimal_bytes),
    *(Figure(f"{name}_phase_s", f"Phase: {name}", _seconds) for name in _PHASES),
)


def measures_of(report: Report) -> dict[str, Measure]:
    """Return the figures of a run that were measured, by ``Figure.id``."""
    return dict(_GriddedRun(report).measures())


class _GriddedRun:
    """Puts a run on one grid of ticks, on which its GPUs and machines can be summed."""

    def __init__(self, report: Report) -> None:
        self._report, self._view = report, report.view
        self._step_ms = max(max((part.ticks.step_ms for part in self._view.parts), default=0), 1)
        self._tick_s = self._step_ms / 1000
        cycles = [cycle for what, cycle in report.facts.cycles if what == "GPU utilization"]
        self._period_s = (
            min((period.period_s for period in cycles[0].periods), default=None) if cycles else None
        )

    def measures(self) -> Iterator[tuple[str, Measure]]:
        facts, view = self._report.facts, self._view
        # The relative error of how fast the run worked, taken from the use of its GPUs, or of its CPUs.
        use = self._mean(self._view.gpus, "gpu_util_pct")
        pace = relative_error(use or self._mean(self._view.machines, "cpu_util_pct", summed=True))
        power = relative_error(self._mean(view.gpus, "power_w"))
        yield "duration_s", self._timed(facts.duration_s, pace)
        if view.gpus:
            yield "gpu_s", self._timed(facts.total("seconds") or 0.0, pace, len(view.gpus))
        both = None if pace is None or power is None else hypot(pace, power)
        energy_j = facts.total("energy_j") if facts.is_metered else None
        for name, value in (("energy_j", energy_j), ("cost", None if facts.is_cost_part else facts.cost)):
            if value is not None:
                yield name, Measure(value, None if both is None else value * both)
        spent, of_cycles = seconds_by_name(self._report.phases), dict[str, Measure]()
        if (period_s := self._period_s) is not None:
            of_cycles["cycle_s"] = Measure(period_s, _OF_PERIOD * period_s)
            count = sum(seconds for name, (seconds, _) in spent.items() if name in WORK) / period_s
            of_cycles["cycles"] = Measure(count, hypot(1.0, count * _OF_PERIOD))
        yield from step_measures(self._report, of_cycles.get("cycle_s"))
        yield from of_cycles.items()
        yield from self._of_gpus()
        yield from self._of_time()
        # Tensor use as a share of peak, of models whose peak is known
        parts = [
            replace(gpu.ticks, values={"of_peak": of_peak(gpu.ticks, gpu.traced.model)}) for gpu in view.gpus
        ]
        line = mean_of_known(aligned(parts, "of_peak", view.first_ms, view.last_ms, self._step_ms))
        if np.isfinite(line).any():
            yield "tensor_of_peak_pct", Measure(float(np.nanmean(line)), error_of_mean(self._blocks(line)))
        yield from self._of_machines()
        for name, (seconds, times) in spent.items():
            yield f"{name}_phase_s", Measure(seconds, sqrt(2 * times) * max(_EDGE_S, self._tick_s))

    def _of_gpus(self) -> Iterator[tuple[str, Measure]]:
        gpus = self._view.gpus
        for row in COMPARED:
            measure = (self._mean if row.compared == "mean" else self._max)(gpus, row.field)
            if measure is not None and measure.error is not None and row.field.endswith("_c"):
                measure = replace(measure, error=hypot(measure.error, _DEGREE))
            if measure is not None:
                yield row.field, measure
        if (memory := self._max(gpus, "mem_used_bytes")) is not None:
            yield "gpu_mem_bytes", memory

    def _of_time(self) -> Iterator[tuple[str, Measure]]:
        """Yield where the time goes, of a run whose GPUs tell what they do; else utilization says all there
        is."""
        gpus = [gpu.ticks for gpu in self._view.gpus if np.isfinite(gpu.ticks["gpu_util_pct"]).any()]
        if not any(np.isfinite(ticks["tensor_active_pct"]).any() for ticks in gpus):
            return
        view, parts = self._view, [replace(ticks, values=layers_of(ticks)) for ticks in gpus]
        for id_, layer in TIME_LAYERS.items():
            line = mean_of_known(aligned(parts, layer, view.first_ms, view.last_ms, self._step_ms))
            yield id_, Measure(float(np.nanmean(line)), error_of_mean(self._blocks(line)))

    def _of_machines(self) -> Iterator[tuple[str, Measure]]:
        view, of = self._view, self._view.machines
        if (cpu := self._mean(of, "cpu_util_pct", summed=True)) is not None:
            yield "cpu_cores", product(cpu, Measure(0.01, 0.0))
        if (memory := self._max(of, "mem_used_bytes")) is not None:
            yield "mem_bytes", memory
        disk = "io" if view.pods else "disk"
        net = view.pods_on_network or view.hosts
        for name, whose, column in (
            ("read_bytes", of, f"{disk}_read_bytes_per_s"),
            ("written_bytes", of, f"{disk}_write_bytes_per_s"),
            ("received_bytes", net, "net_rx_bytes_per_s"),
            ("sent_bytes", net, "net_tx_bytes_per_s"),
        ):
            # What a rate a second came to over a machine's life; while it is not known, it counts with its
            # mean.
            amounts = (
                mean * (machine.ticks.life[1] - machine.ticks.life[0]) / 1000
                for machine in whose
                if (mean := machine.ticks.mean(column)) is not None
            )
            total = sum_of_known(amounts)
            if total is not None and total >= _LEAST_BYTES:
                noise = relative_error(self._mean(whose, column, summed=True))
                yield name, Measure(total, None if noise is None else noise * total)

    def _timed(self, value: float, pace: float | None, ticks: int = 1) -> Measure:
        """Return what grows with the time that the run takes: with its pace, and to a tick."""
        return Measure(value, None if pace is None else hypot(value * pace, ticks * self._tick_s))

    def _mean(self, of: Sequence[GpuView | HostView], column: str, *, summed: bool = False) -> Measure | None:
        line = (total_of_known if summed else mean_of_known)(self._values(of, column))
        if not np.isfinite(line).any():
            return None
        return Measure(float(np.nanmean(line)), error_of_mean(self._blocks(line)))

    def _max(self, of: Sequence[GpuView | HostView], column: str) -> Measure | None:
        most = [value for part in of if (value := part.ticks.most(column)) is not None]
        if not most:
            return None
        values = self._values(of, column)
        highest = np.where(np.isfinite(values), values, -np.inf).max(axis=0)
        return Measure(max(most), error_of_max(self._blocks(np.where(highest > -np.inf, highest, np.nan))))

    def _values(self, of: Sequence[GpuView | HostView], column: str) -> Floats:
        view = self._view
        return aligned((part.ticks for part in of), column, view.first_ms, view.last_ms, self._step_ms)

    def _blocks(self, values: Floats) -> Floats:
        return blocks_of(values, None if self._period_s is None else self._period_s / self._tick_s)
