"""Which GPUs can be read now: opens the library, notices what is lost, tries again, says each change once."""

import logging
from contextlib import suppress

from collectors.nvml import gate
from collectors.nvml.backoff import Backoff
from collectors.nvml.device import Device, Place
from collectors.nvml.errors import Away, Hiccup, Lost, Refused
from telemetry.events import DEVICE_LOST, Event, Telemetry

GPUS_AWAY = Event("gpus_away", logging.WARNING, "No GPU of this node can be measured", ("reason",))
"""A condition, named by the reason of the moment."""
_ADVICE = {
    "library_not_found": "libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver here, or it is not mounted",
    "driver_not_loaded": "the NVIDIA kernel module is not loaded",
    "version_mismatch": "driver library and kernel module are of different versions: load the matching "
    "module or reboot; if the library was replaced while this runs, start this again",
    "driver_too_old": "libnvidia-ml.so.1 lacks a function that no driver since R390 lacks",
    "no_permission": "NVML may not be used: /dev/nvidiactl is closed to this user",
    "no_devices": "the driver runs, and there is no GPU",
}


class Session:
    """The library and its devices. Times are monotonic seconds, given by the caller.

    ``retry_s`` is the first wait after a failure. For the driver it grows to twice that; for a lost GPU to
    twenty times, because looking for it closes and opens the library for all of them.
    """

    def __init__(self, telemetry: Telemetry, retry_s: float = 30.0) -> None:
        self._telemetry = telemetry
        self._open = False
        self._driver = ""
        self._count = 0
        self._devices: dict[str, Device] = {}
        self._missing: set[str] = set()
        self._silent: set[str] = set()  # the missing, and those listed again that have not answered yet
        self._away: str | None = None
        self._opening = Backoff(retry_s, 2 * retry_s)
        self._looking = Backoff(retry_s, 20 * retry_s)

    def devices(self, now_s: float) -> list[Device]:
        """The GPUs that can be read, by index. None is no error: why is said, and it is tried again later."""
        try:
            self._bring_up(now_s)
        except Refused as refusal:
            self.went_away(refusal, now_s)
        if not self._open:
            return []
        usable = [device for uuid, device in self._devices.items() if uuid not in self._missing]
        return sorted(usable, key=lambda device: device.place.index)

    def answered(self, device: Device) -> None:
        """A GPU was read to its end: if it had been lost, say that it is back."""
        if device.place.uuid in self._silent:
            self._is_back(device.place.uuid)

    def lost(self, device: Device, refusal: Lost, now_s: float) -> None:
        """A GPU stopped answering: leave it out, and look for it after a while."""
        self._miss(device.place.uuid, device.place.label, refusal.reason, now_s)

    def went_away(self, refusal: Refused, now_s: float) -> None:
        """The driver does not answer: close, and open after a while."""
        self.close()
        self._opening.wait_from(now_s)
        if refusal.reason != self._away:
            self._is_here_or_otherwise_away()
            self._away = refusal.reason
            advice = _ADVICE.get(refusal.reason, "NVML does not answer")
            self._telemetry.raise_condition(
                GPUS_AWAY, refusal.reason, f"{advice}; tried again from time to time"
            )

    def close(self) -> None:
        """Let go of the devices and the library."""
        if not self._open:
            return
        self._open = False
        for device in self._devices.values():
            device.release()
        with suppress(Refused):  # a driver that is gone cannot be told goodbye
            gate.close_library()

    def _bring_up(self, now_s: float) -> None:
        if self._open and self._missing and self._looking.is_due(now_s):
            # A GPU that was reset or plugged in again is a new one to the driver: only a library that is
            # opened after that knows it.
            self._looking.wait_from(now_s)
            self.close()
        if not self._open:
            if self._opening.is_due(now_s):
                self._start(now_s)
        elif self._count_changed():
            self._enumerate(now_s)

    def _count_changed(self) -> bool:
        try:
            return gate.device_count() != self._count
        except Hiccup:
            return False

    def _start(self, now_s: float) -> None:
        gate.open_library()
        self._open = True
        driver = gate.driver_version()
        if driver != self._driver:
            self._devices.clear()  # another driver can answer other questions
        self._driver = driver
        self._enumerate(now_s)
        self._opening.reset()
        self._is_here_or_otherwise_away()

    def _is_here_or_otherwise_away(self) -> None:
        if self._away is not None:
            self._telemetry.clear_condition(GPUS_AWAY, self._away, "no longer so")
        self._away = None

    def _enumerate(self, now_s: float) -> None:
        self._count = gate.device_count()
        places, refused = _look_around(self._count)
        if not places and not refused and not self._devices:
            raise Away("no_devices")
        for place in places:
            if (known := self._devices.get(place.uuid)) is not None:
                known.renew(place)
            else:
                self._devices[place.uuid] = Device(place, self._telemetry)
        self._note_missing(self._devices.keys() - {place.uuid for place in places}, refused, now_s)

    def _note_missing(self, gone: set[str], refused: dict[str, str], now_s: float) -> None:
        # Of the indexes that refuse, as many as GPUs are gone are those GPUs, said by their UUIDs. The
        # others have refused since the start: there is no more than an index to name them by.
        unnamed = dict(list(refused.items())[len(gone) :])
        for key in self._missing - gone - unnamed.keys() - self._devices.keys():
            self._is_back(key)
        self._missing &= gone | unnamed.keys()
        for uuid in gone:
            self._miss(uuid, self._devices[uuid].place.label, "not_listed", now_s)
        for key, reason in unnamed.items():
            self._miss(key, key, reason, now_s)

    def _miss(self, key: str, label: str, reason: str, now_s: float) -> None:
        if not self._silent:
            self._looking.wait_from(now_s)
        self._missing.add(key)
        self._silent.add(key)
        why = "not listed any more" if reason == "not_listed" else reason
        self._telemetry.raise_condition(DEVICE_LOST, key, f"{label} is left out: {why}", reason=reason)

    def _is_back(self, key: str) -> None:
        self._silent.discard(key)
        self._telemetry.clear_condition(DEVICE_LOST, key, "answers again")
        if not self._silent:
            self._looking.reset()


def _look_around(count: int) -> tuple[list[Place], dict[str, str]]:
    places: list[Place] = []
    refused: dict[str, str] = {}
    for index in range(count):
        try:
            handle = gate.device(index)
            places.append(Place(index, handle, gate.uuid(handle)))
        except Away:
            raise
        except Refused as refusal:
            refused[f"GPU {index}"] = refusal.reason
    return places, refused
