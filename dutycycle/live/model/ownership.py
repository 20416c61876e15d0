"""Tells what each pod uses of the GPUs of a node at one tick. Apart from the rest because it brings numpy."""

from collections import defaultdict
from dataclasses import dataclass, field

from dutycycle.contract.ownership.now import uses_of_gpus
from dutycycle.contract.records.samples import NvmlSample

_BUSY_PCT = 1.0


@dataclass(slots=True)
class PodUse:
    """Holds percent (mean over its GPUs), bytes, the percent of its busiest GPU; None is unknown.

    ``gpus``: by index of those that it uses or was given, whether it works there, None where that is
    unknown. ``programs``: the names of its processes there; ``name``: the pod's, where the kubelet said it.
    """

    util: float | None = None
    mem: float | None = None
    busiest: float | None = None
    gpus: dict[int, bool | None] = field(default_factory=dict)
    programs: str = ""
    name: str = ""


def uses_of_pods(sample: NvmlSample) -> dict[str, PodUse]:
    """Return the use of each pod, by its uid."""
    pods: dict[str, PodUse] = defaultdict(PodUse)
    utils: dict[str, list[float]] = defaultdict(list)
    indexes = {gpu.uuid: gpu.index for gpu in sample.gpus}
    for uuid, uses in uses_of_gpus(sample).items():
        for use in uses:
            pod = pods[use.pod_uid]
            pod.gpus[indexes[uuid]] = None if use.util_pct is None else use.util_pct >= _BUSY_PCT
            if use.mem_bytes is not None:
                pod.mem = (pod.mem or 0.0) + use.mem_bytes
            if use.util_pct is not None:
                utils[use.pod_uid].append(use.util_pct)
    for uid, known in utils.items():
        pods[uid].util, pods[uid].busiest = sum(known) / len(known), max(known)
    _add_names(sample, pods)
    return dict(pods)


def _add_names(sample: NvmlSample, uses: dict[str, PodUse]) -> None:
    programs: defaultdict[str, set[str]] = defaultdict(set)
    for gpu in sample.gpus:
        for process in gpu.processes or ():
            if process.pod_uid is not None and process.name is not None:
                programs[process.pod_uid].add(process.name)
        for allocation in gpu.allocated or ():
            if allocation.pod_uid in uses:
                uses[allocation.pod_uid].name = f"{allocation.namespace}/{allocation.pod}"
    for uid, names in programs.items():
        if uid in uses:
            uses[uid].programs = ", ".join(sorted(names))
