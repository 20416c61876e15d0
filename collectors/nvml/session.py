"""Knows which GPUs can be read now: opens the library, leaves lost GPUs out, tries again, logs each change
once."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from collectors.nvml import gate
from collectors.nvml.device import Device, DeviceRef
from collectors.nvml.types import DeviceLostError, DriverUnavailableError, NvmlError, TransientError
from dutycycle.contract.backoff import Backoff
from dutycycle.contract.catalogue import USUAL_ACTIVITY
from dutycycle.telemetry.events import DEVICE_LOST, GPUS_UNAVAILABLE, Telemetry

ADVICE = {
    "library_not_found": "libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver here, or it is not mounted",
    "driver_not_loaded": "the NVIDIA kernel module is not loaded",
    "version_mismatch": "driver library and kernel module are of different versions: load the matching "
    "module or reboot; if the library was replaced while this runs, start this again",
    "driver_too_old": "libnvidia-ml.so.1 lacks a function that no driver since R390 lacks",
    "no_permission": "NVML may not be used: /dev/nvidiactl is closed to this user",
    "no_devices": "the driver runs, and there is no GPU",
}
"""Why no GPU can be read, by the reason of the error."""


class Session:
    """Holds the library and its devices. Times are monotonic seconds, given by the caller.

    ``activity``: the fields that are read of what GPUs really do. ``before_close`` gives back what else has
    to be given back while the library is open.

    ``retry_s`` is the first wait after a failure. For the driver it grows to twice that; for a lost GPU to
    twenty times, because looking for it closes and opens the library for all GPUs.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        retry_s: float = 30.0,
        before_close: Callable[[], None] = lambda: None,
        *,
        activity: Collection[str] = USUAL_ACTIVITY,
    ) -> None:
        self._telemetry = telemetry
        self._activity = activity
        self._before_close = before_close
        self._open = False
        self._driver = ""
        self._count = 0
        self._devices: dict[str, Device] = {}
        self._missing: set[str] = set()
        self._silent: dict[str, str] = {}
        """Why each of the missing is, and of those listed again that have not answered yet."""
        self._unavailable: str | None = None
        self._open_backoff = Backoff(retry_s, 2 * retry_s, spread=0)
        self._rescan_backoff = Backoff(retry_s, 20 * retry_s, spread=0)

    @property
    def driver(self) -> str:
        """Return the driver's version; empty before the library was opened, and where it is not told."""
        return self._driver

    @property
    def lost(self) -> Mapping[str, str]:
        """Tell why GPUs do not answer, by UUID, or by ``GPU <index>`` where that is not known."""
        return self._silent

    def device(self, uuid: str) -> Device | None:
        """Return a GPU that was there since the driver was loaded, whether it answers now or not."""
        return self._devices.get(uuid)

    def devices(self, now_s: float) -> list[Device]:
        """Return GPUs that can be read, by index. None raises nothing: it is logged and tried again later."""
        try:
            if self._open and self._missing and self._rescan_backoff.is_due(now_s):
                # A GPU that was reset or plugged in again is a new one to the driver: only a library that is
                # opened after that knows it.
                self._rescan_backoff.wait_from(now_s)
                self.close()
            has_other_count = False
            if self._open:
                with suppress(TransientError):
                    has_other_count = gate.device_count() != self._count
            if has_other_count:
                self._enumerate(now_s)
            elif not self._open and self._open_backoff.is_due(now_s):
                gate.open_library()
                self._open = True
                driver = _driver_version()
                if driver != self._driver:
                    for device in self._devices.values():
                        device.query.forget()  # another driver supports other calls
                self._driver = driver
                self._enumerate(now_s)
                self._open_backoff.reset()
                self._clear_unavailable()
        except NvmlError as error:
            self.driver_failed(error, now_s)
        if not self._open:
            return []
        usable = [device for uuid, device in self._devices.items() if uuid not in self._missing]
        return sorted(usable, key=lambda device: device.ref.index)

    def mark_answered(self, device: Device) -> None:
        """Log that a GPU is back that had been lost, and was read to its end now."""
        if device.ref.uuid in self._silent:
            self._mark_back(device.ref.uuid)

    def mark_lost(self, device: Device, error: DeviceLostError, now_s: float) -> None:
        """Leave out a GPU that stopped answering, and look for it after a while."""
        self._mark_missing(device.ref.uuid, device.ref.label, error.reason, now_s)

    def driver_failed(self, error: NvmlError, now_s: float) -> None:
        """Close the library, as the driver does not answer, and open it after a while."""
        self.close()
        self._open_backoff.wait_from(now_s)
        if error.reason != self._unavailable:
            self._clear_unavailable()
            self._unavailable = error.reason
            advice = ADVICE.get(error.reason, "NVML does not answer")
            self._telemetry.raise_condition(
                GPUS_UNAVAILABLE, error.reason, f"{advice}; tried again from time to time"
            )

    def close(self) -> None:
        """Release the devices and close the library."""
        if not self._open:
            return
        self._open = False
        self._before_close()
        for device in self._devices.values():
            device.release()
        with suppress(NvmlError):  # a driver that is gone cannot shut down
            gate.close_library()

    def _clear_unavailable(self) -> None:
        if self._unavailable is not None:
            self._telemetry.clear_condition(GPUS_UNAVAILABLE, self._unavailable, "no longer so")
        self._unavailable = None

    def _enumerate(self, now_s: float) -> None:
        self._count = gate.device_count()
        refs, failed = _list_devices(self._count)
        if not refs and not failed and not self._devices:
            raise DriverUnavailableError("no_devices")
        for ref in refs:
            if (known := self._devices.get(ref.uuid)) is not None:
                known.renew(ref)
                if ref.uuid in self._silent:
                    known.query.forget()  # what it refused while it was failing
            else:
                self._devices[ref.uuid] = Device(ref, self._telemetry, self._activity)
        gone = self._devices.keys() - {ref.uuid for ref in refs}
        # Of the indexes that fail, as many as GPUs are gone are those GPUs, named by their UUIDs. The
        # others have failed since the start: there is no more than an index to name them by.
        unnamed = dict(list(failed.items())[len(gone) :])
        for key in self._missing - gone - unnamed.keys() - self._devices.keys():
            self._mark_back(key)
        self._missing &= gone | unnamed.keys()
        for uuid in gone:
            self._mark_missing(uuid, self._devices[uuid].ref.label, "not_listed", now_s)
        for key, reason in unnamed.items():
            self._mark_missing(key, key, reason, now_s)

    def _mark_missing(self, key: str, label: str, reason: str, now_s: float) -> None:
        if not self._silent:
            self._rescan_backoff.wait_from(now_s)
        self._missing.add(key)
        self._silent.setdefault(key, reason)
        why = "not listed any more" if reason == "not_listed" else reason
        self._telemetry.raise_condition(DEVICE_LOST, key, f"{label} is left out: {why}", reason=reason)

    def _mark_back(self, key: str) -> None:
        self._silent.pop(key, None)
        self._telemetry.clear_condition(DEVICE_LOST, key, "answers again")
        if not self._silent:
            self._rescan_backoff.reset()


def _driver_version() -> str:
    """Return the driver's version; empty where that alone is not told."""
    try:
        return gate.driver_version()
    except DriverUnavailableError:
        raise
    except NvmlError:
        return ""


def _list_devices(count: int) -> tuple[list[DeviceRef], dict[str, str]]:
    """Return the GPUs that can be listed, and the reasons of those that cannot, by "GPU <index>"."""
    refs: dict[str, DeviceRef] = {}
    failed: dict[str, str] = {}
    for index in range(count):
        try:
            handle = gate.device(index)
            ref = DeviceRef(index, handle, gate.uuid(handle))
            if refs.setdefault(ref.uuid, ref) is not ref:
                failed[f"GPU {index}"] = "same_uuid"  # as that of a clone of a virtual machine
        except DriverUnavailableError:
            raise
        except NvmlError as error:
            failed[f"GPU {index}"] = error.reason
    return list(refs.values()), failed
