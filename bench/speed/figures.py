"""What was measured, by name, with when and on what: kept as JSON, so that pages can be made of it again."""

import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import orjson

ROOT = Path(__file__).parents[2]
_MEASURED = ("collectors", "streams", "sinks", "dutycycle")


@dataclass
class MeasurementRun:
    """When and on what a measurement was made."""

    date: str
    commit: str
    load: tuple[float, float]
    """The machine's load average before and after (1 minute), our own work included."""
    quick: bool
    machine: str


@dataclass
class Figures:
    """Values by name. A name is ``measurement.what``; several values are repetitions, in order."""

    values: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """What is said of a measurement, by ``measurement.what``."""
    runs: dict[str, MeasurementRun] = field(default_factory=dict)
    """By measurement."""

    def forget(self, measurement: str) -> None:
        """It is measured anew."""
        self.runs.pop(measurement, None)
        for kept in (self.values, self.notes):
            for name in [name for name in kept if name.startswith(f"{measurement}.")]:
                del kept[name]

    def add(self, name: str, value: float) -> None:
        """One more repetition."""
        self.values.setdefault(name, []).append(value)

    def get(self, name: str) -> list[float]:
        """All repetitions; none where it was not measured."""
        return self.values.get(name, [])

    def middle(self, name: str) -> float:
        """The median. Raises ``KeyError`` where it was not measured."""
        return median(self.values[name])

    def of(self, prefix: str) -> dict[str, list[float]]:
        """All whose names begin with ``prefix.``, by what follows."""
        start = f"{prefix}."
        return {name[len(start) :]: found for name, found in self.values.items() if name.startswith(start)}

    def save(self, path: Path) -> None:
        """Write them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        rounded = {name: [float(f"{one:.6g}") for one in found] for name, found in self.values.items()}
        plain = {**asdict(self), "values": rounded}
        path.write_bytes(orjson.dumps(plain, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))

    @classmethod
    def load(cls, path: Path) -> "Figures":
        """Those of a file; none if there is no file."""
        if not path.exists():
            return cls()
        plain = orjson.loads(path.read_bytes())
        runs = {
            name: MeasurementRun(**{**one, "load": tuple(one["load"])}) for name, one in plain["runs"].items()
        }
        return cls(plain["values"], plain["notes"], runs)


def load_average() -> float:
    """Of the last minute."""
    return round(os.getloadavg()[0], 1)


def run_of(before: float, *, quick: bool) -> MeasurementRun:
    """Now, on this machine."""
    git = ["git", "log", "-1", "--format=%h", "--", *_MEASURED]
    commit = subprocess.run(git, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return MeasurementRun(now, commit, (before, load_average()), quick, machine())


def machine() -> str:
    """The processor, and the versions that matter."""
    names = ("faust-streaming", "aiokafka", "numpy", "numba", "orjson", "msgspec")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return f"{os.cpu_count()} cores of {processor()}; Python {platform.python_version()}, {versions}"


def processor() -> str:
    """Return the processor's name, as Linux knows it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
