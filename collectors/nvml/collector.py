"""Collects every GPU of the node at each tick, by NVML."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from msgspec.structs import replace

from collectors.attribution.kubelet_allocations import Allocations
from collectors.attribution.processes import Attribution
from collectors.base import Tick, of_node
from collectors.nvml.device import Device
from collectors.nvml.health.recorder import HealthReading, HealthRecorder
from collectors.nvml.processes import ProcessIdentities
from collectors.nvml.readers import Readers, outcome
from collectors.nvml.session import Session
from collectors.nvml.types import DeviceLostError, DriverUnavailableError
from dutycycle.contract.catalogue import USUAL_ACTIVITY
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.telemetry.events import Telemetry


class NvmlCollector:
    """Measures GPUs through NVIDIA's driver library, opened once for many ticks.

    Without a GPU that can be read there is no record; the reason is logged once, and it is tried again after
    ``retry_s`` and then at growing distances. ``attribution`` knows whose a process is, ``allocations`` whom
    the kubelet gave a GPU to (None: unknown). ``host_root``: where the host's ``/proc`` is, for the names of
    processes. ``health``: events and counters of faults are read as well; ``pod_of`` knows the pod with a
    uid. ``activity``: the fields that are read of what GPUs really do.
    """

    name = "nvml"

    def __init__(
        self,
        telemetry: Telemetry,
        attribution: Attribution | None = None,
        *,
        allocations: Allocations | None = None,
        host_root: str = "/",
        retry_s: float = 30.0,
        health: bool = True,
        activity: Collection[str] = USUAL_ACTIVITY,
        pod_of: Callable[[str], Pod | None] = lambda _: None,
    ) -> None:
        self._health = HealthRecorder(telemetry, host_root, pod_of) if health else None
        before_close = (lambda: None) if self._health is None else self._health.watch.close
        self._session = Session(telemetry, retry_s, before_close, activity=activity)
        self._allocations = allocations
        self._identities = ProcessIdentities(attribution, host_root)
        self._readers: Readers[tuple[Gpu, HealthReading] | None] = Readers()
        self.pids: frozenset[int] = frozenset()
        """The processes that used a GPU at the last tick."""

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Return one ``nvml-samples`` record with the GPUs that answered, if any did; and what happened to
        GPUs."""
        self._identities.begin_tick()
        readings = self._read(tick)
        gpus = [gpu for gpu, _ in readings]
        self.pids = frozenset(process.pid for gpu in gpus for process in gpu.processes or ())
        records = []
        if gpus:
            records.append(of_node("nvml-samples", NvmlSample(**tick.head, gpus=tuple(gpus))))
        if self._health is not None:
            by_uuid = {gpu.uuid: gpu for gpu in gpus}
            health = {gpu.uuid: reading for gpu, reading in readings}
            records += self._health.records(tick, self._session, by_uuid, health)
        return records

    def close(self) -> None:
        """Close the library, the files and the connection to the kubelet."""
        self._readers.close()
        self._session.close()
        self._identities.close()
        if self._allocations is not None:
            self._allocations.close()

    def _read(self, tick: Tick) -> list[tuple[Gpu, HealthReading]]:
        devices = self._session.devices(tick.monotonic_s)
        if self._health is not None:
            try:
                self._health.begin(devices)
            except DriverUnavailableError as error:
                self._session.driver_failed(error, tick.monotonic_s)
                return []
        asks: list[Callable[[], None]] = [
            partial(_ask_activity, devices),
            *(device.ask for device in devices),
        ]
        for asked in self._readers.run(asks):
            if isinstance(asked, Exception):
                raise asked
        reads = [partial(self._read_device, device, tick) for device in devices]
        # What was asked ahead is read without a wait, in one thread: several would wait for one another.
        at_once = all(device.is_asked_ahead for device in devices)
        readings = [*map(outcome, reads)] if at_once else self._readers.run(reads)
        answered = []
        for device, reading in zip(devices, readings, strict=True):
            match reading:
                case (gpu, health):
                    answered.append((gpu, health))
                    self._session.mark_answered(device)
                case DeviceLostError():
                    self._session.mark_lost(device, reading, tick.monotonic_s)
                case DriverUnavailableError():
                    self._session.driver_failed(reading, tick.monotonic_s)
                    break
                case Exception():
                    raise reading
        return answered

    def _read_device(self, device: Device, tick: Tick) -> tuple[Gpu, HealthReading]:
        gpu = device.read(tick, self._identities)
        if self._allocations is not None:
            gpu = replace(gpu, allocated=self._allocations.of(gpu.uuid, gpu.index, device.slices))
        return gpu, HealthReading(None, None) if self._health is None else self._health.read(device, tick)


def _ask_activity(devices: Sequence[Device]) -> None:
    # The last first: the others begin with the first, and the driver lets one call to a GPU in at a time.
    for device in reversed(devices):
        device.ask_activity()
