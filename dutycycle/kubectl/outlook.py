"""What a pod or job is going to do, by its annotations: its cycle, its level ahead, when memory is full.

Values that somebody else has spoilt are as if they were not there.
"""

from collections.abc import Iterator
from datetime import datetime

from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import Json
from sinks.annotations.core import keys

_FORECASTS = {
    "gpu_util_pct": ("GPU", output.format_percent),
    "gpu_mem_used_mb": ("GPU memory", output.format_megabytes),
    "mem_used_mb": ("memory", output.format_megabytes),
}
_FULL = {keys.GPU_MEM_FULL: "GPU memory", keys.MEM_FULL: "memory"}


def outlook(found: Json, now_ms: int) -> dict[str, str]:
    """``cycle``, ``forecast`` and ``full``, those that are known, as text."""
    lines = {
        "cycle": _cycle(found),
        "forecast": ", ".join(_forecasts(found.get(keys.LEVEL_FORECAST))),
        "full": ", ".join(_full(found, now_ms)),
    }
    return {name: text for name, text in lines.items() if text}


def _cycle(found: Json) -> str:
    period_s, sure = found.get(keys.CYCLE_PERIOD), found.get(keys.CYCLE_CONFIDENCE)
    if type(period_s) not in (int, float):
        return ""
    return f"{period_s:g}s" + (f", {100 * sure:.0f}% sure" if isinstance(sure, int | float) else "")


def _forecasts(value: object) -> Iterator[str]:
    """Of each metric the farthest."""
    for name, (words, form) in _FORECASTS.items():
        ahead = value.get(name) if isinstance(value, dict) else None
        if isinstance(ahead, dict) and ahead:
            horizon, level = list(ahead.items())[-1]
            if type(level) in (int, float):
                yield f"{words} {form(level)} in {horizon}"


def _full(found: Json, now_ms: int) -> Iterator[str]:
    for key, words in _FULL.items():
        try:
            at_ms = datetime.fromisoformat(str(found.get(key))).timestamp() * 1000
        except ValueError:
            continue
        yield f"{words} in {output.format_age((at_ms - now_ms) / 1000)}"
