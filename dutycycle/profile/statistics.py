"""Makes the summaries of ``nsys stats``: the same columns, units and figures; exact, medians too."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import floor, sqrt
from operator import itemgetter

from dutycycle.profile.export import COPY, KERNEL, SET, Export, does
from dutycycle.report.profiled import Cell, StatisticsTable

_TIMES = ("Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)")
_SIZES = ("Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)")
_MB = 1e6


@dataclass(slots=True)
class Spread:
    """Tells how values that belong together are spread; of their squares the sum is exact as well."""

    name: str
    count: int
    total: int = 0
    squares: int = 0
    low: int = 0
    high: int = 0
    median: float = 0.0

    @property
    def mean(self) -> float:
        """Return their mean."""
        return self.total / self.count

    @property
    def deviation(self) -> float:
        """Return their standard deviation, as that of a sample."""
        if self.count < 2:
            return 0.0
        return sqrt(max(self.count * self.squares - self.total**2, 0) / (self.count * (self.count - 1)))

    def times(self) -> tuple[Cell, ...]:
        """Return the columns from ``Avg (ns)`` on."""
        return rounded(self.mean, 1), self.median, self.low, self.high, rounded(self.deviation, 1)

    def sizes(self) -> tuple[Cell, ...]:
        """Return the same of bytes, in MB."""
        values = (self.mean, self.median, self.low, self.high, self.deviation)
        return tuple(rounded(value / _MB, 3) for value in values)


def rounded(value: float, digits: int) -> float:
    """Round to so many digits, a half up, as SQLite does, and so ``nsys stats``."""
    scale = 10.0**digits
    return floor(value * scale + 0.5) / scale


def spreads(export: Export, doing: str, source: str, key: str, value: str) -> Iterator[Spread]:
    """Yield of each ``key`` how ``value`` is spread over the rows of ``source``. SQLite sorts, on disk if
    need be: what is held here is one spread."""
    counts = dict(export.rows(doing, f"SELECT {key}, count(*) FROM {source} GROUP BY 1"))
    sql = f"SELECT {key}, {value}, count(*) FROM {source} GROUP BY 1, 2 ORDER BY 1, 2"
    for name, rows in groupby(export.rows(doing, sql), key=itemgetter(0)):
        yield _spread(name, counts[name], rows)


def _spread(name: str, count: int, rows: Iterator[tuple[str, int, int]]) -> Spread:
    spread = Spread(name, count)
    seen, middle = 0, []
    for _, value, times in rows:
        spread.low = value if seen == 0 else spread.low
        spread.high = value
        spread.total += value * times
        spread.squares += value * value * times
        middle += [value for place in ((count - 1) // 2, count // 2) if seen <= place < seen + times]
        seen += times
    spread.median = sum(middle) / 2
    return spread


def api_calls(export: Export) -> list[Spread]:
    """Return CUDA API calls by name; a function's version is a name of its own, as for ``nsys stats``."""
    return _by_name(export, "CUDA API calls", "calls")


def kernels(export: Export) -> list[Spread]:
    """Return kernels by name; CUDA graphs that were traced as one are one."""
    return _by_name(export, "kernels", f"(SELECT * FROM activities WHERE what = {KERNEL})")


def _by_name(export: Export, doing: str, source: str) -> list[Spread]:
    rows = list(spreads(export, doing, source, "COALESCE(name, -1)", "end - start"))
    for spread in rows:
        spread.name = export.name_of(int(spread.name))
    return rows


def memory_operations(export: Export, value: str) -> list[Spread]:
    """Return copies and sets, by ``end - start`` or ``bytes``."""
    labels = export.label_of_copy()
    key = f"CASE what WHEN {SET} THEN -1 ELSE COALESCE(copy, 0) END"
    source = f"(SELECT * FROM activities WHERE what IN ({COPY}, {SET}) AND {value} IS NOT NULL)"
    rows = list(spreads(export, "memory operations", source, key, value))
    for spread in rows:
        label = labels.get(int(spread.name), "Unknown")
        spread.name = "[CUDA memset]" if int(spread.name) < 0 else f"[CUDA memcpy {label}]"
    return rows


def tables_of(
    export: Export, calls: list[Spread], kernels: list[Spread], of_ranges: str
) -> Iterator[StatisticsTable]:
    """Yield all summaries; ``of_ranges`` is the title of that of ranges."""
    yield _by_time("CUDA API Summary", "Num Calls", ("Name",), calls, versioned=True)
    yield _by_time("CUDA GPU Kernel Summary", "Instances", ("Name",), kernels)
    copies = memory_operations(export, "end - start")
    yield _by_time("CUDA GPU MemOps Summary (by Time)", "Count", ("Operation",), copies)
    sizes = sorted(memory_operations(export, "bytes"), key=lambda operation: -operation.total)
    rows = [(rounded(size.total / _MB, 3), size.count, *size.sizes(), size.name) for size in sizes]
    columns = ("Total (MB)", "Count", *_SIZES, "Operation")
    yield StatisticsTable("CUDA GPU MemOps Summary (by Size)", columns, rows)
    key = "style || char(9) || name"
    ranges = list(spreads(export, "NVTX ranges", "ranges", key, "end - start"))
    yield _by_time(of_ranges, "Instances", ("Style", "Range"), ranges)


def _by_time(
    title: str, count: str, named: tuple[str, ...], operations: list[Spread], *, versioned: bool = False
) -> StatisticsTable:
    """Return a summary, largest first. ``versioned``: names end in the version of a function."""
    total = sum(spread.total for spread in operations) or 1
    rows = []
    for spread in sorted(operations, key=lambda spread: -spread.total):
        names = spread.name.split("\t", len(named) - 1)
        if versioned:  # cudaMalloc_v3020, and not cudaLaunchKernelExC_v11060: as nsys stats prints them
            stem, _, version = spread.name.rpartition("_v")
            names = [stem if stem and version.isdecimal() and len(version) == 4 else spread.name]
        share = rounded(100 * spread.total / total, 1)
        rows.append((share, spread.total, spread.count, *spread.times(), *names))
    return StatisticsTable(title, ("Time (%)", "Total Time (ns)", count, *_TIMES, *named), rows)


def waits(calls: list[Spread]) -> tuple[int, int]:
    """Tell how often the host waited for a GPU, and for how long in all, in nanoseconds."""
    waits = [call for call in calls if "synchronize" in call.name.lower() and does(call.name)]
    return sum(call.count for call in waits), sum(call.total for call in waits)
