"""Snapshots of older versions, made into ones of today, one step after the other."""

from collections.abc import Callable, Mapping
from typing import Any

from streams.operators.base import Snapshot
from streams.operators.columns.arrays import check_version

Step = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes a snapshot of one version into one of the next, but for its ``v``."""


def migrated(snapshot: Snapshot, version: int, what: str, steps: Mapping[int, Step]) -> Snapshot:
    """``snapshot`` in ``version``; ``steps`` by the version that each begins with.

    Raises ``ValueError`` for a version that is newer, or that no step begins with: such a state begins anew.
    """
    found = snapshot.get("v")
    while type(found) is int and found < version and found in steps:
        snapshot = {**steps[found](snapshot), "v": found + 1}
        found += 1
    check_version(snapshot, version, what)
    return snapshot
