"""Tells whose each GPU of a node is at one tick, for the series and the screen: the rules of the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from dutycycle.contract.catalogue import GPU_METRICS, MIG_METRICS
from dutycycle.contract.ownership.division import Holdings, divide, energy_part, holdings_of
from dutycycle.contract.ownership.who_uses import Floats, use_plan
from dutycycle.contract.records.samples import Gpu, MigDevice, NvmlSample

_NOTHING_KNOWN = (float("nan"),) * 3


@dataclass(frozen=True, slots=True)
class PodGpuUse:
    """Holds a pod's use of one GPU. ``util_pct`` and ``mem_bytes`` None: not known, which is not idle.

    ``own``: the devices that it has to itself, the GPU or slices of it: all that they do is this pod's.
    ``part``: what it has of the GPU's power and energy, 0 to 1; None where it holds no part of it.
    """

    pod_uid: str
    attribution: str
    util_pct: float | None = None
    mem_bytes: float | None = None
    own: tuple[Gpu | MigDevice, ...] = ()
    part: float | None = None


def uses_of_gpus(sample: NvmlSample) -> dict[str, list[PodGpuUse]]:
    """Return every pod that uses a GPU or was given it, by the GPU's UUID: those with processes, then the
    others.

    The figures of ``sample`` are those of the whole tick (``contract.metering.with_means``).
    """
    plan = use_plan(sample.node, sample.gpus)
    figures = plan.uses(sample.gpus)
    held = holdings_of(sample.node, sample.gpus, plan)
    parts = _parts_of_energy(sample.gpus, held, np.append(np.zeros(len(plan.pods)), figures))
    by_place = dict(zip(plan.sources, figures.tolist(), strict=True))
    devices: list[Gpu | MigDevice] = [*sample.gpus, *(mig for gpu in sample.gpus for mig in gpu.mig or ())]
    owned = plan.owned()
    uuids = {f"{sample.node}/{gpu.index}": gpu.uuid for gpu in sample.gpus}
    uses: dict[str, list[PodGpuUse]] = {gpu.uuid: [] for gpu in sample.gpus}
    for place, word in plan.attribution.items():
        pod_uid, uuid = place[0], uuids[place[1]]
        util, _, memory = by_place.get(place, _NOTHING_KNOWN)
        uses[uuid].append(
            PodGpuUse(
                pod_uid, word, None if isnan(util) else util, None if isnan(memory) else memory,
                tuple(devices[row] for row in owned.get(place, ())), parts.get((pod_uid, uuid)),
            )
        )  # fmt: skip
    return uses


def _parts_of_energy(gpus: Sequence[Gpu], held: Holdings, tallies: Floats) -> dict[tuple[str, str], float]:
    """Return what each pod has of the energy of each GPU, by uid and UUID, as the ledger divides it."""
    cells = [getattr(gpu, name) for gpu in gpus for name in GPU_METRICS]
    cells += [getattr(slice_, name) for gpu in gpus for slice_ in gpu.mig or () for name in MIG_METRICS]
    values = np.array(cells, np.float64)
    parts: dict[tuple[str, str], float] = {}
    weights, pcts, ends = (
        held.weights.tolist(),
        values[held.devices[:, 0]].tolist(),
        held.devices[:, -1].tolist(),
    )
    first = begin = 0
    for last in held.gpus[:, 2].tolist():
        every = sum(weights[device] * pcts[device] for device in range(first, last))
        for device in range(first, last):
            end = ends[device]
            holders, shares = held.holders[begin:end], np.empty(end - begin)
            divide(holders, tallies, pcts[device], shares)
            of_device = energy_part(weights[device], pcts[device], every)
            for row, share in zip(holders[:, 0].tolist(), shares.tolist(), strict=True):
                key = held.rows[row].pod_uid, held.rows[row].gpu
                parts[key] = parts.get(key, 0.0) + of_device * share
            begin = end
        first = last
    return parts
