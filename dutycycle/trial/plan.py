"""Plans which trials there are, and which of them the budget allows. Pure."""

from dataclasses import dataclass
from itertools import product

from dutycycle.contract.errors import SettingError
from dutycycle.trial.options import NodeLabel, TrialOptions
from dutycycle.trial.template import JobTemplate
from dutycycle.words import short_duration


@dataclass(frozen=True, slots=True)
class Variant:
    """Describes one way to run the Job. ``gpus``: of a pod; ``placement``: None for where the scheduler
    likes; ``model``: None for any GPU that the Job takes."""

    gpus: int
    pods: int
    placement: str | None = None
    model: NodeLabel | None = None

    @property
    def total(self) -> int:
        """Return the GPUs of all pods together."""
        return self.gpus * self.pods

    @property
    def name(self) -> str:
        """Return the name for a table, and in the names of objects: ``2gpu-4pods-packed-l4``."""
        pods = f"-{self.pods}pods" if self.pods > 1 else ""
        placement = f"-{self.placement}" if self.placement else ""
        return f"{self.gpus}gpu{pods}{placement}{f'-{self.model.short_name}' if self.model else ''}"

    def __str__(self) -> str:
        words = [f"gpus={self.gpus}", f"pods={self.pods}" if self.pods > 1 else ""]
        words += [f"placement={self.placement}" if self.placement else ""]
        words += [f"gpu-model={self.model}" if self.model else ""]
        return " ".join(filter(None, words))

    def minutes(self, seconds: float) -> float:
        """Return the GPU-minutes of so many seconds."""
        return self.total * seconds / 60


@dataclass(frozen=True, slots=True)
class Plan:
    """Holds ``variants`` in the order in which they run, cheapest first. ``notes``: what is not tried, and
    why."""

    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = ()


def plan_of(template: JobTemplate, options: TrialOptions) -> Plan:
    """Raises ``SettingError`` where the budget is too small for a single trial."""
    wanted = product(
        options.gpus or (template.gpus,), options.pods or (template.pods,), options.placements or (None,),
        options.gpu_models or (None,),
    )  # fmt: skip
    # Each once: of a single pod there is nothing to place.
    variants = dict.fromkeys(
        Variant(gpus, pods, placement if pods > 1 else None, model) for gpus, pods, placement, model in wanted
    )
    every = sorted(variants, key=lambda variant: (variant.total, variant.pods))
    notes = []
    if len(options.placements) > 1 and any(variant.pods == 1 for variant in every):
        notes.append("one pod has one node: packed and spread are the same for it, and it runs once")
    kept: list[Variant] = []
    spent = 0.0
    for variant in every:
        cost = variant.minutes(options.for_s)
        if spent + cost <= options.budget:
            spent += cost
            kept.append(variant)
        else:
            notes.append(
                f"{variant}: left out: {cost:g} GPU-minutes more are past the budget of {options.budget:g}"
            )
    if not kept:
        least = every[0]
        raise SettingError(
            f"--budget {options.budget:g}: GPU-minutes are too few for a single trial: {least} for "
            f"{short_duration(options.for_s)} takes {least.minutes(options.for_s):g}"
        )
    return Plan(tuple(kept), tuple(notes))
