"""Deletes what a trial has left whose program was killed.

A program that runs a trial says so every ten seconds, in an annotation of the Job that it has made.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from dutycycle.contract.records.pods import TRIAL_OF
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import GoneError
from dutycycle.kube.objects import ApiServer
from dutycycle.trial.manifest import ALIVE

BEAT_S = 10.0
SILENT = timedelta(seconds=60)
"""After so long its program counts as dead: six beats, and some difference between two machines' clocks."""
JOB = Kind("batch/v1", "Job", "jobs")


def stamp(now: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def is_left(meta: Mapping[str, Any], now: datetime) -> bool:
    """Tell whether the program that made this Job of a trial is gone."""
    moment = (meta.get("annotations") or {}).get(ALIVE) or meta["creationTimestamp"]
    try:
        heard = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:  # somebody else has written it
        return True
    return now - heard > SILENT


async def clean(server: ApiServer, namespace: str) -> tuple[list[str], list[str]]:
    """Begin to delete them: the names of these, and of those whose program is alive. Raises ``KubeError``."""
    now = datetime.now(UTC)
    deleted, alive = [], []
    async for meta in server.each(JOB, namespace, TRIAL_OF):
        if meta.get("deletionTimestamp"):
            continue
        if not is_left(meta, now):
            alive.append(str(meta["name"]))
            continue
        try:
            await server.delete(JOB, meta["name"], namespace, meta["uid"])
        except GoneError:
            continue
        deleted.append(str(meta["name"]))
    return deleted, alive
