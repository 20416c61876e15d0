"""Utilization of MIG slices by GPM, the performance counters of Hopper and later."""

from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

from collectors.nvml import gate
from collectors.nvml.errors import Refused
from collectors.nvml.query import Asker

_LEAST_S = 0.1
"""GPM wants 100 ms between two samples."""
_ONE_AT_A_TIME = Lock()
"""Of the process, as the library is: sampling from two threads at once has crashed it (leptonai/gpud)."""


@dataclass(slots=True)
class _Instance:
    """The last sample of a GPU instance, and room for the next; ``key`` is of one instance, its id is not."""

    key: str
    last: Any
    spare: Any
    last_s: float | None = None


class GpmReader:
    """Utilization of the GPU instances of one GPU, each over the time between two reads."""

    def __init__(self) -> None:
        self._supported = False
        self._instances: dict[int, _Instance] = {}

    def read(self, asker: Asker, instance: int, key: str, at_s: float) -> float | None:
        """Percent (0-100) since the last read of ``instance``; None at first, or before Hopper.

        ``key`` is a name that a new instance of the same id does not share; ``at_s`` is monotonic.
        """
        with _ONE_AT_A_TIME:
            self._supported = self._supported or bool(asker.ask("mig_util", gate.gpm_supported))
            if not self._supported:
                return None
            return asker.ask("gpm_sample", lambda handle: self._read(handle, instance, key, at_s))

    def _read(self, handle: Any, instance: int, key: str, at_s: float) -> float | None:
        known = self._instance(instance, key)
        if known.last_s is not None and at_s - known.last_s < _LEAST_S:
            return None
        gate.gpm_sample(handle, instance, known.spare)
        first = known.last_s is None
        known.last, known.spare, known.last_s = known.spare, known.last, at_s
        if first:
            return None
        return min(max(gate.gpm_busy_pct(known.spare, known.last), 0.0), 100.0)

    def _instance(self, instance: int, key: str) -> _Instance:
        known = self._instances.get(instance)
        if known is not None and known.key != key:
            known.last_s, known.key = None, key
        if known is None:
            room = gate.gpm_sample_new(), gate.gpm_sample_new()
            known = self._instances[instance] = _Instance(key, *room)
        return known

    def keep(self, instances: set[int]) -> None:
        """Give back what was held for instances that are gone. While the library is open only."""
        with _ONE_AT_A_TIME:
            for gone in self._instances.keys() - instances:
                held = self._instances.pop(gone)
                for sample in (held.last, held.spare):
                    with suppress(Refused):  # room that is not taken back is not worth a tick
                        gate.gpm_sample_free(sample)
