"""Parses what trials are asked for: by flags, or by the annotation ``trial`` of a Job, in the same words.
Pure.

``gpus=1,2,4 pods=1,2 gpu-model=NVIDIA-L4 placement=packed,spread for=3m budget=60 best=joules``
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.parsers import duration, number
from dutycycle.words import short_duration

_PLACEMENTS = ("packed", "spread")
GOALS = ("gpu-seconds", "joules", "rate")
LEAST_S = 60.0
"""A cycle is looked for in a window that has to fill, and a bottleneck takes a minute of work."""
_DEFAULT_S = 180.0
PRIORITY_CLASS = "dutycycle-trial"
_MOST_NUMBERS = 16
_LONGEST_MODEL = 20
_GPU_PRODUCT = "nvidia.com/gpu.product"
"""The label of nodes that NVIDIA's GPU Feature Discovery writes."""
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9][a-z0-9.-]{0,252}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """Names a label that nodes with one model of GPU have."""

    key: str
    value: str

    @property
    def short_name(self) -> str:
        """Return the model in the names of objects: letters, digits and dashes, such as
        ``a100-sxm4-80gb``."""
        words = re.sub(r"[^a-z0-9]+", "-", self.value.lower()).removeprefix("nvidia-")
        return words[:_LONGEST_MODEL].strip("-")

    def __str__(self) -> str:
        return self.value if self.key == _GPU_PRODUCT else f"{self.key}={self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions:
    """Says which trials are wanted. ``gpus``: of a pod; ``pods``: that run together; empty for the Job's.
    ``gpu_models``: labels of the nodes to run on; empty for those that the Job takes. ``placements``: empty
    for no rule. ``for_s``: from the first container that runs; ``budget``: GPU-minutes of all trials.
    ``start_s``: how long one may wait for its nodes; ``at_once``: so many beside one another, where there is
    room."""

    gpus: tuple[int, ...] = ()
    pods: tuple[int, ...] = ()
    gpu_models: tuple["NodeLabel", ...] = ()
    placements: tuple[str, ...] = ()
    for_s: float = _DEFAULT_S
    budget: float = 60.0
    best: str = GOALS[0]
    start_s: float = 600.0
    at_once: int = 1
    priority_class: str = PRIORITY_CLASS


def numbers(text: str) -> tuple[int, ...]:
    """Parse ``1,2,4``, each once. Raises ``ValueError``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and 1 <= int(part) <= 10_000 for part in parts):
        raise ValueError(f"{text!r}: expected numbers from 1 on, such as 1,2,4")
    if len(parts) > _MOST_NUMBERS:
        raise ValueError(f"{text!r}: has {len(parts)} numbers: give {_MOST_NUMBERS} at most")
    return tuple(dict.fromkeys(int(part) for part in parts))


def placements(text: str) -> tuple[str, ...]:
    """Parse ``packed,spread``, each once. Raises ``ValueError``."""
    placements = tuple(dict.fromkeys(placement.strip() for placement in text.split(",")))
    for placement in placements:
        if placement not in _PLACEMENTS:
            raise ValueError(f"{placement!r}: is no placement: expected {' or '.join(_PLACEMENTS)}, or both")
    return placements


def gpu_models(text: str) -> tuple[NodeLabel, ...]:
    """Parse ``NVIDIA-L4,cloud.google.com/gke-accelerator=nvidia-h100-80gb``, each once: the value of a node's
    label ``nvidia.com/gpu.product``, or another label with its value. Raises ``ValueError``."""
    models = []
    for part in dict.fromkeys(part.strip() for part in text.split(",")):
        key, equals, value = part.partition("=")
        label = NodeLabel(key, value) if equals else NodeLabel(_GPU_PRODUCT, part)
        if not _LABEL_KEY.fullmatch(label.key) or not _LABEL_VALUE.fullmatch(label.value):
            raise ValueError(
                f"{part!r}: expected the value of the node label {_GPU_PRODUCT}, such as NVIDIA-L4, or "
                "LABEL=VALUE of another"
            )
        models.append(label)
    names = [label.short_name for label in models]
    if len(set(names)) < len(names):
        raise ValueError(
            f"{text!r}: two of them have the same first letters, and so the same name of a trial"
        )
    return tuple(models)


def long_enough(text: str) -> float:
    """Return ``3m`` in seconds. Raises ``ValueError`` for less than it takes to find a cycle."""
    seconds = duration(text)
    if seconds < LEAST_S:
        raise ValueError(
            f"{text!r}: a cycle and a bottleneck cannot be found in less than {short_duration(LEAST_S)}"
        )
    return seconds


gpu_minutes = number(lambda minutes: 0 < minutes < 1e9, "GPU-minutes, such as 60")


def goal(text: str) -> str:
    """Raises ``ValueError``."""
    if text not in GOALS:
        raise ValueError(f"{text!r}: expected one of {', '.join(GOALS)}")
    return text


_WORDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "gpus": ("gpus", numbers), "pods": ("pods", numbers),
    "gpu-model": ("gpu_models", gpu_models), "placement": ("placements", placements),
    "for": ("for_s", long_enough), "budget": ("budget", gpu_minutes), "best": ("best", goal),
}  # fmt: skip


def options_of(text: str, usual: TrialOptions) -> TrialOptions:
    """Return what an annotation asks for; ``usual``: what it does not say, and the largest budget. Raises
    ``SettingError``."""
    given: dict[str, Any] = {}
    for setting in text.split():
        word, equals, value = setting.partition("=")
        if word not in _WORDS or not equals:
            raise SettingError(f"{setting!r}: expected {', '.join(f'{name}=…' for name in _WORDS)}")
        name, parse = _WORDS[word]
        if name in given:
            raise SettingError(f"{setting!r}: {word} is given twice")
        try:
            given[name] = parse(value)
        except ValueError as error:
            raise SettingError(f"{word}={error}") from error
    options = replace(usual, **given)
    if options.budget > usual.budget:
        raise SettingError(f"budget={options.budget:g}: here are {usual.budget:g} GPU-minutes at most")
    return options
