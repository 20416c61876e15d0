"""Listens to the driver's own events, such as Xids: one set for all GPUs, asked at each tick and never waited
for.

So there is no thread, and none can be in the driver when the library is closed.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from collectors.nvml import gate
from collectors.nvml.device import Device
from collectors.nvml.types import DriverUnavailableError, NvmlError, UnsupportedError
from dutycycle.contract.health.xids import UNKNOWN
from dutycycle.telemetry.events import NOT_MEASURED, Telemetry

XID = 0x8
_LOOKED_FOR = 0x1 | 0x2 | XID | 0x200 | 0x400 | 0x800 | 0x1000 | 0x2000 | 0x4000 | 0x8000
"""Errors of memory, Xids, poison, a GPU that cannot be used, another recovery action: no other is health."""
MOST_AT_ONCE = 1024
"""Events of a tick; more wait for the next one. What is behind a storm of thousands comes in seconds."""
_MOST_XID = 0xFFFF


class DriverEvent(NamedTuple):
    """Holds what the driver told: of which GPU, a bit of NVML's types, an Xid's number, and the MIG
    instance."""

    uuid: str
    type: int
    data: int
    instance: int | None


class EventWatch:
    """Registers GPUs, and gives what happened to them. What is not supported is counted once, and left."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._events: Any = None
        self._uuids: dict[int, str] = {}
        self._unsupported = False

    def register(self, devices: Iterable[Device]) -> None:
        """Watch those GPUs that are not watched yet; while the library is open."""
        for device in devices:
            address = gate.address(device.ref.handle)
            if self._unsupported or address in self._uuids:
                continue
            try:
                if self._events is None:
                    self._events = gate.event_set_new()
                mask = gate.supported_events(device.ref.handle) & _LOOKED_FOR
                if mask:
                    gate.register_events(device.ref.handle, mask, self._events)
            except UnsupportedError as error:
                self._unsupported = self._events is None
                device.query.count_once("events", error)
            except DriverUnavailableError:
                raise
            except NvmlError as error:
                device.query.count("events", error)
                continue  # again at the next tick
            self._uuids[address] = device.ref.uuid

    def drain(self) -> Counter[DriverEvent]:
        """Return what has happened since the last call, and how often each. Raises
        ``DriverUnavailableError``."""
        events: Counter[DriverEvent] = Counter()
        for _ in range(MOST_AT_ONCE if self._events is not None else 0):
            try:
                event = gate.next_event(self._events)
            except DriverUnavailableError:
                raise
            except NvmlError as error:
                self._telemetry.emit(
                    NOT_MEASURED, "events of the GPUs are asked for anew", what="events", reason=error.reason
                )
                self.close()
                break
            if event is None:
                break
            if (uuid := self._uuids.get(event.address)) is not None:
                data = event.data if event.data <= _MOST_XID else UNKNOWN
                events[DriverEvent(uuid, event.type, data, event.instance)] += 1
        return events

    def close(self) -> None:
        """Give the set back, before the library is closed."""
        events, self._events = self._events, None
        self._uuids.clear()
        self._unsupported = False
        if events is not None:
            with suppress(NvmlError):  # a driver that is gone cannot free it
                gate.event_set_free(events)
