"""The MIG slices of a GPU. Their indexes have gaps, and their handles go stale: both are read every tick."""

import re
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from collectors.nvml import gate
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import Handle, MigSize, NoDataError, NvmlError, TransientError
from dutycycle.contract.metrics import PCT
from dutycycle.contract.records.samples import MigDevice

_PROFILE = re.compile(r"\bMIG ([0-9.a-z+]+)$")
"""How a slice's name ends: "NVIDIA H200 MIG 1g.18gb", "… MIG 1c.3g.71gb", "… MIG 1g.18gb+me"."""
_EIGHTHS = 8
_LEAST_S = 0.1
"""GPM wants 100 ms between two samples."""
_ONE_AT_A_TIME = Lock()
"""Of the process, as the library is: sampling from two threads at once has crashed it (leptonai/gpud)."""


class _Slice(NamedTuple):
    handle: Handle
    uuid: str
    instance: int | None


class MigReader:
    """Reads the slices of one GPU."""

    def __init__(self) -> None:
        self._gpm = GpmReader()
        self._profiles: dict[str, str | None] = {}
        self.uuids: dict[int, str] = {}
        """The slices' uuids by GPU instance, as of the last reading."""

    def read(self, query: DeviceQuery, total_bytes: int | None) -> tuple[MigDevice, ...]:
        """Every slice there is now; none is an empty answer. ``total_bytes``: the whole GPU's memory.

        Memory in bytes, as for a GPU. ``gpu_util_pct`` (0-100) is absent before Hopper, at first, and where
        compute instances share a GPU instance: GPM counts by GPU instance.
        """
        at_s = time.monotonic()
        slices = self._slices(query)
        self.uuids = {one.instance: one.uuid for one in slices if one.instance is not None}
        sharing = Counter(one.instance for one in slices)
        self._gpm.keep({instance for instance in sharing if instance is not None})
        self._profiles = {
            one.uuid: self._profiles.get(one.uuid) or _profile(query, one, total_bytes) for one in slices
        }
        return tuple(self._device(query, one, sharing[one.instance] == 1, at_s) for one in slices)

    def release(self) -> None:
        """Free the samples that the driver holds for us, before the library is closed."""
        self._gpm.keep(set())

    def _slices(self, query: DeviceQuery) -> list[_Slice]:
        indexes = query.ask("mig_devices", gate.max_mig_devices) or 0
        found = (query.ask("mig_devices", partial(_slice, index)) for index in range(indexes))
        return [one for one in found if one is not None]

    def _device(self, query: DeviceQuery, one: _Slice, alone: bool, at_s: float) -> MigDevice:
        memory = query.ask("mig_memory", gate.memory, gate.memory_with_reserved, of=one.handle)
        used, total = memory or (None, None)
        busy = None
        if one.instance is not None and alone:
            busy = self._gpm.read(query, one.instance, one.uuid, at_s)
        return MigDevice(
            uuid=one.uuid,
            profile=self._profiles[one.uuid],
            mem_used_bytes=used,
            mem_total_bytes=total,
            gpu_util_pct=busy,
        )


def _rounded(pct: float) -> float:
    """A share of two counters that are not read at one instant: a whole one may be a little more."""
    return 100.0 if 100 < pct < 100.5 else pct


def _slice(index: int, gpu: Handle) -> _Slice:
    try:
        handle = gate.mig_device(gpu, index)
    except TransientError as error:
        # Left out as an unused index is: the slice may be made or destroyed at this moment.
        raise NoDataError(error.reason) from error
    return _Slice(handle, gate.uuid(handle), gate.gpu_instance(handle))


def _profile(query: DeviceQuery, one: _Slice, total_bytes: int | None) -> str | None:
    name = query.ask("mig_profile", gate.name, of=one.handle)
    if name and (found := _PROFILE.search(name)):
        return found[1]
    size = query.ask("mig_attributes", gate.mig_size, of=one.handle)
    return profile_of(size, total_bytes) if size and total_bytes else None


def profile_of(size: MigSize, total_bytes: int) -> str:
    """The profile's name by its size, such as ``1g.18gb`` (nvidia-smi mig -lgip).

    The memory in it is in eighths of the whole GPU's, rounded up, in GiB (as in NVIDIA's go-nvlib).
    """
    eighths = -(-size.memory_mib * 2**20 * _EIGHTHS // total_bytes)
    whole_gib = -(-total_bytes // 2**30)
    gib = round(eighths * whole_gib / _EIGHTHS)
    compute = "" if size.compute_slices == size.gpu_slices else f"{size.compute_slices}c."
    return f"{compute}{size.gpu_slices}g.{gib}gb"


@dataclass(slots=True)
class _GpmSamples:
    """Two samples of a GPU instance: the last one, and room for the next.

    ``key`` names one instance. Its id does not: a new instance gets the id of a destroyed one.
    """

    key: str
    last: Any
    spare: Any
    last_s: float | None = None


class GpmReader:
    """Utilization of the GPU instances of one GPU by GPM, the performance counters of Hopper and later."""

    def __init__(self) -> None:
        self._supported = False
        self._samples: dict[int, _GpmSamples] = {}

    def read(self, query: DeviceQuery, instance: int, key: str, at_s: float) -> float | None:
        """Percent (0-100) since the last read of ``instance``; None at first, or before Hopper.

        ``key`` is a name that a new instance of the same id does not share; ``at_s`` is monotonic.
        """
        with _ONE_AT_A_TIME:
            self._supported = self._supported or bool(query.ask("mig_util", gate.gpm_supported))
            if not self._supported:
                return None
            busy = query.ask("gpm_sample", lambda handle: self._read(handle, instance, key, at_s))
            return query.possible("mig_util", None if busy is None else _rounded(busy), PCT)

    def _read(self, handle: Any, instance: int, key: str, at_s: float) -> float | None:
        known = self._of(instance, key)
        if known.last_s is not None and at_s - known.last_s < _LEAST_S:
            return None
        gate.gpm_sample(handle, instance, known.spare)
        first = known.last_s is None
        known.last, known.spare, known.last_s = known.spare, known.last, at_s
        if first:
            return None
        return gate.gpm_busy_pct(known.spare, known.last)

    def _of(self, instance: int, key: str) -> _GpmSamples:
        known = self._samples.get(instance)
        if known is not None and known.key != key:
            known.last_s, known.key = None, key
        if known is None:
            room = gate.gpm_sample_new(), gate.gpm_sample_new()
            known = self._samples[instance] = _GpmSamples(key, *room)
        return known

    def keep(self, instances: set[int]) -> None:
        """Free the samples of all other instances. While the library is open only."""
        with _ONE_AT_A_TIME:
            for gone in self._samples.keys() - instances:
                held = self._samples.pop(gone)
                for sample in (held.last, held.spare):
                    with suppress(NvmlError):  # a sample that cannot be freed is not worth a tick
                        gate.gpm_sample_free(sample)
