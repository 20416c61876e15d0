"""Compares what owners used of what they are entitled to."""

from collections.abc import Iterable, Mapping


def excess(owner: str, used: Mapping[str, float], shares: Mapping[str, float]) -> float:
    """Return what ``owner`` used of its part: 1 is just that, and what it is while nobody used anything.

    ``used``: GPU-seconds by owner, of it and its rivals. Who used nothing has no part in the division.
    """
    active = dict.fromkeys([*(name for name, gpu_s in used.items() if gpu_s > 0), owner])
    total = sum(max(used.get(name, 0.0), 0.0) for name in active)
    if total <= 0:
        return 1.0
    entitled = shares.get(owner, 1.0) / sum(shares.get(name, 1.0) for name in active)
    return max(used.get(owner, 0.0), 0.0) / total / entitled


def excesses(
    owners: Iterable[str], used: Mapping[str, float], shares: Mapping[str, float]
) -> dict[str, float]:
    """Return the excess of each owner; the rivals of a namespace are the namespaces, and those of a team the
    teams."""
    return {
        owner: excess(owner, {name: used[name] for name in used if _kind(name) == _kind(owner)}, shares)
        for owner in owners
    }


def _kind(owner: str) -> str:
    return owner.partition(" ")[0]
