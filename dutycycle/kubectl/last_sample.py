"""Tells when a node, pod or job was sampled last, by the heartbeats of nodes: a live collector or a dead one.

A running pod was sampled last when its node was; one that has ended when its own annotation says. A job was
sampled last when that of its running pods was which was sampled the longest ago: one silent node is enough.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dutycycle.contract.units import rfc3339, unix_ms
from dutycycle.kube.heartbeat import SELECTOR, Heartbeat, heartbeat_of
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import Json, of_job, ours
from dutycycle.kubectl.api import Api, ForbiddenError, ListedPod, NotThereError
from sinks.annotations.core.keys import UPDATED


class Sampling(StrEnum):
    """Says whether samples come."""

    LIVE = "live"
    STALE = "stale"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LastSample:
    """Says whether samples come, and when the last one did; ``at_ms`` is None where it is not known."""

    sampling: Sampling = Sampling.UNKNOWN
    at_ms: int | None = None

    def plain(self) -> dict[str, str]:
        """Return it as plain objects for JSON: ``sampling``, and ``last_sample`` where it is known."""
        moment = {} if self.at_ms is None else {"last_sample": rfc3339(self.at_ms)}
        return {"sampling": str(self.sampling)} | moment

    def text(self, now_ms: int, ago: str = "") -> str:
        """Return ``12s``, ``35m (stale)``, ``2h (ended)`` or ``-``; with ``ago`` behind the age."""
        if self.at_ms is None:
            return output.DASH
        mark = "" if self.sampling is Sampling.LIVE else f" ({self.sampling})"
        return output.age_of(self.at_ms, now_ms) + ago + mark


class LastSamples:
    """Reads what the heartbeats say now. ``problem``: why they say nothing, None where there are some."""

    def __init__(self, beats: Mapping[str, Heartbeat], now_ms: int, problem: str | None = None) -> None:
        self._beats = beats
        self.now_ms = now_ms
        self.problem = problem

    @classmethod
    def read(cls, api: Api) -> "LastSamples":
        """Return one request, whatever is asked for then."""
        now_ms = round(time.time() * 1000)
        try:
            beats = newest(filter(None, map(heartbeat_of, api.leases(SELECTOR))))
        except ForbiddenError as error:
            return cls({}, now_ms, str(error))
        except NotThereError:
            beats = {}
        none = f"no node has a heartbeat, which is a Lease with the label {SELECTOR}: do the sinks run?"
        return cls(beats, now_ms, None if beats else none)

    def of_node(self, node: str | None) -> LastSample:
        """Return the last sample of a node by its name."""
        beat = self._beats.get(node or "")
        if beat is None:
            return LastSample()
        sampling = Sampling.STALE if beat.is_stale(self.now_ms) else Sampling.LIVE
        return LastSample(sampling, beat.sampled_ms)

    def of_pod(self, pod: ListedPod, annotations: Json) -> LastSample:
        """Return the last sample of a pod with these annotations."""
        return ended(annotations.get(UPDATED)) if pod.has_ended else self.of_node(pod.node)


class JobSamples:
    """Reads the same of jobs, by the pods that are there. ``problem`` as of ``LastSamples``."""

    def __init__(self, api: Api, prefix: str, namespace: str | None) -> None:
        self._nodes = LastSamples.read(api)
        self.now_ms = self._nodes.now_ms
        self.problem = self._nodes.problem
        self._pods: dict[tuple[str, str], LastSample] = {}
        try:
            pods = api.pods(namespace) if self.problem is None else []
        except ForbiddenError as error:
            self.problem = str(error)
            return
        for pod in pods:
            annotations = ours(pod.meta.get("annotations"), prefix)
            self._pods[pod.meta["namespace"], pod.meta["name"]] = self._nodes.of_pod(pod, annotations)

    def of_job(self, namespace: str, annotations: Json) -> LastSample:
        """Return the last sample of a job with these annotations."""
        names = ((namespace, worker.pod) for worker in of_job(annotations))
        return of_all([self._pods[name] for name in names if name in self._pods])


def ended(updated: Any) -> LastSample:
    """Return the last sample of what has ended, by its own time stamp; unknown where that is no time."""
    try:
        return LastSample(Sampling.ENDED, unix_ms(updated))
    except (TypeError, ValueError):  # absent, or somebody else's hand
        return LastSample()


def of_all(pods: Sequence[LastSample]) -> LastSample:
    """Return the last sample of a job with these pods: the oldest of those that run, else the newest of
    all."""
    running = [pod for pod in pods if pod.sampling is not Sampling.ENDED]
    if not running:
        return max(pods, key=lambda pod: pod.at_ms or 0, default=LastSample())
    return min(running, key=lambda sample: sample.at_ms or 0)


def newest(beats: Iterable[Heartbeat]) -> dict[str, Heartbeat]:
    """Return the newest of each node: two installations may write one each."""
    heartbeats: dict[str, Heartbeat] = {}
    for beat in sorted(beats, key=lambda heartbeat: heartbeat.sampled_ms):
        heartbeats[beat.node] = beat
    return heartbeats
