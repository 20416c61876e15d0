"""From figures to the page: medians, spreads, ratios within a round, verdicts, tables and pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.speed.bench import brief
from bench.speed.figures import Figures
from bench.speed.goals import ROWS, Goal, ratio

Rounds = Sequence[float]
"""A figure, once a round. Those of the same round were measured shortly after one another."""
MISSING = "Not measured."
_HOW = (
    "peers",
    "left_out",
    "scaling",
    "live",
    "state",
    "replay",
    "collector",
    "postgres",
    "annotations",
    "web",
)
"""Measurements that say how they were made."""


def middle(values: Rounds) -> str:
    """The median, if there is any."""
    return brief(median(values)) if values else "–"


def spread(values: Rounds) -> str:
    """The least and the largest of several."""
    return "" if len(values) < 2 else f"{brief(min(values))} – {brief(max(values))}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown; the first column is text, the others are figures."""
    if not rows:
        return MISSING
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def goals(figures: Figures, rows: Sequence[Goal] = ROWS) -> str:
    """Every goal, and whether it is met."""
    return table(
        ["", "goal", "beyond", "measured", "least – largest", ""], [_goal(figures, row) for row in rows]
    )


def _goal(figures: Figures, row: Goal) -> list[str]:
    values, sign = row.values(figures), "≥" if row.at_least else "≤"
    bounds = ["" if bound is None else f"{sign} {brief(bound)}" for bound in (row.goal, row.beyond)]
    measured = f"{middle(values)} {row.unit}" if values else ""
    return [row.title, *bounds, measured, spread(values), row.verdict(values)]


def compared(contenders: Mapping[str, list[float]]) -> str:
    """Who takes what, and each of ours against each."""
    ours = [name for name in contenders if name.startswith("Dutycycle")]
    rows = [
        [
            name, brief(median(rounds)), spread(rounds),
            *(brief(median(ratio(contenders[own], rounds))) for own in ours),
        ]
        for name, rounds in contenders.items()
    ]  # fmt: skip
    times = [f"{name} takes … times as much" for name in ours]
    return table(["", "µs of CPU a sample", "least – largest", *times], rows)


def scaling(name: str, curve: Mapping[int, list[float]]) -> str:
    """Cost by how many there are."""
    first = median(next(iter(curve.values()), [1.0]))
    rows = [
        [str(count), brief(median(found)), spread(found), f"{median(found) / first:.2f}"]
        for count, found in curve.items()
    ]
    return table([name, "µs of CPU a sample", "least – largest", "times the first"], rows)


def curves(figures: Figures) -> dict[str, dict[int, list[float]]]:
    """Cost by nodes and by workers; with one worker it is the curve of nodes that says it."""
    found: dict[str, dict[int, list[float]]] = {
        name: {
            int(count): values for count, values in sorted(figures.of(f"scaling.{name}").items(), key=_number)
        }
        for name in ("nodes", "workers")
    }
    if found["workers"] and 50 in found["nodes"]:
        found["workers"] = {1: found["nodes"][50], **found["workers"]}
    return found


def _number(item: tuple[str, list[float]]) -> int:
    return int(item[0])


def split(parts: Mapping[str, list[float]]) -> str:
    """Where the time goes."""
    medians = {part: median(found) for part, found in parts.items()}
    whole = sum(medians.values())
    rows = [
        [part, f"{us:.1f}", f"{us / whole:.0%}"]
        for part, us in sorted(medians.items(), key=lambda one: -one[1])
    ]
    return table(["part", "µs a record", "share"], rows)


def beside(figures: Figures) -> str:
    """What was measured without a goal."""
    names = {
        "live.behind": ("samples that a worker was behind at the end of real time", ""),
        "live.p50_ms": ("sample to result, median", "ms"),
        "exact.cpu_us": ("stream worker, real time, without snapshots", "µs of CPU a sample"),
        "state.recovery_cpu_s": ("recovery with 1,000 nodes, CPU until the first sample", "s"),
        "state.recovered_mb": ("memory after the recovery", "MB"),
        "start.stream_cpu_s": ("`dutycycle stream`, CPU until its first sample", "s"),
        "start.figures_s": ("`dutycycle up`, start to its first figures", "s"),
        "collector.tick_ms": ("collector, median of a tick", "ms"),
        "postgres.cpu_us": ("peaks into PostgreSQL", "µs of CPU a record in the sink"),
        "web.first_cpu_s": ("page for browsers, the first, CPU of its process until then", "s"),
        "web.fleet_s": ("the fleet anew, in another color", "s"),
        "web.fleet_cpu_s": ("the same", "s of CPU"),
        "web.jobs_s": ("all jobs of 30 days", "s"),
        "web.usage_s": ("usage of 30 days by team", "s"),
        "web.gpu_s": ("a GPU with its week", "s"),
        "web.alone_pct": ("its process while no page is open", "% of a core"),
        "web.memory_most_mb": ("its memory at most", "MB"),
        "annotations.cpu_pct": ("annotations of 10,000 pods, to decide what is written", "% of a core"),
        "annotations.taken_per_s": ("annotations that one kube-apiserver takes", "PATCH/s"),
        "annotations.sink_ms": ("an annotation, in the sink", "ms of CPU"),
        "annotations.server_ms": ("an annotation, in API server and etcd", "ms of CPU"),
    }
    rows = [
        [title, f"{middle(figures.get(name))} {unit}", spread(figures.get(name))]
        for name, (title, unit) in names.items()
        if figures.get(name)
    ]
    return table(["", "median", "least – largest"], rows)


def imported(figures: Figures) -> str:
    """What a process imports, and what that takes."""
    memory = figures.of("imports.memory_mb")
    rows = [
        [f"`{module}`", f"{median(found):.2f} s", f"{median(memory[module]):.0f} MB"]
        for module, found in figures.of("imports.cpu_s").items()
    ]
    return table(["import, with all that it needs", "CPU", "resident"], rows)


def runs(figures: Figures) -> str:
    """When, on what and under what load each was measured."""
    rows = [
        [
            name, run.date, run.commit, run.machine.partition(";")[0],
            f"{run.load[0]:g} → {run.load[1]:g}", "quick" if run.quick else "full",
        ]
        for name, run in figures.runs.items()
    ]  # fmt: skip
    return table(["measurement", "at", "commit", "on", "load average", ""], rows)


def bars(path: Path, found: Mapping[str, Rounds], unit: str) -> None:
    """A bar for each, with the least and the largest."""
    figure = Figure(figsize=(7, 0.8 + 0.4 * len(found)))
    axes = figure.subplots()
    middles = [median(values) for values in found.values()]
    error = [
        [mid - min(values) for mid, values in zip(middles, found.values(), strict=True)],
        [max(values) - mid for mid, values in zip(middles, found.values(), strict=True)],
    ]
    axes.barh(list(found), middles, xerr=error, color="#3b6ea5", ecolor="#555555")
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    _save(figure, path)


def draw(path: Path, found: Mapping[str, Mapping[int, Rounds]]) -> None:
    """Cost by nodes and by workers."""
    figure = Figure(figsize=(7, 2.8))
    for axes, (name, curve) in zip(figure.subplots(1, len(found)), found.items(), strict=True):
        axes.plot(list(curve), [median(values) for values in curve.values()], "o-", color="#3b6ea5")
        axes.set_xlabel(name)
        axes.set_ylim(bottom=0)
        axes.set_xticks(list(curve))
        axes.set_ylabel("µs of CPU a sample")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    FigureCanvasAgg(figure).print_figure(str(path), dpi=110, metadata={"Software": None})


def page(figures: Figures, template: str) -> str:
    """The page: the template with what was measured."""
    found = curves(figures)
    machines = sorted({run.machine for run in figures.runs.values()})
    return template.format(
        machine="; ".join(machines),
        all_goals=goals(figures),
        by_contender=compared(figures.of("peers")),
        without_goal=beside(figures),
        by_nodes=scaling("nodes", found["nodes"]),
        by_workers=scaling("workers", found["workers"]),
        by_part=split(figures.of("replay.part")),
        imports=imported(figures),
        compile_s=middle(figures.get("imports.compile_s")),
        all_runs=runs(figures),
        **{name: figures.notes.get(f"{name}.how", MISSING) for name in _HOW},
    )


def write(figures: Figures, folder: Path) -> None:
    """Write the page and its pictures."""
    template = Path(__file__).with_name("performance.template.md").read_text()
    bars(folder / "pictures" / "speed_peers.png", figures.of("peers"), "µs of CPU a sample")
    draw(folder / "pictures" / "speed_scaling.png", curves(figures))
    (folder / "performance.md").write_text(page(figures, template))
