"""Draws charts of blocks: a history with its forecast, and one cycle folded over its period. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isnan, nan

from dutycycle.contract.records.derived import Forecast
from dutycycle.live.views.spans import Line, Style
from dutycycle.words import short_duration

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LABEL = 7
"""Cells before the chart for the figures of its axis."""
_BAND, _EXPECTED = "░", "▄"
_NEAR = 1
"""Cells on each side of a horizon that are drawn, too."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Holds the scale of a chart: its height in lines, its largest value, and how a value is written beside
    it."""

    height: int
    top: float
    unit: str = "%"

    def label(self, line: int) -> str:
        """Return the label beside the first and the last line; spaces beside others."""
        if line not in (0, self.height - 1):
            return " " * _LABEL
        value = self.top if line == 0 else 0.0
        return f"{value:.0f} {self.unit}".rjust(_LABEL - 1) + " "


def bucketed(
    times: Sequence[int], values: Sequence[float], begin_ms: float, cell_ms: float, cells: int
) -> list[float]:
    """Return the mean in each cell of time; a cell without a tick has that of the cell before it, once."""
    sums, counts = [0.0] * cells, [0] * cells
    for ts_ms, value in zip(times, values, strict=True):
        at = int((ts_ms - begin_ms) // cell_ms)
        if 0 <= at < cells and not isnan(value):
            sums[at] += value
            counts[at] += 1
    means = [total / count if count else nan for total, count in zip(sums, counts, strict=True)]
    return [
        means[at - 1] if isnan(value) and at and not isnan(means[at - 1]) else value
        for at, value in enumerate(means)
    ]


def fold(times: Sequence[int], values: Sequence[float], period_s: float, bins: int) -> list[float]:
    """Return the mean at each phase of a cycle. It begins where the values climb most: so a step is in one
    piece."""
    sums, counts = [0.0] * bins, [0] * bins
    for ts_ms, value in zip(times, values, strict=True):
        if not isnan(value):
            at = int(ts_ms / 1000 % period_s / period_s * bins) % bins
            sums[at] += value
            counts[at] += 1
    means = [total / count if count else nan for total, count in zip(sums, counts, strict=True)]
    known = [at for at, value in enumerate(means) if not isnan(value)]
    if not known:
        return means
    climbs = {at: means[at] - means[known[place - 1]] for place, at in enumerate(known)}
    begin = max(climbs, key=lambda at: climbs[at])
    return means[begin:] + means[:begin]


def columns(values: Sequence[float], scale: Scale, style: Style) -> list[Line]:
    """Draw bars from the bottom, one a cell, with the axis at the left."""
    lines: list[Line] = []
    for line in range(scale.height):
        low, size = scale.top * (scale.height - 1 - line) / scale.height, scale.top / scale.height
        text = "".join(
            " " if isnan(value) or size <= 0 else _BLOCKS[max(0, min(ceil((value - low) / size * 8), 8))]
            for value in values
        )
        lines.append([(scale.label(line), "dim"), (text, style)])
    return lines


@dataclass(frozen=True, slots=True)
class ForecastCells:
    """Holds what is expected ``cells`` after now, each ``cell_s`` long.

    Of what repeats only the horizons are shown: between two of them it goes up and down.
    """

    level: float
    forecast: Sequence[Forecast]
    cell_s: float
    cells: int
    repeats: bool = False

    def shown(self, cell: int) -> tuple[float, float, float] | None:
        """Return (5 %, expected, 95 %) of a cell, None where nothing is drawn."""
        if not self.repeats:
            return self.at(cell)
        ends = ((min(int(point.horizon_s / self.cell_s), self.cells - 1), point) for point in self.forecast)
        return next(
            ((point.p05, point.value, point.p95) for end, point in ends if abs(end - cell) <= _NEAR), None
        )

    def at(self, cell: int) -> tuple[float, float, float]:
        """Return (5 %, expected, 95 %) at a cell: between the horizons on a straight line."""
        after_s = (cell + 1) * self.cell_s
        before = (0.0, self.level, self.level, self.level)
        for forecast in self.forecast:
            point = (forecast.horizon_s, forecast.p05, forecast.value, forecast.p95)
            if after_s <= forecast.horizon_s:
                share = (after_s - before[0]) / (point[0] - before[0])
                low, value, high = (a + share * (b - a) for a, b in zip(before[1:], point[1:], strict=True))
                return low, value, high
            before = point
        return before[1], before[2], before[3]


def with_fan(values: Sequence[float], fan: ForecastCells | None, scale: Scale) -> list[Line]:
    """Return the history, and behind it what is expected with its interval."""
    lines = columns(values, scale, "info")
    if fan is None:
        return lines
    size = scale.top / scale.height
    points = [fan.shown(cell) for cell in range(fan.cells)]
    for number, line in enumerate(lines):
        low = size * (scale.height - 1 - number)
        for point in points:
            if point is None:
                line.append((" ", ""))
                continue
            p05, value, p95 = point
            if low <= min(value, scale.top * 0.999) < low + size:
                line.append((_EXPECTED, "warn"))
            else:
                line.append((_BAND if p95 > low and p05 < low + size else " ", "dim"))
    return lines


def time_axis(cells: int, cell_s: float, fan: ForecastCells | None) -> Line:
    """Return the axis, ``-5m … now … +5m``."""
    past = f"-{short_duration(cells * cell_s)}"
    line = past + "now".rjust(max(cells - len(past), 4))
    if fan is not None:
        line += f"+{short_duration(fan.cells * fan.cell_s)}".rjust(fan.cells)
    return [(" " * _LABEL + line, "dim")]


def room_for(width: int) -> int:
    """Return the cells of a chart in a line of ``width``."""
    return max(width - _LABEL - 1, 10)
