"""Says the figures of a report in words and numbers: what it took, what it cost, what holds it back."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

import numpy as np

from dutycycle.contract.metering import joules_of_tick
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.tensor_peak import peak_mhz
from dutycycle.contract.units import JOULES_PER_KWH, sum_of_known, weighted_mean
from dutycycle.report.charts.cycles import SeriesCycles, cycles_of
from dutycycle.report.gather import Gathered, Plain
from dutycycle.report.view import GpuView, HostView, View, insights_of
from dutycycle.traces.frames import Floats, FrameTicks, at_once, between_known
from dutycycle.traces.processes import TracedProcess, figures, most_steps, named
from dutycycle.words import bytes_text, decimal_bytes, evidence_figures, kind_words, short_duration

_S_PER_HOUR = 3600.0
_IDLE_PCT = 1.0
_OF_SLICES = {
    "utilization": "gpu_util_pct", "SM": "sm_active_pct", "tensor cores": "tensor_active_pct",
    "memory": "dram_active_pct",
}  # fmt: skip
"""What the slices of a GPU tell, and the GPU itself does not."""
_NEGLIGIBLE = 0.005
"""The share of GPU time of which a figure may be unknown without a word."""
_SAY_LITTLE = frozenset({"unknown", "idle", "loading"})
"""Of a verdict: what may hold for a while of anything that works."""
_SOON_MS = 60_000
_AFTER_MS = 10_000
"""What ends a job is heard of when its last tick is over."""
_CYCLIC = (
    ("gpu_util_pct", "GPU utilization"),
    ("gpu_mem_used_bytes", "GPU memory"),
    ("power_w", "GPU power"),
    ("cpu_util_pct", "CPU"),
    ("mem_used_bytes", "memory"),
)


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Holds what one GPU did. Percent, seconds, joules, bytes; None for what was not measured."""

    name: str
    node: str
    model: str | None
    seconds: float
    known_s: float
    """Counts those of its seconds of which the utilization is known."""
    busy_s: float | None
    working_s: float | None
    """Of the busy time, that in which it worked and did not wait (``contract.records.hours``)."""
    judged_s: float
    """Counts those of its seconds of which it is known whether it worked."""
    idle_s: float | None
    untouched_s: float | None
    """Of the idle time, that in which pods held it and no process was on it; None where none are seen."""
    energy_j: float | None
    metered_s: float
    """Counts those of its seconds of which the energy is known."""
    util_mean: float | None
    util_max: float | None
    sm_mean: float | None
    tensor_mean: float | None
    dram_mean: float | None
    of_peak_mean: float | None
    """Tensor use of peak."""
    mem_copy_max: float | None
    mem_max: float | None
    mem_total: float | None
    power_mean: float | None
    power_max: float | None
    temp_max: float | None
    throttled: dict[str, float] | None
    """Of each reason the share of the ticks in which the driver gave it, in percent; None where the source
    does not tell reasons."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says what a pod or job is, and what holds it back: of the insights that say most, the
    longest-lasting."""

    name: str
    insight: Plain
    seconds: float
    anomalies: tuple[Plain, ...] = ()
    """Every one that was told, once."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Holds everything that is said of a view."""

    duration_s: float
    gpus: list[GpuUse]
    verdicts: list[Verdict]
    cycles: list[tuple[str, SeriesCycles]]
    """What of a subject, and its cycle."""
    cost: float | None
    idle_cost: float | None
    processes: list[TracedProcess] = field(default_factory=list)
    incidents: list[tuple[int, str]] = field(default_factory=list)
    """What happened to its GPUs: when, and in words."""
    is_cost_part: bool = False
    """Is set where something that has a price is not in the cost."""

    def total(self, name: str) -> float | None:
        """Return the sum of a figure over the GPUs; None where no GPU has it."""
        return sum_of_known(getattr(gpu, name) for gpu in self.gpus)

    @property
    def is_metered(self) -> bool:
        """Tell whether the energy is that of all GPU time."""
        return not _of_known(*_metered(self.gpus))

    @property
    def util_mean(self) -> float | None:
        """Return the mean utilization over the GPUs, each for as long as it is known."""
        return weighted_mean((gpu.util_mean, gpu.known_s) for gpu in self.gpus)


def facts_of(gathered: Gathered, view: View, settings: Settings) -> Facts:
    """Work them out; ``settings`` has the prices."""
    gpus = [_use(gathered, gpu) for gpu in view.gpus]
    # As far as it is known: what the GPUs' time and energy cost, and the time in which they did nothing
    hour, kwh = settings.price_gpu_hour, settings.price_kwh
    of_time = None if hour is None or not gpus else hour * sum(gpu.seconds for gpu in gpus) / _S_PER_HOUR
    joules = None if kwh is None else sum_of_known(gpu.energy_j for gpu in gpus)
    of_energy = None if kwh is None or joules is None else kwh * joules / JOULES_PER_KWH
    idle_s = None if hour is None else sum_of_known(gpu.idle_s for gpu in gpus)
    idle_cost = None if hour is None or idle_s is None else hour * idle_s / _S_PER_HOUR
    chosen = {key.removeprefix("pod/") for key in view.subjects}
    names = {uid: pod.name for uid, pod in gathered.identities.items()}
    processes = named(gathered.processes.values(), chosen or None, names)
    step_ms = max((part.ticks.step_ms for part in view.parts), default=0)
    return Facts(
        duration_s=(view.last_ms - view.first_ms + step_ms) / 1000,
        gpus=gpus,
        verdicts=_verdicts(gathered, view),
        cycles=[(what, cycle) for metric, what in _CYCLIC for cycle in cycles_of(gathered, view, metric)],
        cost=sum_of_known((of_time, of_energy)),
        idle_cost=idle_cost,
        processes=processes,
        incidents=list(_incidents(gathered, view)),
        is_cost_part=kwh is not None and bool(_of_known(*_metered(gpus))),
    )


def _incidents(gathered: Gathered, view: View) -> Iterator[tuple[int, str]]:
    """Yield events that hit a pod of the view; where no pod is known of, those on its GPUs meanwhile."""
    names = {(gpu.traced.node, gpu.traced.uuid): gpu.name for gpu in view.gpus}
    for event in gathered.gpu_events:
        hit = [pod for pod in event.pods or () if f"pod/{pod.uid}" in view.subjects]
        name = names.get((event.node, event.gpu))
        meanwhile = name is not None and view.first_ms <= event.ts_ms <= view.last_ms + _AFTER_MS
        if hit or (not event.pods and meanwhile):
            whose = [f"{pod.name or pod.uid}{_ended_after(gathered, pod.uid, event.ts_ms)}" for pod in hit]
            pods = f", used by {', '.join(whose)}" if hit else ""
            times = f" ({event.count} times)" if event.kind == "xid" and event.count > 1 else ""
            what = f"{event.name}{times} on {name or f'{event.node} gpu {event.index}'}{pods}"
            yield event.ts_ms, f"{what}: {event.action}" if event.action else what


def _ended_after(gathered: Gathered, uid: str, ts_ms: int) -> str:
    """Say that a pod ended within a minute after a fault of its GPU, as its own record has it; the moment is
    that of the record, or when it was last seen on a GPU."""
    pod = gathered.identities.get(uid)
    if pod is None or not pod.finished:
        return ""
    spans = (gpu.users[uid] for gpu in gathered.gpus.values() if uid in gpu.users)
    last_ms = pod.finished_ms or max((last for _, last in spans), default=0)
    if not -_AFTER_MS <= last_ms - ts_ms <= _SOON_MS:
        return ""
    return f" (ended {max(last_ms - ts_ms, 0) / 1000:.0f} s later: {pod.phase.lower()})"


def _use(gathered: Gathered, gpu: GpuView) -> GpuUse:
    ticks, traced = gpu.ticks, gpu.traced
    lasted = ticks.lasted_s
    util = ticks["gpu_util_pct"]
    working = ticks["working_pct"]
    known, judged = np.isfinite(util), np.isfinite(working)
    untouched = ticks["untouched"]
    energy_j, metered_s = _energy_of(gpu)
    codes = ticks["throttle"][np.isfinite(ticks["throttle"])].astype(int)
    throttled: dict[str, float] = {}
    for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
        for name in gathered.throttles[code]:
            throttled[name] = throttled.get(name, 0.0) + 100 * float(count) / len(codes)
    return GpuUse(
        name=gpu.name,
        node=traced.node,
        model=traced.model,
        seconds=float(lasted.sum()),
        known_s=float(lasted[known].sum()),
        busy_s=float((util * lasted)[known].sum() / 100) if known.any() else None,
        working_s=float((working * lasted)[judged].sum() / 100) if judged.any() else None,
        judged_s=float(lasted[judged].sum()),
        idle_s=float(lasted[known & (util < _IDLE_PCT)].sum()) if known.any() else None,
        untouched_s=(float(lasted[untouched == 1].sum()) if np.isfinite(untouched).any() else None),
        energy_j=energy_j,
        metered_s=metered_s,
        util_mean=ticks.mean("gpu_util_pct"),
        util_max=ticks.most("gpu_util_high_pct"),
        sm_mean=ticks.mean("sm_active_pct"),
        tensor_mean=ticks.mean("tensor_active_pct"),
        dram_mean=ticks.mean("dram_active_pct"),
        of_peak_mean=ticks.mean_of(of_peak(ticks, traced.model)),
        mem_copy_max=ticks.most("mem_copy_util_pct"),
        mem_max=ticks.most("mem_used_bytes"),
        mem_total=traced.mem_total_bytes,
        power_mean=ticks.mean("power_w"),
        power_max=ticks.most("power_high_w"),
        temp_max=ticks.most("temp_c"),
        throttled=throttled if len(codes) else None,
    )


def _energy_of(gpu: GpuView) -> tuple[float | None, float]:
    """Return the energy of a GPU's ticks in the view, counted as in the ledger, None where nothing measured
    it; and of how many seconds it is. Between them the counter goes on, for others; while it cannot be read,
    too, so that it is of all from when it is read first to when it is read last."""
    whole = gpu.traced.frame.between(int(gpu.ticks.times[0]), int(gpu.ticks.times[-1]))
    energy_j: float | None = None
    carried = (nan, 0.0, 0.0, nan, 0.0)
    of_view = np.isin(whole.times, gpu.ticks.times)
    for counter_j, power_w, seconds, counts in zip(
        whole["energy_j"].tolist(), whole["power_w"].tolist(), whole.lasted_s.tolist(), of_view.tolist(),
        strict=True,
    ):  # fmt: skip
        joules, *rest = joules_of_tick(counter_j, power_w, seconds, *carried)
        carried = (rest[0], rest[1], rest[2], rest[3], rest[4])
        if counts and not isnan(joules):
            energy_j = (energy_j or 0.0) + joules
    is_metered = np.isfinite(whole["power_w"]) | between_known(whole["energy_j"] > 0)
    return energy_j, 0.0 if energy_j is None else float(gpu.ticks.lasted_s[is_metered[of_view]].sum())


def of_peak(ticks: FrameTicks, model: str | None) -> Floats:
    """Give the tensor use of peak of each tick; NaN where it, or the peak of the model, is not known."""
    return ticks["tensor_active_pct"] * ticks["sm_clock_mhz"] / (peak_mhz(model) or np.nan)


def _verdicts(gathered: Gathered, view: View) -> list[Verdict]:
    """Return verdicts, a job's before its pods'; those that tell neither kind nor bottleneck come last."""
    unknown = ("unknown", "unknown")
    verdicts = []
    for key, insights in insights_of(gathered, view).items():
        lasted: dict[tuple[str, str], float] = {}
        newest: dict[tuple[str, str], Plain] = {}
        ends = [insight["ts_ms"] for insight in insights[1:]] + [view.last_ms]
        for number, (insight, end_ms) in enumerate(zip(insights, ends, strict=True)):
            what = insight["kind"], insight["bottleneck"]
            begin_ms = max(insight["since_ms"] if number == 0 else insight["ts_ms"], view.first_ms)
            lasted[what] = lasted.get(what, 0.0) + max(min(end_ms, view.last_ms) - begin_ms, 0) / 1000
            newest[what] = insight
        # What holds back something of unknown kind is worth as much as a kind of which that is unknown,
        # however long neither was known.
        best = max(lasted, key=lambda what: (len({*what} - _SAY_LITTLE), what != unknown, lasted[what]))
        every = [of for insight in insights for of in insight.get("anomalies", ())]
        odd = {(of["kind"], of.get("pod"), of.get("gpu"), of["since_ms"]): of for of in every}
        anomalies = tuple(sorted(odd.values(), key=lambda of: (of["since_ms"], of["kind"])))
        verdicts.append(Verdict(view.subjects[key], newest[best], lasted[best], anomalies))
    verdicts.sort(key=lambda verdict: (verdict.insight["kind"], verdict.insight["bottleneck"]) == unknown)
    return verdicts


def headline(facts: Facts) -> tuple[str, str]:
    """Return what it is and what holds it back, in one line, and the advice; empty where nothing is known."""
    if not facts.verdicts:
        return "", ""
    insight = facts.verdicts[0].insight
    kind, bottleneck = insight["kind"], insight["bottleneck"]
    held = {
        "unknown": "what holds it back is not known",
        "none": "nothing holds it back but its demand",
        "idle": "no GPU is used",
    }.get(bottleneck, f"held back by: {bottleneck.replace('_', ' ')}")
    return f"{kind_words(kind, insight['confidence'])}; {held}", insight.get("advice", "")


def anomalies_of(verdict: Verdict) -> list[tuple[int, str]]:
    """Return what was odd about it, in words, and since when, the first first."""
    return [
        (anomaly["since_ms"], f"{anomaly['kind'].replace('_', ' ')}: {anomaly.get('advice', '')}")
        for anomaly in verdict.anomalies
    ]


def evidence_of(verdict: Verdict) -> list[tuple[str, str]]:
    """Return the figures that a verdict rests on, for people."""
    return evidence_figures(verdict.insight["evidence"])


def key_figures(facts: Facts, view: View) -> Iterator[tuple[str, str]]:
    """Name and value of what a reader looks for first."""
    yield "Duration", short_duration(facts.duration_s)
    if facts.gpus:
        models = Counter(gpu.model or "GPU" for gpu in facts.gpus)
        yield "GPUs", ", ".join(f"{count} × {model}" for model, count in models.items())
        seconds, busy = facts.total("seconds") or 0.0, facts.total("busy_s")
        known = _of_known(sum(gpu.known_s for gpu in facts.gpus), seconds)
        yield (
            "GPU time",
            seconds_text(seconds) + ("" if busy is None else f", busy {seconds_text(busy)}{known}"),
        )
        if (working := facts.total("working_s")) is not None:
            judged = _of_known(sum(gpu.judged_s for gpu in facts.gpus), seconds)
            yield "Working, of the busy time", f"{seconds_text(working)}{judged}"
        if untouched := facts.total("untouched_s"):
            yield "Held without a process", seconds_text(untouched)
        if (energy := facts.total("energy_j")) is not None:
            yield "GPU energy", joules_text(energy) + _of_known(*_metered(facts.gpus))
        high = max((gpu.util_max for gpu in facts.gpus if gpu.util_max is not None), default=None)
        if facts.util_mean is not None and high is not None:
            yield "GPU utilization", f"mean {facts.util_mean:.1f} %, max {high:.0f} %"
        yield from _inside(facts.gpus, view.slices)
        means = sorted((gpu.util_mean, gpu.name) for gpu in facts.gpus if gpu.util_mean is not None)
        if len(means) > 1:
            (least, least_busy), (most, busiest) = means[0], means[-1]
            yield "Between GPUs", f"mean {least:.1f} % ({least_busy}) to {most:.1f} % ({busiest})"
        held = [gpu for gpu in facts.gpus if gpu.mem_max is not None]
        if held:
            fullest = max(held, key=lambda gpu: gpu.mem_max or 0)
            total = f" of {bytes_text(fullest.mem_total)}" if fullest.mem_total else ""
            yield "GPU memory, max of one", bytes_text(fullest.mem_max or 0) + total
    yield from _machine_figures(view)
    if facts.cycles:
        _, cycle = facts.cycles[0]
        yield "Cycle", f"{cycle} ({cycle.name})"
    steps = most_steps(facts.processes)
    mine = [
        (what, cycle) for what, cycle in facts.cycles if steps is not None and steps[0].pod_uid in cycle.pods
    ]
    yield from figures(facts.processes, (mine[0][0], mine[0][1].periods[0].period_s) if mine else None)
    if facts.cost is not None:
        idle = f", idle {facts.idle_cost:.2f}" if facts.idle_cost else ""
        yield "Cost", f"{'≥ ' if facts.is_cost_part else ''}{facts.cost:.2f}{idle}"


def _metered(gpus: Sequence[GpuUse]) -> tuple[float, float]:
    """Return the GPU time of which the energy is known, and all, in seconds."""
    return sum(gpu.metered_s for gpu in gpus), sum(gpu.seconds for gpu in gpus)


def _of_known(known_s: float, seconds: float) -> str:
    is_all = known_s >= (1 - _NEGLIGIBLE) * seconds
    return "" if is_all else f" of {seconds_text(known_s)} of which that is known"


def _inside(gpus: Sequence[GpuUse], slices: Sequence[FrameTicks]) -> Iterator[tuple[str, str]]:
    """Yield what the GPUs and MIG slices do while they are in use, where they tell."""
    parts = []
    for name, figure in (("SM", "sm_mean"), ("tensor cores", "tensor_mean"), ("memory", "dram_mean")):
        if (mean := weighted_mean((getattr(gpu, figure), gpu.seconds) for gpu in gpus)) is not None:
            parts.append(f"{name} {mean:.0f} %")
    if parts:
        yield "Inside the GPUs", f"{', '.join(parts)} (means)"
    if (share := weighted_mean((gpu.of_peak_mean, gpu.seconds) for gpu in gpus)) is not None:
        yield "Tensor use of peak", f"{share:.0f} % (by activity and clock; padding counts, so it is no MFU)"
    of_slices = {
        word: weighted_mean((ticks.mean(name), float(ticks.lasted_s.sum())) for ticks in slices)
        for word, name in _OF_SLICES.items()
    }
    if parts := [f"{word} {mean:.0f} %" for word, mean in of_slices.items() if mean is not None]:
        yield "MIG slices", f"{', '.join(parts)} (means)"


def _machine_figures(view: View) -> Iterator[tuple[str, str]]:
    def each(machines: Iterable[HostView], name: str, how: str) -> list[float]:
        return [value for machine in machines if (value := getattr(machine.ticks, how)(name)) is not None]

    of = view.machines
    whose = "" if view.pods else " of the machine" if len(of) == 1 else " of the machines"
    # A machine counts with its mean from its first value to its last, also while it is not known.
    lives = []
    for ticks in (machine.ticks for machine in of):
        if (mean := ticks.mean("cpu_util_pct")) is not None:
            times = ticks.times[np.isfinite(ticks["cpu_util_pct"])].tolist()
            lives.append((times[0] - max(ticks.step_ms, 1), times[-1], mean / 100))
    if (cores := at_once(lives)) is not None:
        p95, most = (max(each(of, "cpu_util_pct", how)) / 100 for how in ("p95", "most"))
        of_one = " of one" if len(of) > 1 else ""
        yield f"CPU{whose}", f"mean {cores:.2f} cores, p95 {p95:.2f}, max {most:.2f}{of_one}"
    if memory := each(of, "mem_used_bytes", "most"):
        yield f"Host memory{whose}, max" + (" of one" if len(of) > 1 else ""), bytes_text(max(memory))
    prefix = "io" if view.pods else "disk"
    read, written = (each(of, f"{prefix}_{way}_bytes_per_s", "total") for way in ("read", "write"))
    if read or written:
        yield f"Disk{whose}", f"read {decimal_bytes(sum(read))}, written {decimal_bytes(sum(written))}"
    net = view.pods_on_network
    whose = "" if net else " of the machine" if len(view.hosts) == 1 else " of the machines"
    rx, tx = (each(net or view.hosts, f"net_{way}_bytes_per_s", "total") for way in ("rx", "tx"))
    if rx or tx:
        yield f"Network{whose}", f"received {decimal_bytes(sum(rx))}, sent {decimal_bytes(sum(tx))}"


def seconds_text(seconds: float) -> str:
    """Return GPU-seconds as text, and from some hours on GPU-hours."""
    return f"{seconds:.0f} GPU-s" if seconds < 2 * _S_PER_HOUR else f"{seconds / _S_PER_HOUR:.2f} GPU-h"


def joules_text(joules: float) -> str:
    """Return joules as text, and from a tenth of a kilowatt hour on that, too."""
    if joules < 1e4:
        return f"{joules:.0f} J"
    if joules < JOULES_PER_KWH / 10:
        return f"{joules / 1e3:.1f} kJ"
    return f"{joules / 1e6:.2f} MJ ({joules / JOULES_PER_KWH:.2f} kWh)"
