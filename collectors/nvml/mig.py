"""Reads the MIG slices of a GPU. Their indexes have gaps, and their handles go stale: both are read every
tick."""

import re
from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from collectors.nvml import gate
from collectors.nvml.gpm import GpmReader, metrics_of
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import Handle, MigSize, NoDataError, TransientError
from dutycycle.contract.catalogue import rows_of
from dutycycle.contract.records.samples import MigDevice

_PROFILE = re.compile(r"\bMIG ([0-9.a-z+]+)$")
"""How a slice's name ends: "NVIDIA H200 MIG 1g.18gb", "… MIG 1c.3g.71gb", "… MIG 1g.18gb+me"."""
_EIGHTHS = 8
_LIMITS = {row.field: row.limits for row in rows_of("nvml", "slice")}


class _Slice(NamedTuple):
    """Names a slice; ``handle`` is absent where the driver did not tell it this time."""

    handle: Handle | None
    uuid: str
    instance: int | None


class MigReader:
    """Reads the slices of one GPU."""

    def __init__(self, activity: Collection[str]) -> None:
        """Read slices. ``activity``: the fields that are read of what slices really do."""
        self._gpm = GpmReader(metrics_of("slice", activity), "mig_util")
        self._memory = gate.memory()
        self._slices: dict[int, _Slice] = {}
        """By index, as of the last reading."""
        self._profiles: dict[str, str | None] = {}
        self._totals: dict[str, int | None] = {}
        """Bytes of memory by uuid: a slice's never change."""
        self.instances: dict[str, int] = {}
        """Says the slices' GPU instances by uuid, as of the last reading; several may be in one."""

    def read(self, query: DeviceQuery, total_bytes: int | None) -> tuple[MigDevice, ...] | None:
        """Return every slice there is now, None where that is not known; none is an empty answer.
        ``total_bytes``: the whole GPU's memory.

        Memory in bytes, as for a GPU. Utilization and activity (0-100) are absent before Hopper, at first,
        and where compute instances share a GPU instance: GPM counts by GPU instance. A slice that the driver
        fails to tell has its uuid, profile and size of before alone: without it, the others would be more of
        the GPU than they are.
        """
        indexes = query.ask("mig_devices", gate.max_mig_devices)
        if indexes is None:
            return None
        by_index = {
            index: query.ask("mig_devices", partial(self._slice, query, index)) for index in range(indexes)
        }
        present = {mig.uuid for mig in by_index.values() if mig is not None and mig.handle is not None}
        self._slices = {
            index: mig
            for index, mig in by_index.items()
            if mig is not None and (mig.handle is not None or mig.uuid not in present)
        }
        slices = [*self._slices.values()]
        self.instances = {mig.uuid: mig.instance for mig in slices if mig.instance is not None}
        sharing = Counter(mig.instance for mig in slices)
        self._gpm.keep({instance for instance in sharing if instance is not None})
        self._profiles = {
            mig.uuid: self._profiles.get(mig.uuid) or _profile(query, mig, total_bytes) for mig in slices
        }
        self._totals = {mig.uuid: self._totals.get(mig.uuid) for mig in slices}
        devices = []
        for mig in slices:
            figures: dict[str, float | None] = {}
            total = self._totals[mig.uuid]
            if mig.handle is not None:
                memory = query.ask("mig_memory", self._memory, gate.memory_with_reserved, of=mig.handle)
                figures["mem_used_bytes"], now_total = query.possible_memory("mig_memory", memory)
                total = self._totals[mig.uuid] = now_total or total
                if mig.instance is not None and sharing[mig.instance] == 1:
                    for name, value in self._gpm.read(query, mig.instance, mig.uuid).items():
                        figures[name] = query.possible(f"mig {name}", value, _LIMITS[name])
            devices.append(
                MigDevice(uuid=mig.uuid, profile=self._profiles[mig.uuid], mem_total_bytes=total, **figures)
            )
        return tuple(devices)

    def release(self) -> None:
        """Free the samples that the driver holds for us, before the library is closed."""
        self._gpm.keep(())

    def forget(self) -> None:
        """Ask again for what was refused, and keep no slice of before: the GPU may be divided anew."""
        self._gpm.forget()
        self._slices = {}

    def _slice(self, query: DeviceQuery, index: int, gpu: Handle) -> _Slice:
        try:
            handle = gate.mig_device(gpu, index)
            return _Slice(handle, gate.uuid(handle), gate.gpu_instance(handle))
        except TransientError as error:
            last = self._slices.get(index)
            if last is None:
                # Left out as an unused index is: the slice may be made at this moment.
                raise NoDataError(error.reason) from error
            query.count("mig_devices", error)
            return last._replace(handle=None)


def _profile(query: DeviceQuery, mig: _Slice, total_bytes: int | None) -> str | None:
    if mig.handle is None:
        return None
    name = query.ask("mig_profile", gate.name, of=mig.handle)
    if name and (match := _PROFILE.search(name)):
        return match[1]
    size = query.ask("mig_attributes", gate.mig_size, of=mig.handle)
    return profile_of(size, total_bytes) if size and total_bytes else None


def profile_of(size: MigSize, total_bytes: int) -> str:
    """Return the profile's name by its size, such as ``1g.18gb`` (nvidia-smi mig -lgip).

    The memory in it is in eighths of the whole GPU's, rounded up, in GiB (as in NVIDIA's go-nvlib).
    """
    eighths = -(-size.memory_mib * 2**20 * _EIGHTHS // total_bytes)
    whole_gib = -(-total_bytes // 2**30)
    gib = round(eighths * whole_gib / _EIGHTHS)
    compute = "" if size.compute_slices == size.gpu_slices else f"{size.compute_slices}c."
    return f"{compute}{size.gpu_slices}g.{gib}gb"
