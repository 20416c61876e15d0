"""Collects what processes run, and the steps of their training loops."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from collectors.attribution.processes import Attribution
from collectors.base import Tick, of_node
from collectors.process.socket import StepSocket
from collectors.process.software import Processes
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.processes import Process, ProcessSample
from dutycycle.telemetry.events import PROCESSES_LEFT_OUT, Telemetry

_AGAIN_S = 60.0
_BUDGET_S = 0.1
"""Of a tick. A training takes some milliseconds; what is left is read at the next tick."""
_MOST = 256
_Pids = Callable[[], Iterable[int]]


class ProcessCollector:
    """Reads each process when it is new, ``first_s`` later, and at doubled distances up to every minute.

    ``users``: the processes that use a GPU. ``others`` may be trainings as well: of them only those count
    that have loaded a framework and are neither launchers nor data-loader workers. ``steps``: where training
    loops report, if they can; who reports is a user. ``attribution`` says whose a process is; nobody's are
    left out.
    """

    name = "process"

    def __init__(
        self,
        telemetry: Telemetry,
        attribution: Attribution,
        users: _Pids,
        *,
        others: _Pids = tuple,
        steps: StepSocket | None = None,
        host_root: str = "/",
        first_s: float = _AGAIN_S,
    ) -> None:
        self._telemetry = telemetry
        self._attribution = attribution
        self._users, self._others = users, others
        self._steps = steps
        self._proc = Path(host_root) / "proc"
        self._first_s = first_s
        self._due: dict[int, tuple[float, float]] = {}
        """Of each process when it is read next, and the distance to the time after that. Seconds."""
        self._trained: set[int] = set()

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Return a ``processes`` record with those that were read or reported; nothing if there are none."""
        reports = {report.pid: report for report in (self._steps.take() if self._steps else ())}
        for pid in reports.keys() - self._trained:  # now it has loaded all that it needs, and has its workers
            self._due.pop(pid, None)
        self._trained = (self._trained & self._due.keys()) | reports.keys()
        ranks = frozenset(self._users()) | reports.keys()
        for process in self._read(ranks, frozenset(self._others()) - ranks, tick.monotonic_s):
            before = reports.get(process.pid)
            loop = before.loop if before is not None and before.pod_uid == process.pod_uid else None
            reports[process.pid] = Process(
                pid=process.pid, pod_uid=process.pod_uid, container_id=process.container_id,
                name=process.name, software=process.software, loop=loop,
            )  # fmt: skip
        if not reports:
            return ()
        processes = tuple(reports[pid] for pid in sorted(reports))
        return (of_node("processes", ProcessSample(**tick.head, processes=processes)),)

    def close(self) -> None:
        """Close the socket."""
        if self._steps is not None:
            self._steps.close()

    def _read(self, ranks: frozenset[int], others: frozenset[int], now_s: float) -> Iterator[Process]:
        # The processes that are due to be read, and forget those that are gone
        there = [*sorted(ranks), *sorted(others)]
        if len(there) > _MOST:
            self._telemetry.emit(PROCESSES_LEFT_OUT, f"{len(there)} processes", count=len(there) - _MOST)
        self._due = {pid: self._due.get(pid, (now_s, self._first_s)) for pid in there[:_MOST]}
        due = [pid for pid, (at_s, _) in self._due.items() if at_s <= now_s]
        if not due:
            return
        begun = time.perf_counter()
        processes = Processes(self._proc)
        asked = ranks | others if others else ()
        aside = {worker for pid in asked for worker in processes.workers(pid, ranks)[0]}
        aside |= {pid for pid in others if processes.is_launcher(pid)}
        for number, pid in enumerate(due):
            if number and time.perf_counter() - begun > _BUDGET_S:
                return
            again_s = self._due[pid][1]
            self._due[pid] = (now_s + again_s, min(2 * again_s, _AGAIN_S))
            software = processes.software(pid, ranks)
            if software is None or (pid in others and not (software.frameworks and pid not in aside)):
                continue
            if (owner := self._attribution.of_pid(pid)) is not None and owner.pod_uid is not None:
                yield Process(
                    pid=pid, pod_uid=owner.pod_uid, container_id=owner.container_id,
                    name=processes.name(pid), software=software,
                )  # fmt: skip
