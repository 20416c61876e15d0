"""Reads one GPU once a tick into its record. Each quantity that cannot be had is an absent field."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from collectors.attribution.processes import printable
from collectors.base import Tick
from collectors.nvml import gate
from collectors.nvml.bursts import BurstReader
from collectors.nvml.clock import Now
from collectors.nvml.fields import FieldReader
from collectors.nvml.gpm import GpmReader, metrics_of
from collectors.nvml.mig import MigReader
from collectors.nvml.processes import ProcessIdentities, ProcessUtilizationReader, read_processes
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import Handle, RunningProcess, SampleBuffer
from collectors.throttle import throttle_names
from dutycycle.contract.catalogue import LIMITS, USUAL_ACTIVITY
from dutycycle.contract.energy import MOST_GROWTH_W
from dutycycle.contract.records.samples import Gpu
from dutycycle.telemetry.events import Telemetry

_STATIC_TICKS = 10
"""The limits of power and heat, the PCIe link and the memory's clock hardly change: they are read once in so
many ticks. So are the list of graphics processes while it is empty, and the MIG mode of a GPU that tells its
utilization."""
_limited = attrgetter(*LIMITS)


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """Names a GPU as NVML lists it since the library was opened: its index and handle, and its lasting
    uuid."""

    index: int
    handle: Handle
    uuid: str

    @property
    def label(self) -> str:
        """Return how the GPU is named in what is logged."""
        return f"GPU {self.index} ({self.uuid})"


_VIDEO = {"enc_util_pct": gate.encoder_pct, "dec_util_pct": gate.decoder_pct}
_IN_MILLI = (("power_w", "power", gate.power_mw), ("energy_j", "energy", gate.energy_mj))
"""Calls for what the GPU does not tell by the id of a field."""
_ENGINES = _VIDEO | {"jpeg_util_pct": gate.jpeg_pct, "ofa_util_pct": gate.optical_flow_pct}


class Device:
    """Holds a GPU, and what rates and cursors need from tick to tick. It outlives its handle: see ``renew``.

    ``query`` asks it, and knows what it does not support.
    """

    def __init__(self, ref: DeviceRef, telemetry: Telemetry, activity: Collection[str]) -> None:
        """Read a GPU. ``activity``: the fields that are read of what it really does, where it tells."""
        self.query = DeviceQuery(ref.handle, ref.label, telemetry)
        self._util_burst = BurstReader(SampleBuffer.GPU_UTIL, "util_burst", 1, LIMITS["gpu_util_pct"])
        self._power_burst = BurstReader(SampleBuffer.POWER_MW, "power_burst", 1000, LIMITS["power_w"])
        self._utilizations = ProcessUtilizationReader()
        self._utilization, self._memory = gate.utilization(), gate.memory()
        self._reasons, self._temperature, self._sm_clock = (
            gate.event_reasons(), gate.temperature_c(), gate.sm_clock_mhz(),
        )  # fmt: skip
        self._compute_processes = [gate.compute_processes(version) for version in gate.PROCESS_VERSIONS]
        self._graphics_processes = [gate.graphics_processes(version) for version in gate.PROCESS_VERSIONS]
        self._now = Now.read()
        self._fields = FieldReader(activity)
        self._gpm = GpmReader(metrics_of("gpu", activity), "gpm")
        self._mig = MigReader(activity)
        self._engines = [(name, way) for name, way in _ENGINES.items() if name in activity]
        self._asks_for_all = set(USUAL_ACTIVITY) <= set(activity)
        self._divided = False
        self._graphics: list[RunningProcess] | None = None
        self._model: str | None = None
        self._static: dict[str, int] = {}
        self._metered: tuple[float, float] | None = None
        """Holds the newest joules of its counter that it can have used, and when they were read, in
        seconds."""
        self.ref = ref

    @property
    def slices(self) -> Mapping[str, int]:
        """Return the GPU instances of its MIG slices by uuid; empty where it is not divided."""
        return self._mig.instances if self._divided else {}

    @property
    def divided(self) -> bool:
        """Tell whether it was in MIG mode when it was read last."""
        return self._divided

    def renew(self, ref: DeviceRef) -> None:
        """Go on with a new handle of the same GPU."""
        self.ref = ref
        self.query.handle, self.query.label = ref.handle, ref.label
        self._static.clear()
        self._model = None  # drivers call it differently
        self.query.forget("gpm", "gpm_sample", "mig_util")
        self._gpm.forget()
        self._fields.forget()
        self._mig.forget()

    def release(self) -> None:
        """Free what the driver holds for us, before the library is closed."""
        self._gpm.keep(())
        self._mig.release()

    @property
    def is_asked_ahead(self) -> bool:
        """Tell whether ``ask`` asks for nearly all that is read at each tick: not of slices or before GPM."""
        return self._gpm.is_supported and not self._divided

    def ask(self) -> None:
        """Ask the driver for what ``read`` reads next: of all GPUs before the first is read."""
        begin, now = self.query.begin, Now.read()
        self._now = now
        begin("gpu_util", self._utilization)
        begin("memory", self._memory)
        self._fields.ask(self.query)
        begin("throttle", self._reasons)
        self._utilizations.ask(self.query, now)
        begin("temperature", self._temperature)
        begin("sm_clock", self._sm_clock)
        self._util_burst.ask(self.query, now)
        self._power_burst.ask(self.query, now)
        begin("compute_processes", self._compute_processes[0])

    def ask_activity(self) -> None:
        """Ask for GPM's counters, which is asked of one GPU at a time."""
        if not self._divided:
            self._gpm.ask(self.query)

    def read(self, tick: Tick, identities: ProcessIdentities) -> Gpu:
        """Return the GPU as it was at ``ask``; what it cannot answer is an absent field.

        Raises ``DeviceLostError`` and ``DriverUnavailableError``.
        """
        ask, now = self.query.ask, self._now
        if (tick.seq + self.ref.index) % _STATIC_TICKS == 0:  # not all GPUs in the same tick
            self._static.clear()
        if self._divided or not self._static:
            self._note_mig_mode()
        util, mem_copy_util = ask("gpu_util", self._utilization) or (None, None)
        if util is None and not self._divided:
            self._note_mig_mode()
        self._model = self._model or printable(ask("model", gate.name) or "")
        used, total = self.query.possible_memory(
            "memory", ask("memory", self._memory, gate.memory_with_reserved)
        )
        if self._graphics or not self._static:
            self._graphics = ask("graphics_processes", *self._graphics_processes)
        power_limit_mw = self._ask_static("power_limit", gate.power_limit_mw)
        # In MIG mode the driver does not say whose a GPU's counters are; its slices have their own.
        activity = {} if self._divided else self._gpm.read(self.query, None, self.ref.uuid)
        before_gpm = not self._divided and not self._gpm.is_supported
        by_id = self._fields.read(self.query, before_gpm=before_gpm)
        # Engines are read as asked for; encoder and decoder also where the GPU tells no more of itself.
        ways = self._engines
        if self._asks_for_all and not self._gpm.is_supported:
            ways = [*_VIDEO.items()]
        engines = {name: pct for name, way in ways if (pct := ask(name, way)) is not None}
        fields: dict[str, Any] = activity | by_id | engines
        for field, what, way in _IN_MILLI:
            if field not in by_id and (milli := ask(what, way)) is not None:
                fields[field] = milli / 1000
        computing = ask("compute_processes", *self._compute_processes)
        reasons = ask("throttle", self._reasons, gate.throttle_reasons)
        utilizations = self._utilizations.read(self.query, now, tick.interval_ms)
        processes = read_processes(computing, self._graphics, utilizations, identities, self.query, total)
        gpu = Gpu(
            uuid=self.ref.uuid,
            index=self.ref.index,
            model=self._model,
            gpu_util_pct=util,
            mem_copy_util_pct=mem_copy_util,
            mem_used_bytes=used,
            mem_total_bytes=total,
            power_limit_w=None if power_limit_mw is None else power_limit_mw / 1000,
            temp_c=ask("temperature", self._temperature, gate.temperature_c_before_r570),
            temp_margin_c=self._ask_static("temp_margin", gate.temp_margin_c, gate.temp_margin_by_threshold),
            sm_clock_mhz=ask("sm_clock", self._sm_clock),
            mem_clock_mhz=self._ask_static("mem_clock", gate.mem_clock_mhz),
            pcie_gen=self._ask_static("pcie_gen", gate.pcie_generation),
            pcie_width=self._ask_static("pcie_width", gate.pcie_width),
            throttle=None if reasons is None else throttle_names(reasons),
            util_burst=self._util_burst.read(self.query, now, tick.ts_ms, tick.interval_ms),
            power_burst=self._power_burst.read(self.query, now, tick.ts_ms, tick.interval_ms),
            mig=self._mig.read(self.query, total) if self._divided else None,
            processes=processes,
            **fields,
        )
        return self._possible(gpu)

    def _possible(self, gpu: Gpu) -> Gpu:
        """Return the GPU without values that none has, and without a counter of energy that leaps."""
        odd: dict[str, None] = {
            field: None
            for (field, (low, high)), value in zip(LIMITS.items(), _limited(gpu), strict=True)
            if value is not None and not low <= value <= high
        }
        for field in odd:
            self.query.possible(field, getattr(gpu, field), LIMITS[field])
        if gpu.energy_j is not None and "energy_j" not in odd:
            now_s = self._now.monotonic_us / 1e6
            last_j, last_s = self._metered or (inf, now_s)
            limits = 0.0, last_j + MOST_GROWTH_W * (now_s - last_s)
            if self.query.possible("energy_j", gpu.energy_j, limits) is None:
                odd["energy_j"] = None
            else:
                self._metered = gpu.energy_j, now_s
        return replace(gpu, **odd) if odd else gpu

    def _note_mig_mode(self) -> None:
        divided = self.query.ask("mig_mode", gate.mig_enabled)
        if divided is None:  # not told this time, or never: as before
            return
        if divided != self._divided:
            # A GPU in MIG mode has no utilization of its own; out of it, it has.
            self.query.forget()
            self._gpm.forget()
            self._gpm.keep(())
            self._fields.forget()
            self._mig.forget()
        self._divided = divided

    def _ask_static(self, what: str, *ways: Callable[[Handle], int]) -> int | None:
        if what not in self._static and (value := self.query.ask(what, *ways)) is not None:
            self._static[what] = value
        return self._static.get(what)
