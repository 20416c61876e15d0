"""The MIG slices of a GPU. Their indexes have gaps, and their handles go stale: both are read every tick."""

import re
import time
from collections import Counter
from functools import partial
from typing import NamedTuple

from collectors.nvml import gate
from collectors.nvml.errors import Hiccup, Nothing
from collectors.nvml.gpm import GpmReader
from collectors.nvml.query import Asker
from collectors.nvml.types import Attributes, Handle
from contract.records.samples import MigDevice

_PROFILE = re.compile(r"\bMIG ([0-9.a-z+]+)$")
"""How a slice's name ends: "NVIDIA H200 MIG 1g.18gb", "… MIG 1c.3g.71gb", "… MIG 1g.18gb+me"."""
_EIGHTHS = 8


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

    def read(self, asker: Asker, total_bytes: int | None) -> tuple[MigDevice, ...]:
        """Every slice there is now; none is an empty answer. ``total_bytes`` is the whole GPU's memory."""
        at_s = time.monotonic()
        slices = self._slices(asker)
        self.uuids = {one.instance: one.uuid for one in slices if one.instance is not None}
        sharing = Counter(one.instance for one in slices)
        self._gpm.keep({instance for instance in sharing if instance is not None})
        self._profiles = {
            one.uuid: self._profiles.get(one.uuid) or _profile(asker, one, total_bytes) for one in slices
        }
        return tuple(self._device(asker, one, sharing[one.instance] == 1, at_s) for one in slices)

    def release(self) -> None:
        """Give back what the driver holds for us, before the library is closed."""
        self._gpm.keep(set())

    def _slices(self, asker: Asker) -> list[_Slice]:
        places = asker.ask("mig_devices", gate.mig_places) or 0
        found = (asker.ask("mig_devices", partial(_slice, index)) for index in range(places))
        return [one for one in found if one is not None]

    def _device(self, asker: Asker, one: _Slice, alone: bool, at_s: float) -> MigDevice:
        memory = asker.ask("mig_memory", gate.memory, gate.memory_with_reserved, of=one.handle)
        used, total = memory or (None, None)
        busy = None
        if one.instance is not None and alone:
            # Compute instances that share a GPU instance cannot be told apart: then it is unknown.
            busy = self._gpm.read(asker, one.instance, one.uuid, at_s)
        return MigDevice(
            uuid=one.uuid,
            profile=self._profiles[one.uuid],
            mem_used_bytes=used,
            mem_total_bytes=total,
            gpu_util_pct=busy,
        )


def _slice(index: int, gpu: Handle) -> _Slice:
    try:
        handle = gate.mig_device(gpu, index)
    except Hiccup as refusal:
        raise Nothing(refusal.reason) from refusal
    return _Slice(handle, gate.uuid(handle), gate.gpu_instance(handle))


def _profile(asker: Asker, one: _Slice, total_bytes: int | None) -> str | None:
    name = asker.ask("mig_profile", gate.name, of=one.handle)
    if name and (found := _PROFILE.search(name)):
        return found[1]
    attributes = asker.ask("mig_attributes", gate.mig_attributes, of=one.handle)
    return profile_of(attributes, total_bytes) if attributes and total_bytes else None


def profile_of(size: Attributes, total_bytes: int) -> str:
    """The profile's name by its size, such as ``1g.18gb``.

    The memory in it is in eighths of the whole GPU's, rounded up, in GiB (as in NVIDIA's go-nvlib).
    """
    eighths = -(-size.memory_mib * 2**20 * _EIGHTHS // total_bytes)
    whole_gib = -(-total_bytes // 2**30)
    gib = round(eighths * whole_gib / _EIGHTHS)
    compute = "" if size.compute_slices == size.gpu_slices else f"{size.compute_slices}c."
    return f"{compute}{size.gpu_slices}g.{gib}gb"
