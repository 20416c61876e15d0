"""What each pod uses of the GPUs of a node at one tick. Apart from the rest because it brings numpy."""

from collections import defaultdict
from dataclasses import dataclass, field
from math import isnan

from dutycycle.contract.records.samples import NvmlSample
from streams.operators.columns.ownership import pods_of, use_plan

_BUSY_PCT = 1.0
_UNUSED = (None,) * 4


@dataclass(slots=True)
class PodUse:
    """Percent (mean over its GPUs), bytes, the percent of its busiest GPU; None is unknown.

    ``gpus``: by index of those that it uses or was given, whether it works there. ``programs``: the names of
    its processes there; ``name``: the pod's, where the kubelet said it.
    """

    util: float | None = None
    mem: float | None = None
    busiest: float | None = None
    gpus: dict[int, bool] = field(default_factory=dict)
    programs: str = ""
    name: str = ""


def uses_of_pods(sample: NvmlSample) -> dict[str, PodUse]:
    """By pod uid."""
    plan = use_plan(sample.node, sample.gpus)
    arrays = plan.arrays()
    at_places = plan.uses(sample.gpus)
    of_pods = dict(zip(plan.pods, pods_of(at_places, arrays.pod_ends, arrays.places).tolist(), strict=True))
    busy = {
        place: use >= _BUSY_PCT for place, use in zip(plan.sources, at_places[:, 0].tolist(), strict=True)
    }
    uses: dict[str, PodUse] = {}
    for uid, scope in plan.attribution:
        if uid not in uses:
            util, _, mem, busiest = (_known(value) for value in of_pods.get(uid, _UNUSED))
            uses[uid] = PodUse(util, mem, busiest)
        uses[uid].gpus[int(scope.rpartition("/")[2])] = busy.get((uid, scope), False)
    _add_names(sample, uses)
    return uses


def _known(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value


def _add_names(sample: NvmlSample, uses: dict[str, PodUse]) -> None:
    programs: defaultdict[str, set[str]] = defaultdict(set)
    for gpu in sample.gpus:
        for process in gpu.processes or ():
            if process.pod_uid is not None and process.name is not None:
                programs[process.pod_uid].add(process.name)
        for one in gpu.allocated or ():
            if one.pod_uid in uses:
                uses[one.pod_uid].name = f"{one.namespace}/{one.pod}"
    for uid, names in programs.items():
        if uid in uses:
            uses[uid].programs = ", ".join(sorted(names))
