"""Finds the pod, container or unit that a process runs in, by ``/proc/<pid>/cgroup`` alone.

``Attribution.of_pid`` is what other collectors use. Process ids are the host's: in a container that takes
``hostPID`` and the host's ``/proc`` under ``host_root``.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from collectors.attribution.cgroup_path import SLURM, CgroupId, CgroupKind, parse_cgroup_path
from collectors.files import read_small
from dutycycle.contract.units import printable_text
from dutycycle.telemetry.events import ATTRIBUTION_FAILED, Telemetry

_RANK = {CgroupKind.OTHER: 0, CgroupKind.UNIT: 1, CgroupKind.CONTAINER: 2, CgroupKind.POD: 3}
INCLUDED = {
    "pods": frozenset({CgroupKind.POD}),
    "containers": frozenset({CgroupKind.POD, CgroupKind.CONTAINER}),
    "all": frozenset(CgroupKind),
}
"""What each value of the setting ``containers`` reports."""
LASTING = frozenset({CgroupKind.POD, CgroupKind.CONTAINER})
"""What a process stays in once it is there. A runtime starts it in a unit of its own and moves it."""
_START_TIME = 19
"""The field of ``/proc/<pid>/stat`` with the start time, counted after the name (field 22 in proc(5))."""


class Unattributed(StrEnum):
    """Says why a process has no pod; the ``reason`` of the event ``attribution_failed``."""

    GONE = "gone"
    """It ended, or its pid is of another pid namespace than ``host_root``'s ``/proc``."""
    NO_CGROUP = "no_cgroup"
    """Its cgroup file cannot be read, or names no cgroup."""
    NOT_A_POD = "not_a_pod"
    """It runs outside everything that the setting ``containers`` includes."""


class Attribution:
    """Says whose a process is. One instance per collector; not safe for several threads.

    ``containers`` is the setting of that name: with "containers" or "all", what is no pod gets a synthetic
    uid, the same one as in ``cgroup-samples`` and ``pods``. At most ``capacity``
    answers are remembered, the latest used, each for the life of one process: a pid that is given to
    another process has another start time.
    """

    def __init__(
        self,
        *,
        node: str,
        telemetry: Telemetry,
        host_root: str = "/",
        containers: str = "pods",
        capacity: int = 4096,
    ) -> None:
        self._proc = Path(host_root) / "proc"
        self._node = node
        self._telemetry = telemetry
        self._included = INCLUDED[containers]
        self._capacity = capacity
        self._known: OrderedDict[tuple[int, int], CgroupId] = OrderedDict()

    def of_pid(self, pid: int) -> CgroupId | None:
        """Tell whose process ``pid`` is, or None: counted as ``attribution_failed`` with its reason.

        In the answer ``pod_uid`` is always set; ``container_id`` is absent for units and bare cgroups.
        """
        cgroup = self.explain(pid)
        if isinstance(cgroup, CgroupId):
            return cgroup
        self._telemetry.emit(ATTRIBUTION_FAILED, f"process {pid}", reason=cgroup.value)
        return None

    def explain(self, pid: int) -> CgroupId | Unattributed:
        """Return the same as ``of_pid``, but says why there is no answer, and counts nothing."""
        started = read_start_time(self._proc, pid)
        if started is None:
            return Unattributed.GONE
        key = (pid, started)
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return known
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="surrogateescape")
        except (FileNotFoundError, ProcessLookupError):
            return Unattributed.GONE
        except OSError:
            return Unattributed.NO_CGROUP
        if not (paths := cgroup_paths(text)):
            return Unattributed.NO_CGROUP
        cgroup = best_of(paths)
        if cgroup is None or cgroup.kind not in self._included:
            return Unattributed.NOT_A_POD
        if not cgroup.pod_uid:
            cgroup = replace(cgroup, pod_uid=cgroup.synthetic_uid(self._node))
        if cgroup.kind in LASTING:
            self._known[key] = cgroup
            if len(self._known) > self._capacity:
                self._known.popitem(last=False)
        return cgroup


def read_start_time(proc: Path, pid: int) -> int | None:
    """Read when a process started, in clock ticks since the machine did; None for one that is gone."""
    try:
        stat = read_small(f"{proc}/{pid}/stat")
        # The name may hold anything, spaces and brackets too: the fields begin after its last bracket.
        return int(stat[stat.rindex(b")") + 1 :].split()[_START_TIME])
    except (OSError, ValueError, IndexError):
        return None


def cgroup_paths(text: str) -> list[str]:
    """Return the paths in a ``/proc/<pid>/cgroup``: v2 has one line (``0::path``), v1 one per hierarchy."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return [fields[2] for fields in lines if len(fields) == 3]


def best_of(paths: Iterable[str]) -> CgroupId | None:
    """Return the most specific of a process's cgroups: on v1 it may be in a container, or a job of Slurm, in
    some hierarchies only; of a job in the others it is ``slurmd.service``'s."""
    cgroups = (parse_cgroup_path(path) for path in dict.fromkeys(paths))
    return max(
        (cgroup for cgroup in cgroups if cgroup is not None),
        key=lambda cgroup: (_RANK[cgroup.kind], cgroup.namespace == SLURM, len(cgroup.path)),
        default=None,
    )


def printable(text: str) -> str | None:
    """Return ``text`` with "?" for what cannot be printed, 1024 characters at most; None for an empty one."""
    return printable_text(text).strip()[:1024] or None
