"""Compares wanted and present annotations: what fits beside what stays, what differs, whether that is worth a
write. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import orjson

from dutycycle.kube.references import Patch
from sinks.annotations.core.keys import (
    CPU_UTIL_P95,
    CYCLE_PERIOD,
    GPU_MEM_FULL,
    MEM_FULL,
    UPDATED,
    WRITTEN_WITH_OTHERS,
    is_ours,
)
from sinks.annotations.core.schedule import ChangeThreshold


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Says when a number has changed enough: when it moved by more than both: a distance, and a part of
    itself."""

    distance: float = 1.0
    part: float = 0.05


@dataclass(frozen=True, slots=True)
class Present:
    """Holds what an object carries: our annotations, and the bytes that those of others take."""

    ours: Mapping[str, str]
    others_bytes: int = 0


_NO_FIGURES = WRITTEN_WITH_OTHERS | {UPDATED}
_COME_AND_GO = frozenset({CYCLE_PERIOD, MEM_FULL, GPU_MEM_FULL})
_USUAL = Tolerance()
_EXACT = Tolerance(0.0, 0.0)
_TOLERANCES = {
    "count": _EXACT,
    "process_cnt": _EXACT,
    "pods": _EXACT,
    "pods_omitted": _EXACT,
    "pods_now": _EXACT,
    "gpus_now": _EXACT,
    "pods_ever": _EXACT,
    "gpus_ever": _EXACT,
    "period_s": Tolerance(0.0),
    CPU_UTIL_P95: Tolerance(inf),
    "trend_pct_per_h": Tolerance(5.0, 0.2),
    "GB": Tolerance(0.5),
    "MB": Tolerance(50.0),
}
"""By the field's name, or by the unit of a text. A p95, unlike a maximum, goes up and down."""
TOTAL_BYTES = 262_144
"""Of all keys and values of one object, those of others included: what the API server takes."""
_SPARE_BYTES = 16_384
_AMOUNT = re.compile(r"(-?\d+(?:\.\d+)?)(GB|MB)")


def split(prefix: str, annotations: Mapping[str, str]) -> Present:
    """Return an object's annotations, parted into ours and the rest."""
    ours = {key: value for key, value in annotations.items() if key.startswith(f"{prefix}/")}
    return Present(ours, size_of(annotations) - size_of(ours))


def stays(kind: str, prefix: str, ours: Mapping[str, str], wanted: Collection[str]) -> dict[str, str]:
    """Return what of ``ours`` is there after a write, because we neither replace it nor take it away."""
    return {
        key: value
        for key, value in ours.items()
        if key not in wanted and not is_ours(kind, key.removeprefix(f"{prefix}/"))
    }


def size_of(annotations: Mapping[str, str]) -> int:
    """Return bytes of keys and values, as the API server counts them."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def keep_what_fits(wanted: Iterable[tuple[str, str]], taken_bytes: int) -> dict[str, str]:
    """Return as many of ``wanted`` (the most important first) as fit beside what is taken.

    Leaves 16 KiB free, for other writers.
    """
    left = TOTAL_BYTES - _SPARE_BYTES - taken_bytes
    kept: dict[str, str] = {}
    for key, value in wanted:
        size = size_of({key: value})
        if size <= left:
            kept[key] = value
            left -= size
    return kept


def diff(
    kind: str,
    prefix: str,
    wanted: Mapping[str, str],
    present: Mapping[str, str],
    surplus: Collection[str] = (),
) -> Patch:
    """Return what turns ``present`` into ``wanted``, on an object of our ``kind`` (node, pod, job).

    Keys of another prefix are never in it, nor keys of ours that this kind of object keeps for ever, but for
    those in ``surplus``.
    """
    patch: dict[str, str | None] = {key: value for key, value in wanted.items() if present.get(key) != value}
    for key in present:
        owner, _, name = key.partition("/")
        if owner == prefix and key not in wanted and (key in surplus or is_ours(kind, name)):
            patch[key] = None
    return patch


def worth_writing(
    kind: str,
    prefix: str,
    patch: Patch,
    wanted: Mapping[str, str],
    present: Mapping[str, str],
    threshold: ChangeThreshold,
    damped: Collection[str] = (),
) -> frozenset[str] | None:
    """Return the figures that changed by enough to matter, if the patch changes what ``threshold`` asks.

    None: it does not. With MUCH, a figure that is not ``damped`` has to have changed by enough.
    """
    changed = changed_figures(kind, patch, present)
    if threshold is ChangeThreshold.TIME_STAMP:
        return changed
    updated = f"{prefix}/{UPDATED}"
    if updated in present and present[updated] > wanted.get(updated, "~"):
        return None  # what is there is of a later time: after a restart older records are read again first
    if threshold is ChangeThreshold.ANY_FIGURE and any(_name(key) not in _NO_FIGURES for key in patch):
        return changed
    return changed if changed.difference(damped) else None


def changed_figures(kind: str, patch: Patch, present: Mapping[str, str]) -> frozenset[str]:
    """Return the figures in the patch that changed by enough to matter; the time stamp alone never is, and
    of plain values only a cycle or an end of memory that comes or goes.

    Each is named ``<key>``, or ``<key>/<name>`` within a value; on a node ``<name>`` for all of its GPUs.
    """
    changed: set[str] = set()
    for key, value in patch.items():
        name = _name(key)
        if name in _COME_AND_GO and (value is None or key not in present):
            changed.add(name)
        elif name not in _NO_FIGURES:
            path = "" if kind == "node" else name
            changed.update(_changed(path, name, _json(value), _json(present.get(key))))
    return frozenset(changed)


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _changed(path: str, name: str, first: Any, other: Any) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(other, dict):
        for key in first.keys() | other.keys():
            if key not in first or key not in other:
                yield f"{path}/{key}"
            else:
                yield from _changed(f"{path}/{key}", key, first[key], other[key])
    elif _differ(name, first, other):
        yield path or name


def _json(value: str | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _differ(name: str, first_value: Any, other: Any) -> bool:
    first, second = _figure(name, first_value), _figure(name, other)
    if first is not None and second is not None:
        tolerance, distance = _TOLERANCES.get(first[1], _USUAL), abs(first[0] - second[0])
        part = tolerance.part * max(abs(first[0]), abs(second[0]))
        return distance > tolerance.distance and distance > part
    if isinstance(first_value, list) and isinstance(other, list):
        # A bare number in a list is a name, such as a PID, and no quantity.
        return len(first_value) != len(other) or any(
            item != of_other if int in (type(item), type(of_other)) else _differ("", item, of_other)
            for item, of_other in zip(first_value, other, strict=True)
        )
    return bool(first_value != other)


def _figure(name: str, value: Any) -> tuple[float, str] | None:
    """Return a quantity, and what its tolerance is found by; None for what is no quantity."""
    if type(value) in (int, float):
        return float(value), name
    match = _AMOUNT.fullmatch(value) if type(value) is str else None
    return (float(match[1]), match[2]) if match else None
