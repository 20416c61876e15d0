"""Collects what each pod does, by the logs of the libraries that intercept its calls.

Whose log it is says the file ``podInfo`` beside it: ``podname:bert-0``, ``namespace:team``.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from collectors.base import Tick, of_node
from collectors.cuda.log_file import CudaUse, PolledLog
from collectors.rates import rounded_pct
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.samples import CudaPod, CudaSample
from dutycycle.contract.units import sum_of_all
from dutycycle.telemetry.events import ATTRIBUTION_FAILED, CUDA_LOG_UNREADABLE, Telemetry

_LOG_FILE = "metrics.log"
_POD_FILE = "podInfo"
_UID = ("uid", "pod_uid", "poduid")
_MOST_LOGS = 1024
_US_PER_PCT = 10_000
_UNREAD = CudaUse(None, None, None, None, bad_lines=0)
"""The use by a log that could not be read at this tick."""


@dataclass(frozen=True, slots=True)
class PodName:
    """Names a pod by its names; ``uid`` where the file has it."""

    namespace: str
    pod: str
    uid: str | None = None


class CudaCollector:
    """Reads ``<folder>/<any>/metrics.log``, and ``podInfo`` beside it. A pod may have several.

    ``uid_of``: the pods of the API server, for a file that tells no uid. A pod that is not known is left out.
    """

    name = "cuda"

    def __init__(
        self,
        telemetry: Telemetry,
        folder: Path,
        uid_of: Callable[[str, str], str | None],
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._telemetry = telemetry
        self._folder = folder
        self._uid_of = uid_of
        self._wall_s = wall_s
        self._logs: dict[Path, PolledLog] = {}

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Return a ``cuda-samples`` record with the pods whose logs were written, or nothing if there are
        none."""
        pods: dict[str, list[CudaUse]] = defaultdict(list)
        paths = sorted(self._folder.glob(f"*/{_LOG_FILE}"))[:_MOST_LOGS]
        self._logs = {path: self._logs.get(path) or PolledLog(path) for path in paths}
        for path in paths:
            try:
                use = self._logs[path].use(tick.monotonic_s, self._wall_s())
            except FileNotFoundError:  # rotated in this moment: the new one comes
                use = _UNREAD
            except OSError as error:
                detail = f"{path}: {error.strerror}"
                self._telemetry.emit(CUDA_LOG_UNREADABLE, detail, reason="not_readable")
                use = _UNREAD
            if use is not None and use.bad_lines:
                detail = f"{path}: {use.bad_lines} lines are no counters"
                self._telemetry.emit(CUDA_LOG_UNREADABLE, detail, count=use.bad_lines, reason="bad_line")
            if use is not None and (uid := self._owner(path.with_name(_POD_FILE))) is not None:
                pods[uid].append(use)
        read = [uid for uid in sorted(pods) if any(use is not _UNREAD for use in pods[uid])]
        if not read:
            return ()
        # Sums over the logs of a pod, each known where all of them tell it. Of a log that is new the rates
        # are not known yet, and the others' are no sum.
        cuda_pods = []
        for uid in read:
            logs = pods[uid]
            burst = sum_of_all(log.burst_us_per_s for log in logs)
            cuda_pods.append(
                CudaPod(
                    uid=uid,
                    kernel_launches_per_s=_rounded(sum_of_all(log.launches_per_s for log in logs)),
                    kernel_burst_pct=None if burst is None else rounded_pct(burst / _US_PER_PCT),
                    memcpys_per_s=_rounded(sum_of_all(log.copies_per_s for log in logs)),
                    cuda_mem_used_bytes=sum_of_all(log.mem_used_bytes for log in logs),
                )
            )
        return (of_node("cuda-samples", CudaSample(**tick.head, pods=tuple(cuda_pods))),)

    def close(self) -> None:
        """Do nothing: nothing is held open."""

    def _owner(self, path: Path) -> str | None:
        """Return the uid of the pod that a file names. Whose log it is can change: a folder may be used
        again."""
        who = None
        with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
            who = pod_name(file.read(4096))
        if who is None:
            detail = f"{path}: expected the lines podname:… and namespace:…"
            self._telemetry.emit(CUDA_LOG_UNREADABLE, detail, reason="no_pod")
            return None
        uid = who.uid or self._uid_of(who.namespace, who.pod)
        if uid is None:
            detail = f"{path}: the uid of {who.namespace}/{who.pod} is not known"
            self._telemetry.emit(ATTRIBUTION_FAILED, detail, reason="no_uid")
        return uid


def pod_name(text: str) -> PodName | None:
    """Return the pod that a file names; None where it names none."""
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip().lower(): value.strip() for key, _, value in pairs}
    pod, namespace = fields.get("podname") or fields.get("pod_name"), fields.get("namespace")
    if not pod or not namespace:
        return None
    return PodName(namespace, pod, next((fields[key] for key in _UID if fields.get(key)), None))


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)
