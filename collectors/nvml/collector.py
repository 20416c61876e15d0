"""The collector of GPUs: every GPU of the node at each tick, by NVML."""

from collections.abc import Sequence
from dataclasses import replace

from collectors.attribution.allocations import Allocations
from collectors.base import Outgoing, Tick
from collectors.nvml.device import Device
from collectors.nvml.errors import Away, Lost
from collectors.nvml.processes import Attributor, Identities
from collectors.nvml.session import Session
from contract.codec import encode
from contract.records.samples import Gpu, NvmlSample
from telemetry.events import Telemetry

TOPIC = "nvml-samples"


class NvmlCollector:
    """Measures GPUs through NVIDIA's driver library, opened once for many ticks.

    Without a GPU that can be read it answers nothing; why is said once and looked at again after
    ``retry_s``, 2 × ``retry_s`` and so on. ``attributor`` says whose a process is, ``allocations`` whom a GPU
    was given to (None: nobody knows); ``host_root`` is where the host's ``/proc`` is, for the names of
    processes.
    """

    name = "nvml"

    def __init__(
        self,
        telemetry: Telemetry,
        attributor: Attributor | None = None,
        *,
        allocations: Allocations | None = None,
        host_root: str = "/",
        retry_s: float = 30.0,
    ) -> None:
        self._session = Session(telemetry, retry_s)
        self._allocations = allocations
        self._identities = Identities(attributor, host_root)

    def collect(self, tick: Tick) -> Sequence[Outgoing]:
        """One ``nvml-samples`` record with the GPUs that answered, or nothing if none did."""
        gpus = self._read(tick)
        if not gpus:
            return ()
        sample = NvmlSample(
            node=tick.node,
            collector=tick.collector,
            seq=tick.seq,
            ts_ms=tick.ts_ms,
            interval_ms=tick.interval_ms,
            gpus=tuple(gpus),
        )
        return (Outgoing(topic=TOPIC, key=tick.node, payload=encode(sample), ts_ms=tick.ts_ms),)

    def close(self) -> None:
        """Let go of the driver and the kubelet."""
        self._session.close()
        if self._allocations is not None:
            self._allocations.close()

    def _read(self, tick: Tick) -> list[Gpu]:
        self._identities.begin_tick()
        gpus = []
        for device in self._session.devices(tick.monotonic_s):
            try:
                gpus.append(self._with_holders(device, device.read(tick, self._identities)))
                self._session.answered(device)
            except Lost as refusal:
                self._session.lost(device, refusal, tick.monotonic_s)
            except Away as refusal:
                self._session.went_away(refusal, tick.monotonic_s)
                break
        return gpus

    def _with_holders(self, device: Device, gpu: Gpu) -> Gpu:
        if self._allocations is None:
            return gpu
        return replace(gpu, allocated=self._allocations.of(gpu.uuid, gpu.index, device.slices))
