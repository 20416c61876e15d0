"""Chooses what of a trace a report is about: everything, one job, or one pod."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dutycycle.contract.errors import NotMeasuredError
from dutycycle.contract.records.pods import Pod
from dutycycle.report.gather import Gathered, GpuKey, Plain, TracedGpu
from dutycycle.traces.frames import Frame, FrameTicks
from dutycycle.traces.subject import NAMED, TraceSubject, qualified, subject_of

Span = tuple[int, int]
"""Begins and ends at these milliseconds, both included."""


@dataclass(frozen=True, slots=True)
class GpuView:
    """Holds one GPU that the report shows: its name there, and its ticks in the report's time; of a job those
    of the time in which one of its pods lived that used the GPU."""

    name: str
    traced: TracedGpu
    ticks: FrameTicks


@dataclass(frozen=True, slots=True)
class HostView:
    """Holds a pod or a node, by what its cgroups or its kernel count. ``key``: its subject's, as on Kafka."""

    name: str
    key: str
    ticks: FrameTicks
    of_pod: bool
    mem_total_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Holds the subjects of a report, and its time, both ends included.

    ``subjects``: the keys of the pods and jobs whose insights count. ``others``: pods that used the same GPUs
    at the same time, whose use is in the figures of these GPUs too. ``is_of_one``: it is of one job or pod,
    so that its GPUs can be set against what that one did. ``slices``: the ticks of MIG slices, of a job or
    pod those that it was given.
    """

    title: str
    first_ms: int
    last_ms: int
    gpus: list[GpuView]
    pods: list[HostView]
    hosts: list[HostView]
    subjects: dict[str, str]
    others: list[str]
    is_of_one: bool = True
    slices: Sequence[FrameTicks] = ()

    @property
    def nodes(self) -> list[str]:
        """Return the hosts of its GPUs, and those that are shown themselves."""
        return sorted({gpu.traced.node for gpu in self.gpus} | {host.name for host in self.hosts})

    @property
    def machines(self) -> list[HostView]:
        """Return whose CPU, memory and I/O are shown: the chosen pods', or the nodes'."""
        return self.pods or self.hosts

    @property
    def pods_on_network(self) -> list[HostView]:
        """Return the pods whose network is known: of the others that of their nodes is shown."""
        return [pod for pod in self.pods if pod.ticks.most("net_rx_bytes_per_s") is not None]

    @property
    def parts(self) -> list[GpuView | HostView]:
        """Return everything whose ticks are shown."""
        return [*self.gpus, *self.machines]


def view_of(gathered: Gathered, *, job: str | None = None, pod: str | None = None) -> View:
    """Choose by a name, with or without its namespace, or a uid; without one everything.

    Raises ``DutycycleError`` for one that is not there, or that several have.
    """
    if gathered.first_ms is None or gathered.last_ms is None:
        raise NotMeasuredError("there is no sample to report on")
    if job is not None or pod is not None:
        return _of_subject(gathered, subject_of(gathered.identities.values(), job=job, pod=pod))
    first_ms, last_ms = gathered.first_ms, gathered.last_ms
    users = sorted({uid for gpu in gathered.gpus.values() for uid in gpu.users})
    known = gathered.identities
    jobs = {uid: ref for uid in users if uid in known and (ref := known[uid].job) is not None}
    pods_of = Counter(ref.uid for ref in jobs.values())
    subjects = {f"job/{ref.uid}": f"job {ref.name}" for ref in jobs.values() if pods_of[ref.uid] > 1}
    subjects |= {f"pod/{uid}": _named(gathered, uid) for uid in users}
    nodes = sorted({key[0] for key in gathered.gpus} | set(gathered.hosts))
    return View(
        title=", ".join(nodes[:NAMED]) + (" …" if len(nodes) > NAMED else ""),
        first_ms=first_ms,
        last_ms=last_ms,
        gpus=_gpu_views(
            gathered,
            {key: [(first_ms, last_ms)] for key in gathered.gpus},
            _nodes_of(gathered.gpus),
        ),
        pods=[],
        hosts=_host_views(gathered, nodes, first_ms, last_ms),
        subjects=subjects,
        others=[],
        is_of_one=len({jobs[uid].uid if uid in jobs else uid for uid in users}) <= 1,
        slices=_slices_of(gathered.gpus.values(), None, first_ms, last_ms),
    )


def _of_subject(gathered: Gathered, subject: TraceSubject) -> View:
    chosen, ref = subject.pods, subject.job
    uids = {pod.uid for pod in chosen}
    mine = {key: gpu for key, gpu in gathered.gpus.items() if not uids.isdisjoint(gpu.users)}
    cgroups = {uid: frame for uid in uids if (frame := gathered.pods.get(uid)) is not None and len(frame)}
    first_ms, last_ms = _span_of(chosen, mine.values(), cgroups)
    lives = {
        pod.uid: _span_of([pod], mine.values(), {uid: of for uid, of in cgroups.items() if uid == pod.uid})
        for pod in chosen
        if any(pod.uid in gpu.users for gpu in mine.values())
    }
    had = {key: [lives[uid] for uid in gpu.users if uid in lives] for key, gpu in mine.items()}
    nodes = sorted({key[0] for key in mine} | {pod.node for pod in chosen})
    order = {pod.uid: (_replica(pod), pod.name) for pod in chosen}
    pods = [
        HostView(
            gathered.identities[uid].name, f"pod/{uid}", cgroups[uid].between(first_ms, last_ms), of_pod=True
        )
        for uid in sorted(cgroups, key=lambda uid: order[uid])
    ]
    others = {
        uid
        for key, gpu in mine.items()
        for uid, span in gpu.users.items()
        if uid not in uids and any(span[0] <= life[1] and span[1] >= life[0] for life in had[key])
    }
    subjects = {f"pod/{pod.uid}": qualified(pod, pod.name) for pod in chosen}
    title = qualified(chosen[0], chosen[0].name if ref is None else ref.name)
    if ref is not None:
        subjects = {f"job/{ref.uid}": f"job {ref.name}", **subjects}
    return View(
        title=title,
        first_ms=first_ms,
        last_ms=last_ms,
        gpus=_gpu_views(gathered, had, _ranks_of(mine, subject)),
        pods=pods,
        hosts=_host_views(gathered, nodes, first_ms, last_ms),
        subjects=subjects,
        others=sorted(_named(gathered, uid) for uid in others),
        slices=_slices_of(mine.values(), uids, first_ms, last_ms),
    )


def _slices_of(
    gpus: Iterable[TracedGpu], uids: Collection[str] | None, first_ms: int, last_ms: int
) -> list[FrameTicks]:
    """Return the MIG slices that these pods were given; all for None."""
    return [
        piece.frame.between(first_ms, last_ms)
        for gpu in gpus
        for piece in gpu.slices.values()
        if uids is None or not piece.users.isdisjoint(uids)
    ]


def _span_of(chosen: Sequence[Pod], gpus: Iterable[TracedGpu], cgroups: Mapping[str, Frame]) -> Span:
    """Return the time from the first to the last that was measured of these pods. Raises
    ``DutycycleError``."""
    uids = {pod.uid for pod in chosen}
    spans = [span for gpu in gpus for uid, span in gpu.users.items() if uid in uids]
    for frame in cgroups.values():
        times = frame.between(0, 2**62).times
        spans.append([int(times[0]), int(times[-1])])
    if not spans:
        raise NotMeasuredError(
            f"{qualified(chosen[0], chosen[0].name)}: is named in the trace, and nothing of it was measured"
        )
    return min(span[0] for span in spans), max(span[1] for span in spans)


def _gpu_views(
    gathered: Gathered, had: Mapping[GpuKey, Sequence[Span]], names: Mapping[GpuKey, str]
) -> list[GpuView]:
    """Return GPUs in the order of ``names``: what to call the node, or the rank, of each GPU. ``had``: the
    times of each that count."""
    places = list(names.values())
    keys = sorted(had, key=lambda key: (places.index(names[key]), key[0], gathered.gpus[key].index))
    several = len(set(places)) > 1
    return [
        GpuView(f"{names[key]} gpu {gpu.index}" if several else f"gpu {gpu.index}", gpu, ticks)
        for key in keys
        if len((ticks := (gpu := gathered.gpus[key]).frame.during(had[key])).times)
    ]


def _nodes_of(gpus: Iterable[GpuKey]) -> dict[GpuKey, str]:
    return {key: key[0] for key in sorted(gpus)}


def _ranks_of(gpus: Mapping[GpuKey, TracedGpu], subject: TraceSubject) -> dict[GpuKey, str]:
    """Return of each GPU the role and number of the pod that used it, such as "worker 3"; its node if a pod
    has no number, or two GPUs would have one name."""
    pods = sorted(subject.pods, key=_replica)
    names = {
        key: f"{ranked.job.role or 'rank'} {ranked.job.replica}"
        for ranked in pods
        if ranked.job is not None and ranked.job.replica is not None
        for key, gpu in gpus.items()
        if ranked.uid in gpu.users
    }
    distinct = {(names.get(key), gpu.index) for key, gpu in gpus.items()}
    return names if len(names) == len(distinct) == len(gpus) else _nodes_of(gpus)


def _host_views(gathered: Gathered, nodes: Iterable[str], first_ms: int, last_ms: int) -> list[HostView]:
    hosts = ((node, gathered.hosts[node]) for node in nodes if node in gathered.hosts)
    return [
        HostView(node, f"node/{node}", host.frame.between(first_ms, last_ms), False, host.mem_total_bytes)
        for node, host in hosts
    ]


def _replica(pod: Pod) -> int:
    return pod.job.replica if pod.job is not None and pod.job.replica is not None else -1


def _named(gathered: Gathered, uid: str) -> str:
    pod = gathered.identities.get(uid)
    return qualified(pod, pod.name) if pod is not None else uid


def insights_of(gathered: Gathered, view: View) -> dict[str, list[Plain]]:
    """Return the insights of each subject that has any, oldest first."""
    return {key: records for key in view.subjects if (records := gathered.insights.get(key))}
