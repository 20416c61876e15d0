"""Reads what the file of a W&B run tells: of the machine and the run as a whole, of its steps, and of each
moment.

What ``files/wandb-metadata.json`` knows of the machine, in older versions of W&B more than the run file, is
read as well, where it lies beside it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dutycycle.contract.units import END_OF_TIME_MS
from dutycycle.imports.quantities import Notes
from dutycycle.imports.wandb.file import Value, WandbFile, read_fields

_HISTORY, _STATS, _RUN, _EXIT, _ENVIRONMENT = 2, 7, 17, 18, 26
"""Numbers of the fields of a ``Record``, each of one kind of message."""
_STEP_NAMES = ("global_step", "step", "iteration", "iter", "num_steps")
_CALLS = "_step"
"""Counts the calls of ``log``: what there is where the training does not log its own step."""
_LABEL = "/l:"
"""Between the name of a figure and the label of the machine, where several log to one run."""
_INTERVAL_MS = 15_000
_MOST_STEPS, _MOST_BYTES = 2**53, 1e14


class Moment(NamedTuple):
    """Holds what was measured at one moment: texts by the names of W&B. ``labels``: of the machines of a run
    of several."""

    ts_ms: int
    stats: dict[str, str]
    labels: frozenset[str] = frozenset()


class Step(NamedTuple):
    """Holds a line of the history: its time, and how many steps were made by then."""

    ts_ms: int
    step: int


@dataclass
class WandbRun:
    """Holds what a run tells; what it does not tell is empty or absent.

    ``steps`` are those of the counter ``step_name``. ``gpu_bytes``: memory of each GPU, 0 where unknown.
    ``exit_code`` is absent while the run goes on, or when it was killed. ``damage``: sentences about what
    could not be read, or is missing. ``labels``: as those of a ``Moment``.
    """

    run_id: str = ""
    name: str = ""
    project: str = ""
    host: str = ""
    started_ms: int | None = None
    exit_code: int | None = None
    cores: int | None = None
    mem_total_bytes: int | None = None
    gpu_models: list[str] = field(default_factory=list)
    gpu_bytes: list[int] = field(default_factory=list)
    moments_ms: list[int] = field(default_factory=list)
    labels: frozenset[str] = frozenset()
    steps: list[Step] = field(default_factory=list)
    step_name: str = _CALLS
    damage: list[str] = field(default_factory=list)

    @property
    def interval_ms(self) -> int:
        """Give the usual time between two moments."""
        gaps = [later - earlier for earlier, later in pairwise(self.moments_ms)]
        return max(round(median(gaps or [_INTERVAL_MS])), 1)


def read_run(path: str, notes: Notes) -> WandbRun:
    """Read all but the moments. Raises ``DutycycleError`` for a file that is no run file."""
    run, file = WandbRun(), WandbFile(path)
    counters: dict[str, list[Step]] = {}
    unreadable = 0
    for message in file.read_messages():
        try:
            for number, content in read_fields(message):
                if isinstance(content, bytes):
                    _learn(run, number, content, counters)
        except ValueError:
            unreadable += 1
    if file.damaged:
        blocks = ", ".join(map(str, file.damaged[:5]))
        run.damage.append(f"{len(file.damaged)} blocks of 32 KiB are damaged (number {blocks}): left out")
    if unreadable:
        run.damage.append(f"{unreadable} messages cannot be read, or are of no time: left out")
    if file.cut_off:
        run.damage.append("the last message is cut off: left out")
    if run.exit_code is None:
        run.damage.append("has no end of the run: it goes on, or was killed, or the file is cut off")
    own = [
        name for name, steps in counters.items()
        if name != _CALLS and len(steps) > 1 and steps[-1].step > steps[0].step
        and all(earlier.step <= later.step for earlier, later in pairwise(steps))
    ]  # fmt: skip
    if own:  # of the names that the training chose and that count up, the one that is logged most often
        run.step_name = max(own, key=lambda name: len(counters[name]))
    run.steps = counters.get(run.step_name, [])
    _read_metadata(run, Path(path).parent / "files" / "wandb-metadata.json", notes)
    return run


def read_moments(path: str) -> Iterator[Moment]:
    """Give what was measured, in the order of the file."""
    for message in WandbFile(path).read_messages():
        try:
            moments = [
                _read_moment(content)
                for number, content in read_fields(message)
                if number == _STATS and isinstance(content, bytes)
            ]
        except ValueError:
            continue  # counted in ``read_run``
        yield from moments


def read_number(text: str) -> float | None:
    """Read a number of JSON; None for what is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _learn(run: WandbRun, number: int, content: bytes, counters: dict[str, list[Step]]) -> None:
    """Take what one message tells. Raises ``ValueError``."""
    if number == _STATS:
        moment = _read_moment(content)
        run.moments_ms.append(moment.ts_ms)
        run.labels |= moment.labels
    elif number == _HISTORY:
        values = {
            name: value for name, text in _read_items(content) if (value := read_number(text)) is not None
        }
        if "_timestamp" not in values:
            return
        ts_ms = _checked_ms(round(values["_timestamp"] * 1000))
        for name, value in values.items():
            counts = (name == _CALLS or name.rpartition("/")[2] in _STEP_NAMES) and abs(value) < _MOST_STEPS
            if counts and value.is_integer():
                counters.setdefault(name, []).append(Step(ts_ms, int(value)))
    elif number in (_RUN, _EXIT, _ENVIRONMENT):
        fields = _by_number(content)
        if number == _RUN:
            run.run_id, run.project, run.name = (_text(fields, place) for place in (1, 3, 8))
            run.host = _text(fields, 13) or run.host
            run.started_ms = _checked_ms(_read_time_ms(_message(fields, 17))) or None
        elif number == _EXIT:
            run.exit_code = _int(fields, 1)
        else:
            run.host = run.host or _text(fields, 12)
            run.cores = _int(fields, 17) or _int(fields, 16) or run.cores
            total = _int(_by_number(_message(fields, 21)), 1)
            run.mem_total_bytes = total if 0 < total <= _MOST_BYTES else run.mem_total_bytes
            for gpu in fields.get(24, ()):
                details = _by_number(gpu) if isinstance(gpu, bytes) else {}
                run.gpu_models.append(_text(details, 1))
                run.gpu_bytes.append(_int(details, 2))


def _read_metadata(run: WandbRun, path: Path, notes: Notes) -> None:
    if not path.is_file():
        return
    try:
        metadata = json.loads(path.read_bytes())
        gpus = metadata.get("gpu_devices") or metadata.get("gpu_nvidia") or []
        models = [str(gpu.get("name") or "") for gpu in gpus]
        amounts = [int(gpu.get("memory_total") or gpu.get("memoryTotal") or 0) for gpu in gpus]
        cores = int(metadata.get("cpu_count_logical") or metadata.get("cpu_count") or 0)
        total = float((metadata.get("memory") or {}).get("total") or 0)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        notes.remarks[f"{path} cannot be used: {error}"] = None
        return
    if not run.gpu_models:
        run.gpu_models, run.gpu_bytes = models, amounts
    run.cores = run.cores or cores or None
    run.mem_total_bytes = run.mem_total_bytes or round(total * 1024**3 if total < 2**20 else total) or None


def _read_moment(content: bytes) -> Moment:
    stats, labels = dict[str, str](), set[str]()
    for name, text in _read_items(content, 3):
        plain, _, label = name.partition(_LABEL)
        stats[plain.removeprefix("system.").removeprefix("system/")] = text.strip('"')
        labels.add(label)
    ts_ms = _checked_ms(_read_time_ms(_message(_by_number(content), 2)))
    return Moment(ts_ms, stats, frozenset(labels - {""}))


def _checked_ms(ts_ms: int) -> int:
    """Give a time as it is. Raises ``ValueError`` for one that no record may have."""
    if not 0 <= ts_ms <= END_OF_TIME_MS:
        raise ValueError("is of a time before 1970 or after 2100")
    return ts_ms


def _read_items(content: bytes, number: int = 1) -> Iterator[tuple[str, str]]:
    """Give keys and values as JSON. A nested key is told by its parts."""
    for field_number, item in read_fields(content):
        if field_number == number and isinstance(item, bytes):
            fields = _by_number(item)
            nested = [
                part.decode("utf-8", "replace") for part in fields.get(2, ()) if isinstance(part, bytes)
            ]
            yield _text(fields, 1) or ".".join(nested), _text(fields, 16)


def _read_time_ms(content: bytes) -> int:
    fields = _by_number(content)
    return _int(fields, 1) * 1000 + round(_int(fields, 2) / 1e6)


def _by_number(content: bytes) -> dict[int, list[Value]]:
    fields: dict[int, list[Value]] = {}
    for number, value in read_fields(content):
        fields.setdefault(number, []).append(value)
    return fields


def _message(fields: dict[int, list[Value]], number: int) -> bytes:
    value = fields.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def _text(fields: dict[int, list[Value]], number: int) -> str:
    return _message(fields, number).decode("utf-8", "replace")


def _int(fields: dict[int, list[Value]], number: int) -> int:
    value = fields.get(number, [0])[-1]
    return value if isinstance(value, int) else 0
