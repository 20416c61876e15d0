"""Says what a person should know is not well, the most urgent first."""

from collections.abc import Iterator, Sequence

from dutycycle.contract.health.verdict import rank
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, NodeRow, PodRow
from dutycycle.live.views.findings import full_in_s, is_held_down, sick_gpus, throttle_words
from dutycycle.live.views.spans import Line
from dutycycle.words import short_duration

_SOON_S = 3600.0


def warnings(state: LiveState, degraded: Sequence[str]) -> list[str]:
    """Return all warnings. ``degraded``: of the processes that measure and compute."""
    lines = [*health_warnings(state), *_of_subjects(state), *degraded]
    if state.dead_letters:
        lines.append(f"{state.dead_letters} records could not be used: see the topic dead-letters")
    if state.unreadable:
        lines.append(
            f"{state.unreadable} records could not be read: another version of dutycycle wrote them?"
        )
    return lines


def health_warnings(state: LiveState) -> Iterator[str]:
    """Yield GPUs that are not healthy, the worst first."""
    sick = [(rank(gpu.level), node, gpu) for node in state.health for gpu in sick_gpus(state, node)]
    for _, node, gpu in sorted(sick, key=lambda verdict: (-verdict[0], verdict[1], verdict[2].index)):
        yield f"GPU {node}:{gpu.index}: {gpu.level}: {gpu.reason}; {gpu.action}"


def _of_subjects(state: LiveState) -> Iterator[str]:
    gpus, nodes = state.gpus(), state.node_rows()
    # Nodes that nobody samples, and of the others the GPUs, without those whose health says why.
    silent_nodes = set()
    for node in nodes:
        if (silent_s := node.silent_s(state.now_ms)) is not None:
            silent_nodes.add(node.name)
            yield f"{node.name}: no sample for {short_duration(silent_s)}"
    for gpu in gpus:
        silent_s = gpu.silent_s(state.now_ms)
        if silent_s is None or gpu.node in silent_nodes:
            continue
        if not any(sick.index == gpu.now.index for sick in sick_gpus(state, gpu.node)):
            yield f"GPU {gpu.name}: no sample for {short_duration(silent_s)}"
    rows: list[GpuRow | NodeRow | PodRow] = [*nodes, *gpus, *(pod for pod in state.pods() if pod.gpus)]
    soon = [(full_s, row) for row in rows if (full_s := full_in_s(row)) is not None and full_s < _SOON_S]
    for full_s, row in sorted(soon, key=lambda forecast: forecast[0]):
        what = "GPU " if isinstance(row, GpuRow) else ""
        yield f"{what}{row.title}: memory full in {short_duration(full_s)}"
    for gpu in gpus:
        if is_held_down(gpu):
            by = throttle_words(gpu)
            at = "" if gpu.now.temp_c is None or "heat" not in by else f" at {gpu.now.temp_c:.0f} °C"
            yield f"GPU {gpu.name}: slowed by {by}{at}"


def warning_line(lines: Sequence[str]) -> Line:
    """Return the first one, and how many more there are."""
    if not lines:
        return [("no warnings", "dim")]
    more = f"  (and {len(lines) - 1} more: w)" if len(lines) > 1 else ""
    return [(f"! {lines[0]}", "warn"), (more, "dim")]
