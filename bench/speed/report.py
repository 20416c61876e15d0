"""From figures to the page: medians, spreads, ratios within a round, tables and pictures."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

Rounds = Sequence[float]
"""A figure, once a round. Those of the same round were measured shortly after one another."""


def spread(values: Rounds) -> str:
    """The least and the largest of several."""
    return "" if len(values) < 2 else f"{brief(min(values))} – {brief(max(values))}"


def brief(value: float) -> str:
    """Three digits, or all of those before the point."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(ours: Rounds, theirs: Rounds) -> float:
    """The median of the ratios within a round: what else runs on the machine then weighs on both."""
    return median(one / other for one, other in zip(ours, theirs, strict=True))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown; the first column is text, the others are figures."""
    if not rows:
        return "Not measured: the run was ended early."
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@dataclass
class Results:
    """All that was measured."""

    contenders: dict[str, list[float]] = field(default_factory=dict)
    """µs of CPU a sample, by who."""
    own: dict[str, tuple[str, list[float], str]] = field(default_factory=dict)
    """What is measured of ours alone: goal, values, unit."""
    nodes: dict[int, list[float]] = field(default_factory=dict)
    workers: dict[int, list[float]] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """How it was run, in words."""


def compared(contenders: Mapping[str, list[float]]) -> str:
    """Who takes what, and ours against each."""
    ours = next(iter(contenders), "")
    rows = [
        [name, brief(median(found)), spread(found), brief(ratio(contenders[ours], found))]
        for name, found in contenders.items()
    ]
    return table(["", "µs of CPU a sample", "least – largest", f"{ours} takes … times as much"], rows)


def alone(own: Mapping[str, tuple[str, list[float], str]]) -> str:
    """What is measured of ours alone."""
    rows = [
        [name, f"{brief(median(found))} {unit}", spread(found), goal]
        for name, (goal, found, unit) in own.items()
    ]
    return table(["", "median", "least – largest", "goal"], rows)


def scaling(name: str, curve: Mapping[int, list[float]]) -> str:
    """Cost by how many there are."""
    first = median(next(iter(curve.values()), [1.0]))
    rows = [
        [str(count), brief(median(found)), spread(found), f"{median(found) / first:.2f}"]
        for count, found in curve.items()
    ]
    return table([name, "µs of CPU a sample", "least – largest", "times the first"], rows)


def split(parts: Mapping[str, float]) -> str:
    """Where the time goes."""
    whole = sum(parts.values())
    rows = [
        [part, f"{us:.1f}", f"{us / whole:.0%}"]
        for part, us in sorted(parts.items(), key=lambda one: -one[1])
    ]
    return table(["part", "µs a record", "share"], rows)


def machine() -> str:
    """The processor, and the versions that matter."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    names = ("faust-streaming", "aiokafka", "numpy", "numba", "orjson", "msgspec")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return f"{len(os.sched_getaffinity(1))} cores of {model}; Python {platform.python_version()}, {versions}"


def bars(path: Path, figures: Mapping[str, Rounds], unit: str) -> None:
    """A bar for each, with the least and the largest."""
    figure = Figure(figsize=(7, 0.8 + 0.4 * len(figures)))
    axes = figure.subplots()
    middle = [median(found) for found in figures.values()]
    error = [
        [mid - min(found) for mid, found in zip(middle, figures.values(), strict=True)],
        [max(found) - mid for mid, found in zip(middle, figures.values(), strict=True)],
    ]
    axes.barh(list(figures), middle, xerr=error, color="#3b6ea5", ecolor="#555555")
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    _save(figure, path)


def curves(path: Path, results: Results) -> None:
    """Cost by nodes and by workers."""
    figure = Figure(figsize=(7, 2.8))
    pairs = zip(figure.subplots(1, 2), (("nodes", results.nodes), ("workers", results.workers)), strict=True)
    for axes, (name, curve) in pairs:
        axes.plot(list(curve), [median(found) for found in curve.values()], "o-", color="#3b6ea5")
        axes.set_xlabel(name)
        axes.set_ylim(bottom=0)
        axes.set_xticks(list(curve))
        axes.set_ylabel("µs of CPU a sample")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    FigureCanvasAgg(figure).print_figure(str(path), dpi=110, metadata={"Software": None})


def page(results: Results, template: str) -> str:
    """The page: the template with what was measured."""
    return template.format(
        **results.notes,
        machine=machine(),
        compared=compared(results.contenders),
        alone=alone(results.own),
        nodes=scaling("nodes", results.nodes),
        workers=scaling("workers", results.workers),
        parts=split(results.parts),
    )
