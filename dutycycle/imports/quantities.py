"""Reads quantities of a log with their units and ranges, and the notes that are taken while a file is
read."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from collectors.rates import Rate
from collectors.throttle import throttle_names
from dutycycle.contract.catalogue import LIMITS, PCT, Range, unit_of
from dutycycle.contract.health import logged
from dutycycle.contract.units import GIB, MIB

_KIB = 1024
_NS_PER_S_OF_PCT = 1e7
"""Nanoseconds that are a percent of a millisecond."""
_INDEX = re.compile(r"(?:cuda|gpu|nvidia)[ :#_-]*(\d+)", re.IGNORECASE).fullmatch
_BUS = re.compile(r"(?P<domain>[0-9a-fA-F]{1,8}):(?P<place>[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])").fullmatch
_UUID = re.compile(
    r"(?P<kind>GPU|MIG)-(?P<digits>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE
).fullmatch
_OF_ALL = frozenset({"all", "avg", "average", "mean", "max", "min", "overall", "sum", "total"})
"""What stands in place of a GPU in a row that says something of all."""
_MODEL = re.compile(
    r"(?!.*(?: \d|[#:(\[]\d\d?[)\]]?)$)(?:NVIDIA|AMD|Intel|Tesla|GeForce|Quadro|Radeon) .+",
    re.IGNORECASE,
).fullmatch
"""Not one with a number of its own behind it, such as ``Tesla V100 0`` or ``V100 (1)``: that is a GPU."""
_MOST_W = 2500
"""No GPU draws as much."""
_WRITTEN = {"mib": "MiB", "w": "W", "mhz": "MHz", "j": "J"}
_LEAST_MIB, _MOST_MIB = 512, 2 * 1024 * 1024
"""No GPU that is measured has less memory, and none has yet more than a part of this."""
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S.*)?").fullmatch
_UNMEASURED = frozenset(
    {"", "-", "--", "?", "n/a", "na", "nan", "none", "null", "err", "err!", "error", "unknown",
     "unknown error", "not supported"}
)  # fmt: skip
_ENDLESS = frozenset({"inf", "infinity"})
_IDENTITY = frozenset({"uuid", "index", "pid", "node", "date"})
"""Of another GPU, process or day a row would be wrong."""


class Row(NamedTuple):
    """Holds one GPU at one moment, or something of it, by the fields of ``Gpu``.

    ``uuid`` and ``index`` may both be absent where a log does not say which GPU it is. ``processes`` and
    ``mig`` may come in rows of their own: they count for the GPU's row of the same moment. ``node`` is absent
    where the log does not name it.
    """

    ts_ms: int
    fields: dict[str, Any]
    node: str | None = None


@dataclass
class BareValues:
    """Counts the numbers of a column without a unit: ``absent`` are those that no GPU has. ``most`` is the
    largest of the others, and ``broken`` tells whether any of them was no whole number."""

    usual: str
    count: int = 0
    absent: int = 0
    most: float = 0.0
    broken: bool = False


@dataclass
class Notes:
    """Collects what a user has to know of one file beside its wrong lines.

    ``columns``: of its last heading; ``figures``: those that measure something, ``unused``: those without a
    field. ``remarks``: sentences, each once.
    ``unfinished``: what a file that ends here has begun.
    ``out_of_range``: of each column how many values were left absent, and the first of them; those in
    ``of_machine`` are of no GPU.
    ``unreadable``: of each column how many cells could not be read, and why not the first of them.
    ``nodes``: the machines that it names.
    ``bare``: by field and column the values that had no unit, and whose heading had none, or W.
    ``energy_factors``: by which energies were multiplied for joules. ``has_cut_times``: it has times without
    seconds.
    """

    columns: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    remarks: dict[str, None] = field(default_factory=dict)
    unfinished: str = ""
    out_of_range: dict[str, tuple[int, str]] = field(default_factory=dict)
    of_machine: set[str] = field(default_factory=set)
    unreadable: dict[str, tuple[int, str]] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    bare: dict[tuple[str, str], BareValues] = field(default_factory=dict)
    energy_factors: set[float] = field(default_factory=set)
    has_cut_times: bool = False

    def count_out_of_range(self, column: str, text: str) -> None:
        """Count a value that no GPU has."""
        count, first = self.out_of_range.get(column, (0, text))
        self.out_of_range[column] = (count + 1, first)

    def count_unreadable(self, column: str, reason: str) -> None:
        """Count a cell that is left absent, since it cannot be read."""
        count, first = self.unreadable.get(column, (0, reason))
        self.unreadable[column] = (count + 1, first)

    def note_bare(self, name: str, column: str, usual: str, value: float, *, absent: bool) -> None:
        """Take a value of the field ``name`` that was taken for the ``usual`` unit, since none is written."""
        values = self.bare.setdefault((name, column), BareValues(usual))
        values.count += 1
        if absent:
            values.absent += 1
        else:
            values.most = max(values.most, value)
            values.broken = values.broken or not value.is_integer()

    def shares_of_one(self) -> frozenset[str]:
        """Give the columns of percentages without a unit that are shares of 1: if no value of all is above 1,
        and some are not whole. A GPU at 1 % at most, whose percentages are not whole, is rare.
        """
        columns = {column: values for (_, column), values in self.bare.items() if values.usual == "%"}
        are_shares = any(values.broken for values in columns.values()) and all(
            values.most <= 1 and not values.absent for values in columns.values()
        )
        return frozenset(columns) if are_shares else frozenset()

    def doubtful_units(self) -> list[str]:
        """Say which columns look like another unit than they were taken for, and what to give then.

        A GPU with parts of a MiB is rare, or with less than 512 MiB in all. Values that no GPU has are mostly
        of another unit, not wrong.
        """
        remarks = []
        for (name, column), values in self.bare.items():
            unit, most, own = "", values.most, _WRITTEN.get(values.usual, values.usual)
            what = f"is from 0 to {most:g} and was taken for {own}: if that is another"
            if own == "MiB" and most > _MOST_MIB:
                unit = "KiB"
            elif own == "W" and most > _MOST_W:
                unit = "mW"
            elif values.absent * 2 >= values.count:
                unit = {"MiB": "B", "W": "mW", "MHz": "kHz", "J": "mJ"}.get(own, "")
                what = f"has no unit, and in {own} most of its values are of no GPU: if it is another"
            elif own == "MiB" and most < (_LEAST_MIB if name == "mem_total_bytes" else GIB / MIB):
                unit = "GiB" if values.broken or name == "mem_total_bytes" else ""
            if unit:
                remarks.append(f"{column} {what}, give it: --columns {name}={column}[{unit}]")
        return remarks


class HeldShares:
    """Makes shares of the time of counters of the time in which something held the clocks down."""

    def __init__(self) -> None:
        self._rates: defaultdict[tuple[str, str], Rate] = defaultdict(Rate)
        """By GPU and field."""

    def share_pct(self, gpu: str, field: str, now_ns: int, now_ms: int) -> float | None:
        """Give percent since the counter was read before; None at first, and after it began anew."""
        ns_per_s = self._rates[gpu, field].per_s(now_ns, now_ms / 1000)
        # Counter and time are not of one instant: the whole time may be a little more.
        return None if ns_per_s is None else round(min(ns_per_s / _NS_PER_S_OF_PCT, 100.0), 1)


class Reader(Protocol):
    """Reads the lines of one file, in order."""

    notes: Notes

    def read_rows(self, line: str) -> list[Row]:
        """Give the rows of a line; none for a heading or a blank line. Raises ``ValueError``."""
        ...


def is_measured(text: str) -> bool:
    """Tell whether a cell has a value: not ``N/A``, ``[Not Supported]``, ``ERR!``, ``nan``, nothing."""
    return text[:1].isdigit() or not (text.startswith(("[", "<")) or text.lower() in _UNMEASURED)


@dataclass(frozen=True, slots=True)
class Quantity:
    """Describes what a field holds: its units in lower case with their factors, the unit of a bare number,
    its range.

    What lies outside of the range no GPU has: it is a blank of the driver (4294967295) or a slip of a
    counter, and so it was not measured.
    """

    units: Mapping[str, float]
    usual: str
    least: float
    most: float
    whole: bool = False

    def factor(self, unit: str) -> float:
        """Give what a value in ``unit`` is multiplied with. Raises ``ValueError`` for another unit."""
        try:
            return self.units[unit.strip().lower()]
        except KeyError:
            names = ", ".join(unit for unit in self.units if unit)
            raise ValueError(f"expected {names or 'no unit'}") from None


_BYTES = {
    "mib": MIB, "mb": MIB, "m": MIB, "gib": GIB, "gb": GIB, "g": GIB, "kib": _KIB, "kb": _KIB,
    "tib": 1024 * GIB, "tb": 1024 * GIB,
    "megabyte": MIB, "megabytes": MIB, "mebibytes": MIB, "gigabyte": GIB, "gigabytes": GIB, "gibibytes": GIB,
    "mio": MIB, "mo": MIB, "gio": GIB, "go": GIB, "kio": _KIB, "ko": _KIB, "b": 1, "byte": 1, "bytes": 1,
}  # fmt: skip
"""MB and GB are what programs around nvidia-smi call its MiB."""
_FACTORS: Mapping[str, Mapping[str, float]] = {
    "_pct": {"%": 1, "pct": 1, "percent": 1, "percentage": 1, "ratio": 100, "fraction": 100},
    "_bytes": _BYTES,
    "_w": {"w": 1, "watt": 1, "watts": 1, "milliwatts": 0.001, "mw": 0.001, "kw": 1000},
    "_j": {
        "j": 1,
        "joule": 1,
        "joules": 1,
        "mj": 0.001,
        "µj": 1e-6,
        "uj": 1e-6,
        "kj": 1000,
        "wh": 3600,
        "kwh": 3_600_000,
    },
    "_c": {"c": 1, "°c": 1, "celsius": 1, "degc": 1, "℃": 1, "celsius degree": 1},
    "_mhz": {"mhz": 1, "ghz": 1000, "khz": 0.001, "hz": 1e-6},
    "_bytes_per_s": {
        "b/s": 1,
        "bytes/s": 1,
        "kb/s": 1e3,
        "mb/s": 1e6,
        "gb/s": 1e9,
        "kib/s": _KIB,
        "mib/s": MIB,
        "gib/s": GIB,
        "1000 kib/s": 1000 * _KIB,
    },
}
"""By the unit at the end of a field: how logs spell it, with the factor to ours. The first is that of a bare
number."""


def _quantity(name: str, limits: Range) -> Quantity:
    """Return what a field of a GPU holds: in the unit of its name, or a count where that has none."""
    suffix = unit_of(name).suffix
    factors = _FACTORS.get(suffix, {"": 1})
    return Quantity(factors, next(iter(factors)), *limits, whole=suffix in ("", "_bytes"))


_SECONDS = {"s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "ms": 0.001, "us": 1e-6, "ns": 1e-9}
HELD_REASONS = {
    "sw power capping": "sw_power_cap_pct",
    "sync boost": "sync_boost_pct",
    "sw thermal slowdown": "sw_thermal_pct",
    "hw thermal slowdown": "hw_thermal_pct",
    "hw power braking": "power_brake_pct",
}
"""What nvidia-smi calls the counters of the time in which something held the clocks down: what they grow by
is a share of the time."""
HELD_COUNTERS = {f"{share}_counter_us": share for share in HELD_REASONS.values()}
"""The columns of these counters, which a row of ``Gpu`` does not have."""
QUANTITIES: Mapping[str, Quantity] = {
    **{name: _quantity(name, limits) for name, limits in LIMITS.items()},
    "mem_free_bytes": _quantity("mem_free_bytes", LIMITS["mem_total_bytes"]),
    "mem_reserved_bytes": _quantity("mem_reserved_bytes", LIMITS["mem_total_bytes"]),
    "mem_used_pct": _quantity("mem_used_pct", PCT),
    "time": Quantity(_SECONDS, "", 0, 1e20),
    **{name: Quantity({"": 1}, "", 0, 2**48, whole=True) for name in logged.COUNTS},
    **{name: Quantity({"us": 1, "ms": 1e3, "s": 1e6}, "us", 0, 2**63, whole=True) for name in HELD_COUNTERS},
    "index": Quantity({"": 1}, "", 0, 1024, whole=True),
    "pid": Quantity({"": 1}, "", 0, 2**31, whole=True),
}
"""Of each field that is a number: those of ``Gpu``, and those of which they are made (``complete``)."""


def read_words(text: str) -> str:
    """Read a name."""
    return "".join(character for character in text if character.isprintable())


def read_uuid(text: str) -> str:
    """Read what names a GPU: the same for one GPU, as drivers and programs write its UUID or its place on the
    PCI bus, whose domain has four digits or eight."""
    if bus := _BUS(text):
        return f"{bus['domain']:0>8}:{bus['place']}".upper()
    if uuid := _UUID(text):
        return f"{uuid['kind'].upper()}-{uuid['digits'].lower()}"
    return read_words(text)


def read_throttle(text: str) -> tuple[str, ...]:
    """Read what holds the clocks down, from NVML's bits. Raises ``ValueError``."""
    return throttle_names(int(text, 16 if text.lower().startswith("0x") else 10))


TEXTS: Mapping[str, Callable[[str], Any]] = {
    "uuid": read_uuid, "model": read_words, "process_name": read_words, "node": read_words,
    "time": str, "date": str, "throttle": read_throttle, **dict.fromkeys(logged.FLAGS, logged.read_flag),
}  # fmt: skip
"""Of each field that is no number."""


class Column:
    """Reads the cells of one column, in order.

    ``unit`` is the one of its heading, absent where the heading has none: then a bare number is in the
    quantity's usual unit. Where the values have had a unit, one without was cut off.
    """

    def __init__(self, name: str, field: str, unit: str | None, notes: Notes) -> None:
        self.name, self.field, self.unit = name, field, unit
        self._quantity = None if field in TEXTS else QUANTITIES[field]
        self._notes = notes
        self._factor = self._quantity.factor(unit or self._quantity.usual) if self._quantity else 1.0
        self._has_units = False

    def read_value(self, cell: str) -> Any:
        """Give the value; None for what was not measured or no GPU has. Raises ``ValueError``."""
        if (number := logged.read_word(self.field, cell)) is not None:
            return number
        if not is_measured(cell):
            return None
        quantity = self._quantity
        if quantity is None:
            try:
                return TEXTS[self.field](cell)
            except ValueError as error:
                raise ValueError(f"{cell!r} is no {self.field}") from error
        if self.field == "index" and not _NUMBER(cell):
            if cell.lower() in _OF_ALL:
                raise ValueError(f"is of no GPU, but of several: {self.name} is {cell}")
            index = _INDEX(cell)  # a column ``gpu`` may have names or uuids
            return int(index[1]) if index else read_uuid(cell)
        return self._read_amount(cell, quantity)

    def _read_amount(self, cell: str, quantity: Quantity) -> int | float | None:
        match = _NUMBER(cell)
        if match is None:
            word = cell.lower().removesuffix("%").partition(" ")[0]  # a unit may follow
            if word in _UNMEASURED:
                return None
            if word.lstrip("+-") in _ENDLESS:
                self._notes.count_out_of_range(self.name, cell)
                return None
            raise ValueError(f"{cell!r} is no {self.field}")
        text, unit = match.groups()
        factor = self._factor
        if unit:
            try:
                factor = quantity.factor(unit)
            except ValueError as error:
                raise ValueError(f"{cell!r} is no {self.field}: {error}") from error
            self._has_units = True
        elif self._has_units:
            raise ValueError(f"{cell!r} has no unit, and those before it in {self.name} have: it was cut off")
        if self.field == "energy_j":
            self._notes.energy_factors.add(factor)
        value = float(text) * factor
        is_absent = not quantity.least <= value <= quantity.most
        says_watts = self.unit is not None and quantity.usual == "w" and factor == 1 and not is_absent
        if not unit and (self.unit is None or says_watts):  # a name such as ``power_w`` may stand over mW
            self._notes.note_bare(self.field, self.name, quantity.usual, float(text), absent=is_absent)
        if is_absent:
            self._notes.count_out_of_range(self.name, cell)
            return None
        return round(value) if quantity.whole or value.is_integer() else value


def read_cells(cells: Sequence[tuple[Column, str]], notes: Notes) -> list[Any]:
    """Give the values of a row; None also for a cell that cannot be read, which is counted.

    Raises ``ValueError`` where a cell of the row's identity cannot be read, and where more cells cannot be
    read than numbers can: such a row has other columns than its heading.
    """
    values: list[Any] = []
    unreadable: list[tuple[str, ValueError]] = []
    for column, cell in cells:
        try:
            values.append(column.read_value(cell))
        except ValueError as error:
            if column.field in _IDENTITY:
                raise
            values.append(None)
            unreadable.append((column.name, error))
    if unreadable:
        read = sum(
            value is not None and column.field not in TEXTS
            for (column, _), value in zip(cells, values, strict=True)
        )
        if len(unreadable) > read:
            raise unreadable[0][1]
        for name, reason in unreadable:
            notes.count_unreadable(name, str(reason))
    return values


def complete(fields: dict[str, Any]) -> None:
    """Replace fields that ``Gpu`` does not have by those that they tell: in place.

    A GPU that is told by a text instead of its number has that as its uuid, but for a model, of which there
    may be several. Free memory and one of used and
    total tell the other, and so does a percentage of the total. Where a process is named, used memory is its
    own.
    """
    if isinstance(fields.get("index"), str):
        fields.setdefault("model" if _MODEL(fields["index"]) else "uuid", fields.pop("index"))
    free, reserved = fields.pop("mem_free_bytes", None), fields.pop("mem_reserved_bytes", None)
    share = fields.pop("mem_used_pct", None)
    used, total = fields.get("mem_used_bytes"), fields.get("mem_total_bytes")
    pid, name = fields.pop("pid", None), fields.pop("process_name", None)
    if pid is not None:
        process = {"pid": pid, "name": name, "mem_used_bytes": fields.pop("mem_used_bytes", None)}
        fields["processes"] = [{key: value for key, value in process.items() if value is not None}]
    elif used is None and total is not None:
        if free is not None and free <= total:
            fields["mem_used_bytes"] = total - free - (reserved or 0)
        elif share is not None:
            fields["mem_used_bytes"] = round(total * share / 100)
    elif total is None and used is not None and free is not None:
        fields["mem_total_bytes"] = used + free + (reserved or 0)
