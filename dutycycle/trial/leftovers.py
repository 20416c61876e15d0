"""Deletes what a trial has left whose program was killed.

A program that runs a trial says so every ten seconds, in an annotation of the Job that it has made.
"""

import time
from collections.abc import Mapping
from typing import Any

from dutycycle.contract.records.pods import TRIAL_OF
from dutycycle.contract.units import unix_ms
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import GoneError
from dutycycle.kube.objects import ApiServer
from dutycycle.trial.manifest import ALIVE

BEAT_S = 10.0
_SILENT_MS = 60_000
"""After so long its program counts as dead: six beats, and some difference between two machines' clocks."""
JOB = Kind("batch/v1", "Job", "jobs")


def is_left(meta: Mapping[str, Any], now_ms: int) -> bool:
    """Tell whether the program that made this Job of a trial is gone."""
    moment = (meta.get("annotations") or {}).get(ALIVE) or meta["creationTimestamp"]
    try:
        heard_ms = unix_ms(moment)
    except ValueError:  # somebody else has written it
        return True
    return now_ms - heard_ms > _SILENT_MS


async def clean(server: ApiServer, namespace: str) -> tuple[list[str], list[str]]:
    """Begin to delete them: the names of these, and of those whose program is alive. Raises ``KubeError``."""
    now_ms = time.time_ns() // 1_000_000
    deleted, alive = [], []
    async for meta in server.each(JOB, namespace, TRIAL_OF):
        if meta.get("deletionTimestamp"):
            continue
        if not is_left(meta, now_ms):
            alive.append(str(meta["name"]))
            continue
        try:
            await server.delete(JOB, meta["name"], namespace, meta["uid"])
        except GoneError:
            continue
        deleted.append(str(meta["name"]))
    return deleted, alive
