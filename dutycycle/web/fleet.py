"""Makes the grid of all GPUs: a square each, in a color for one thing that is asked of them."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from dutycycle.contract.health.changes import HEARD_OF_MS
from dutycycle.contract.health.verdict import rank
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, PodRow, Value
from dutycycle.live.views.findings import activity, silence_words
from dutycycle.live.views.spans import IDLE_PCT
from dutycycle.live.views.tables.gpus import owners
from dutycycle.words import UNKNOWN, short_duration

Use = Literal["busy", "idle", "free", "unknown", "silent"]
STATES: tuple[Use, ...] = ("busy", "idle", "free", "unknown", "silent")
"""``idle``: somebody has it, and no kernel runs. ``free``: nobody has it; ``unknown`` where nothing tells who
has it, too."""
_SHADES = 5
_ALIKE, _NAMED = 3, 3
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_COOL_C, _HOT_C = 30.0, 90.0


@dataclass(frozen=True, slots=True)
class Square:
    """Shows one GPU in the grid. ``link``: to its page; ``text``: its figure; ``shade``: 0 to 4, None where
    that is not known."""

    link: str
    text: str
    title: str
    shade: int | None


@dataclass(frozen=True, slots=True)
class GridFilter:
    """Says which GPUs are shown; empty for all. ``state``: one of ``STATES``."""

    model: str = ""
    node: str = ""
    namespace: str = ""
    state: str = ""
    pool: str = ""


def _percent(value: Value) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def _share(used: Value, of: Value) -> Value:
    return None if used is None or not of else min(100.0, 100 * used / of)


def _warmth(row: GpuRow, _: LiveState) -> tuple[Value, str]:
    now = row.now.temp_c
    share = None if now is None else 100 * (now - _COOL_C) / (_HOT_C - _COOL_C)
    return share, _percent(now)


def _health(row: GpuRow, state: LiveState) -> tuple[Value, str]:
    """Grade from 0 for healthy; unknown where nobody looked, or not for long."""
    health = state.health.get(row.node)
    gpus = health.gpus if health is not None else ()
    verdict = next((gpu for gpu in gpus if gpu.index == row.now.index), None)
    if verdict is None or state.now_ms - verdict.seen_ms > HEARD_OF_MS:
        return None, UNKNOWN
    return 25.0 * rank(verdict.level), verdict.level[:2]


def _age(row: GpuRow, state: LiveState) -> tuple[Value, str]:
    """Count in ticks of the node: 4 and more are late."""
    age_s = max(0, state.now_ms - row.seen_ms) / 1000
    return min(100.0, 20 * age_s / (row.interval_ms / 1000)), short_duration(age_s)


def _of(value: Callable[[GpuRow], Value]) -> Callable[[GpuRow, LiveState], tuple[Value, str]]:
    return lambda row, _: (value(row), _percent(value(row)))


COLORS: Mapping[str, tuple[str, Callable[[GpuRow, LiveState], tuple[Value, str]]]] = {
    "use": ("use, %", _of(lambda row: row.now.gpu_util_pct)),
    "sm": ("SM activity, %", _of(lambda row: row.now.sm_active_pct)),
    "tensor": ("tensor activity, %", _of(lambda row: row.now.tensor_active_pct)),
    "memory": ("memory, %", _of(lambda row: _share(row.now.mem_used_bytes, row.now.mem_total_bytes))),
    "power": ("power, % of its limit", _of(lambda row: _share(row.now.power_w, row.now.power_limit_w))),
    "heat": ("heat, °C", _warmth),
    "health": ("health", _health),
    "age": ("age of the figures", _age),
}
"""By name: what it is called, and of a GPU 0 to 100 with the text in its square."""


def use_of(row: GpuRow, state: LiveState) -> Use:
    """Tell in which of ``STATES`` a GPU is."""
    if row.is_silent:
        return "silent"
    if row.now.gpu_util_pct is None:
        return "unknown"
    if row.now.gpu_util_pct >= IDLE_PCT:
        return "busy"
    if row.pods or row.processes:
        return "idle"
    return "unknown" if row.now.allocated is None and row.now.processes is None else "free"


def shown_gpus(
    state: LiveState, gpus: Collection[GpuRow], chosen: GridFilter, pools: Mapping[str, str]
) -> list[GpuRow]:
    """List the GPUs that the filter leaves, in their order. ``pools``: by node, of those that are known."""
    wanted = chosen.namespace
    of_namespace = {pod.uid for pod in state.pods() if pod.namespace == wanted} if wanted else set()
    return [
        row
        for row in gpus
        if chosen.model in ("", row.now.model)
        and chosen.node in ("", row.node)
        and chosen.pool in ("", pools.get(row.node))
        and (not chosen.namespace or row.pods & of_namespace)
        and chosen.state in ("", use_of(row, state))
    ]


def squares(state: LiveState, gpus: Collection[GpuRow], color: str) -> dict[str, list[Square]]:
    """Make the squares, by node, in the order of ``gpus``."""
    figure = COLORS[color][1]
    by_node: dict[str, list[Square]] = {}
    for row in gpus:
        value, text = figure(row, state)
        use = silence_words(state, row) or activity(state, row)
        title = ", ".join(filter(None, (row.name, row.now.model or "", owners(state, row), use)))
        shade = None if value is None else max(0, min(int(value / 100 * _SHADES), _SHADES - 1))
        link = f"subject?{urlencode({'key': row.key})}"
        by_node.setdefault(row.node, []).append(Square(link, text, title, shade))
    return by_node


def counts(state: LiveState, gpus: Collection[GpuRow]) -> dict[Use, int]:
    """Count the GPUs in each state."""
    uses = Counter(use_of(row, state) for row in gpus)
    return {name: uses[name] for name in STATES}


def joined_warnings(lines: Sequence[str]) -> list[str]:
    """Say once what more than ``_ALIKE`` subjects have alike, but for its numbers, where the first of them
    stands."""
    alike: dict[str, list[str]] = {}
    for line in lines:
        alike.setdefault(_NUMBER.sub("0", line.partition(": ")[2]) or line, []).append(line)
    joined = []
    for first, *others in alike.values():
        if len(others) < _ALIKE:
            joined += [first, *others]
            continue
        names = [line.partition(": ")[0].removeprefix("GPU ") for line in others]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        joined.append(f"{first}; so or alike {', '.join(names[:_NAMED])}{more}")
    return joined


def choices(state: LiveState, gpus: Collection[GpuRow], pools: Mapping[str, str]) -> dict[str, list[str]]:
    """List what can be chosen of models, nodes and namespaces, and of pools where any is known."""
    held = frozenset[str]().union(*(row.pods for row in gpus))
    pods = [row for row in state.rows.values() if isinstance(row, PodRow) and row.uid in held]
    return {
        "model": sorted({row.now.model for row in gpus if row.now.model}),
        "node": sorted({row.node for row in gpus}),
        "namespace": sorted({pod.namespace for pod in pods} - {""}),
    } | ({"pool": sorted({pools[row.node] for row in gpus if row.node in pools})} if pools else {})
