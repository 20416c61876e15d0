"""Plans what an experiment is to run: one run for each combination of the settings that vary."""

import hashlib
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace_reader import TraceReader
from dutycycle.experiments.knobs import values_of, with_values

RESULT = "run.json"
"""The file of a run that is written last: with it, a run is finished."""
_DIGITS = 8
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class TraceFile:
    """Identifies one trace: where it is, what is in it, and of how many lines."""

    path: str
    sha256: str
    lines: int


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Describes one run. ``given``: the settings that the experiment sets, as text. ``head`` is what decides
    the result, and stands in its ``run.json``."""

    name: str
    given: dict[str, str]
    settings: Settings
    traces: tuple[TraceFile, ...]
    truth: str | None
    folder: Path
    head: dict[str, Any]
    skip_bad: bool = False

    @property
    def finished(self) -> dict[str, Any] | None:
        """Return its ``run.json`` if it was run to the end, else None."""
        try:
            finished: dict[str, Any] = orjson.loads((self.folder / RESULT).read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None
        return finished


def plan(
    traces: Sequence[str], settings: Settings, given: dict[str, str], combinations: Sequence[dict[str, str]],
    *, truth: str | None, out: str, skip_bad: bool = False,
) -> list[PlannedRun]:  # fmt: skip
    """Return the runs of an experiment, in order. Raises ``DutycycleError`` for a trace that cannot be read;
    with ``skip_bad`` bad lines are left out."""
    files = []
    for path in traces:
        if path == "-":
            raise DutycycleError("an experiment reads its trace several times: give a file, not -")
        # All of it is read, so that a damaged one is refused before anything runs; with ``skip_bad`` the runs
        # count the bad lines.
        lines = sum(1 for _ in TraceReader(path, bad=(lambda _: None) if skip_bad else None))
        with Path(path).open("rb") as file:
            files.append(TraceFile(path, hashlib.file_digest(file, "sha256").hexdigest(), lines))
    digest = None if truth is None else _digest(Path(truth).read_bytes())
    common: dict[str, Any] = {"traces": [[trace.sha256, trace.lines] for trace in files], "truth": digest}
    common |= {"program": program()} | ({"skip_bad": True} if skip_bad else {})
    runs = []
    for values in (given | chosen for chosen in combinations):
        varied = with_values(settings, values)
        head = {"given": values, "settings": values_of(varied), **common}
        words = ",".join(f"{name}={value}" for name, value in values.items()) or "defaults"
        safe = "".join(char if char.isalnum() or char in "=,._-" else "_" for char in words)[:_LONGEST_NAME]
        name = f"{safe}-{_digest(orjson.dumps(head, option=orjson.OPT_SORT_KEYS))[:_DIGITS]}"
        folder = Path(out) / "runs" / name
        runs.append(PlannedRun(words, values, varied, tuple(files), truth, folder, head, skip_bad))
    return runs


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def program() -> dict[str, str | None]:
    """Tell which program runs: the release, and the git revision of the code where there is one, with a
    digest of what was changed since."""
    root, revision = Path(__file__).parents[2], None
    if (root / ".git").exists():
        with suppress(OSError, subprocess.CalledProcessError):
            head, changed = _git(root, "rev-parse", "HEAD").decode().strip(), _git(root, "diff", "HEAD")
            revision = f"{head}+{_digest(changed)[:_DIGITS]}" if changed else head
    return {"version": version("dutycycle"), "revision": revision}


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603 - words of ours
