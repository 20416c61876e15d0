"""Finds who is like a new pod: ended pods by how much of their template is the same, nearest first."""

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

NEWEST = 50
"""So many of the newest are kept of each likeness: what programs need changes with their versions."""


@dataclass(frozen=True, slots=True)
class Template:
    """Says what a pod is made from. What is not known is None, and makes nobody alike.

    ``owner``: a hash of the owner's pod template. ``job``: the name of the topmost owner, without a number at
    its end. ``labels``: of an ended pod those that are recorded, of a new one all. ``gpus`` and
    ``requests`` (CPU cores, bytes of memory): of one pod.
    """

    namespace: str
    owner: str | None = None
    job: str | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    labels: frozenset[tuple[str, str]] = frozenset()
    gpus: float | None = None
    requests: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class PastUse:
    """Holds what an ended pod used, by figure (see ``FIGURES``); what was not measured is not there."""

    figures: Mapping[str, float]
    kind: str | None = None


FIGURES = (
    "duration_s", "gpu_mem_bytes", "gpu_util_pct", "gpu_util_mean_pct", "cpu_cores", "mem_bytes", "period_s",
)  # fmt: skip
"""A run's duration, its peaks of one GPU (memory, utilization), the mean utilization of its GPUs, the p95 of
its CPU, its peak of memory, its cycle."""


@dataclass(frozen=True, slots=True)
class SimilarPods:
    """Holds ended pods that are alike in ``likeness``, the newest last."""

    likeness: str
    outcomes: tuple[PastUse, ...]


def _likenesses(template: Template) -> list[tuple[str, Hashable]]:
    """Return what pods may have in common with ``template``, nearest first; pods alike share the key."""
    keys: list[tuple[str, Hashable]] = []
    if template.owner is not None:
        keys.append(("owner template", template.owner))
    if template.job is not None:
        keys.append(("job name and GPUs", (template.job, template.gpus)))
    if template.image is not None and template.command is not None:
        keys.append(("image, command and GPUs", (template.image, template.command, template.gpus)))
    if template.image is not None and template.labels:
        keys.append(("image and labels", (template.image, template.labels)))
    if template.image is not None:
        keys.append(("image", template.image))
    if template.labels:
        keys.append(("labels and GPUs", (template.labels, template.gpus)))
    if template.requests is not None:
        keys.append(("namespace and requests", (template.gpus, template.requests)))
    keys.append(("namespace and GPUs", template.gpus))
    return [(name, (name, template.namespace, key)) for name, key in keys]


@dataclass(slots=True)
class SimilarPodIndex:
    """Finds ended pods by likeness. Pods of one namespace are not similar to those of another."""

    _by_key: dict[Hashable, deque[PastUse]] = field(default_factory=dict)
    _label_keys: set[str] = field(default_factory=set)
    """Labels of other keys are not recorded of anybody."""

    def add(self, template: Template, outcome: PastUse) -> None:
        """Add a pod that has ended."""
        self._label_keys.update(key for key, _ in template.labels)
        for _, key in _likenesses(template):
            self._by_key.setdefault(key, deque(maxlen=NEWEST)).append(outcome)

    def nearest(self, template: Template) -> SimilarPods | None:
        """Return the pods in the nearest likeness that has any; None where no pod is similar."""
        labels = frozenset(label for label in template.labels if label[0] in self._label_keys)
        for name, key in _likenesses(replace(template, labels=labels)):
            if similar := self._by_key.get(key):
                return SimilarPods(name, tuple(similar))
        return None
