"""Computes a pod's priority: one number, given once, with its ageing in it.

The place in the queue is a moment, ``arrival + delay``; the earlier goes first. ``delay`` grows with the
predicted duration, so short pods go first. A pod is overtaken only by pods that come within its delay, and
the delay has a bound: so no pod starves in the queue. A priority that grew with the time waited, at one rate
for all pods, would give the same order at any time: so it need not grow, and Kubernetes would not let it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sinks.scheduling.core.classes import quantum
from sinks.scheduling.core.policy import Policy

_LEAST, _MOST = 0.25, 8.0
"""Bounds of what use in the past does to the delay."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Holds a place in the queue. ``priority`` is what the PriorityClass has. ``delay_s``: what comes later
    does not overtake."""

    priority: int
    delay_s: float
    reason: str


def place(
    policy: Policy, arrival_s: float, duration_s: float | None, gpus: float,
    excess: Mapping[str, float], user_class: str = "",
) -> Placed:  # fmt: skip
    """Return the priority of a pod that came at ``arrival_s`` (Unix seconds).

    ``duration_s``: predicted; None without similar pods. ``gpus``: of the whole job. ``excess``: what its
    namespace and its team used of what they are entitled to, by name; the largest counts.
    """
    length = policy.unknown_s if duration_s is None else duration_s
    who, most = max(excess.items(), key=lambda pair: pair[1], default=("", 1.0))
    factor = min(max(most, _LEAST), _MOST) ** policy.fairness
    wanted = policy.stretch * length * max(gpus, 1.0) ** policy.size_exponent * factor
    delay = min(wanted, policy.longest_s)
    band = policy.band(user_class)
    priority = min(max(band.high - quantum(policy, arrival_s + delay), band.low), band.high)
    parts = [
        f"expected to take {length:.0f} s"
        if duration_s is not None
        else f"no similar pods: taken for {length:.0f} s",
        "1 GPU" if gpus == 1 else f"{gpus:g} GPUs",
    ]
    if who:
        parts.append(f"{who} used {most:.1f} times its share")
    parts.append(f"what comes later than {delay:.0f} s after it does not overtake it")
    return Placed(priority, delay, "; ".join(parts))
