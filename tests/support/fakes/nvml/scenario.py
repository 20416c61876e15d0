"""Scenario files of the fake NVML, from Python; the format is in the package's docstring."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Signal = str | float
"""A number, or what ``square``, ``sine`` and ``ramp`` give."""


def square(period_s: float, duty: float, low: float, high: float) -> str:
    """``high`` for the first ``duty`` (0-1) of each period, then ``low``."""
    return f"square({period_s!r},{duty!r},{low!r},{high!r})"


def sine(period_s: float, low: float, high: float) -> str:
    """Between ``low`` and ``high``, from the middle upwards."""
    return f"sine({period_s!r},{low!r},{high!r})"


def ramp(start: float, per_s: float) -> str:
    """``start`` at the beginning, ``per_s`` more each second."""
    return f"ramp({start!r},{per_s!r})"


@dataclass(frozen=True, kw_only=True)
class FakeProcess:
    """A process on a GPU. ``mem`` in bytes, None: not available; ``kind`` compute, graphics, both or none."""

    pid: int
    util: Signal = 0
    mem_util: Signal = 0
    mem: float | None = 1e9
    kind: str = "compute"
    from_s: float = -1e9
    until_s: float = 1e9
    gi: int | None = None
    ci: int | None = None

    def line(self) -> str:
        """Its line of a scenario."""
        mem = "none" if self.mem is None else repr(self.mem)
        text = f"  process {self.pid} mem={mem} util={self.util} mem_util={self.mem_util} kind={self.kind}"
        text += f" from={self.from_s!r} until={self.until_s!r}"
        return text + (f" gi={self.gi} ci={self.ci}" if self.gi is not None else "")


@dataclass(frozen=True, kw_only=True)
class FakeMig:
    """A MIG slice. ``index`` may leave gaps; an empty ``profile`` is left out of the device's name.

    ``hidden``: 1 where the call for its handle fails."""

    index: int
    uuid: str
    gi: int
    ci: int = 0
    profile: str = ""
    slices: int = 1
    compute_slices: int = 1
    mem_total: Signal = 18e9
    mem_used: Signal = 1e9
    util: Signal = 0
    hidden: int = 0
    counters: Mapping[int, Signal] = field(default_factory=dict)

    def line(self) -> str:
        """Its line of a scenario."""
        names = ("uuid", "gi", "ci", "slices", "compute_slices", "hidden", "mem_total", "mem_used", "util")
        text = " ".join(f"{name}={getattr(self, name)}" for name in names)
        text += "".join(f" counter:{number}={value}" for number, value in self.counters.items())
        return f"  mig {self.index} {text}" + (f" profile={self.profile}" if self.profile else "")


@dataclass(frozen=True, kw_only=True)
class FakeEvent:
    """What an event set is told ``at_s``: an Xid, or ``data`` of another type of event."""

    data: float
    at_s: float
    type: int = 8
    gi: int | None = None
    ci: int | None = None

    def line(self) -> str:
        """Its line of a scenario."""
        text = f"  event {self.data} at={self.at_s!r} type={self.type}"
        return text + (f" gi={self.gi} ci={self.ci}" if self.gi is not None else "")


@dataclass(frozen=True, kw_only=True)
class FakeGpu:
    """A GPU: ``values`` by the keys of a scenario, ``errors`` from function to code (and ``from=``…).

    ``fields``: values of NVML's fields by id, or by id and scope (``"165 scope=3"``); of the others a GPU in
    order has what it has. ``counters``: of GPM's metrics by their numbers, percent or MiB a second.
    """

    uuid: str
    name: str = "NVIDIA H200"
    values: Mapping[str, Signal] = field(default_factory=dict)
    processes: Sequence[FakeProcess] = ()
    mig: Sequence[FakeMig] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    events: Sequence[FakeEvent] = ()
    fields: Mapping[int | str, Signal] = field(default_factory=dict)
    counters: Mapping[int, Signal] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Its part of a scenario."""
        return [
            f"gpu {self.uuid}",
            f"  name {self.name}",
            *(f"  {key} {value}" for key, value in self.values.items()),
            *(f"  error {function} {code}" for function, code in self.errors.items()),
            *(process.line() for process in self.processes),
            *(mig.line() for mig in self.mig),
            *(event.line() for event in self.events),
            *(_field_line(key, value) for key, value in self.fields.items()),
            *(f"  counter {number} {value}" for number, value in self.counters.items()),
        ]


def _field_line(key: int | str, value: Signal) -> str:
    number, _, rest = str(key).partition(" ")
    return f"  field {number} {value} {rest}".rstrip()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A world of GPUs. ``write`` may be called again while a process looks at it."""

    gpus: Sequence[FakeGpu] = ()
    driver: str = "570.86.15"
    start: float | None = None
    clock: str = "wall"
    live: bool = False
    errors: Mapping[str, str] = field(default_factory=dict)
    delays_us: Mapping[str, float] = field(default_factory=dict)
    """How long a call of a function takes; ``*``: of all others."""
    spins: bool = False
    """Whether it takes that time on a CPU, or asleep."""

    def text(self) -> str:
        """The whole file."""
        head = [
            f"driver {self.driver}",
            f"clock {self.clock}",
            f"enumerate {'live' if self.live else 'init'}",
        ]
        head += ["wait spin"] if self.spins else []
        head += [f"start {self.start!r}"] if self.start is not None else []
        head += [f"error {function} {code}" for function, code in self.errors.items()]
        head += [f"delay {function} {us!r}" for function, us in self.delays_us.items()]
        return "\n".join([*head, *(line for gpu in self.gpus for line in gpu.lines())]) + "\n"

    def write(self, path: Path) -> Path:
        """Put the file at ``path`` in one step, with a time of change that no earlier one had."""
        before = path.stat().st_mtime_ns if path.exists() else 0
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(self.text(), encoding="utf-8")
        at = max(fresh.stat().st_mtime_ns, before + 1)
        os.utime(fresh, ns=(at, at))
        fresh.replace(path)
        return path
