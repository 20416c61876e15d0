"""Reads what annotations say of what comes, and of what was decided: cycle, level, memory; scores of nodes;
trials.

Values that somebody else has spoilt are as if they were not there.
"""

from collections.abc import Iterator
from contextlib import suppress

from dutycycle.contract.units import unix_ms
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import Json
from sinks.annotations.core import keys

_FORECASTS = {
    "gpu_util_pct": ("GPU", output.format_percent),
    "gpu_mem_used_mb": ("GPU memory", output.format_megabytes),
    "mem_used_mb": ("memory", output.format_megabytes),
}
_FULL = {keys.GPU_MEM_FULL: "GPU memory", keys.MEM_FULL: "memory"}


def outlook(annotations: Json, now_ms: int) -> dict[str, str]:
    """Return ``cycle``, ``forecast`` and ``full`` as text, those that are known."""
    levels, forecasts, full = annotations.get(keys.LEVEL_FORECAST), [], []
    for name, (words, form) in _FORECASTS.items():
        ahead = levels.get(name) if isinstance(levels, dict) else None
        if isinstance(ahead, dict) and ahead:
            horizon, level = list(ahead.items())[-1]  # the farthest
            if type(level) in (int, float):
                forecasts.append(f"{words} {form(level)} in {horizon}")
    for key, words in _FULL.items():
        with suppress(ValueError):
            at_ms = unix_ms(str(annotations.get(key)))
            full.append(f"{words} in {output.format_age((at_ms - now_ms) / 1000)}")
    period_s, sure = annotations.get(keys.CYCLE_PERIOD), annotations.get(keys.CYCLE_CONFIDENCE)
    cycle = ""
    if type(period_s) in (int, float):
        cycle = f"{period_s:g}s" + (f", {100 * sure:.0f}% sure" if isinstance(sure, int | float) else "")
        steps = annotations.get(keys.CYCLE_STEPS)
        if annotations.get(keys.CYCLE_SOURCE) is not None:
            cycle += ", as the training reports"
        elif isinstance(steps, int | float) and steps != 1:
            cycle += f", {steps:g} steps"
    lines = {"cycle": cycle, "forecast": ", ".join(forecasts), "full": ", ".join(full)}
    return {name: text for name, text in lines.items() if text}


def placement(annotations: Json, node: str | None) -> Iterator[tuple[str, str]]:
    """Name and text of each line about where the pod is to run: what it is expected to need, and the scores
    of the best nodes; ``node`` is its own."""
    placement = annotations.get(keys.PLACEMENT)
    if isinstance(placement, dict):
        yield "expected", str(placement.get("expected", "not known: no pod like it has ended"))
        listed = placement.get("nodes")
        nodes = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        left_out = placement.get("left_out")
        lacking = f", {left_out} left out for want of GPU memory" if left_out else ""
        yield "nodes", f"the best {len(nodes)} of {placement.get('considered', '?')}, scores of 10{lacking}"
        for entry in nodes:
            here = " (it is here)" if entry.get("node") == node else ""
            yield "", f"{entry.get('score')} {entry.get('node')}{here}: {entry.get('why')}"
        if node is not None and nodes and all(entry.get("node") != node for entry in nodes):
            yield "", f"it is on {node}: the scheduler weighs more than these scores"


def trials(annotations: Json) -> Iterator[tuple[str, str]]:
    """Name and text of each line about the trials of a job: the best, and the figures of each."""
    best, figures = annotations.get(keys.TRIAL_BEST), annotations.get(keys.TRIAL_FIGURES)
    if isinstance(figures, dict):
        yield "trials", f"best: {best}" if isinstance(best, str) else "which is best is not known"
        for name, text in figures.items():
            yield "", f"{name}: {text}"
