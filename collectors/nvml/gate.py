"""Is the only importer of ``pynvml``: NVML's calls with plain values, and its errors translated.

Every function may raise the errors of ``nvml.types`` and nothing else of NVML's. Percentages may be out of
range here, as drivers report them. A docstring names what ``nvidia-smi`` shows of the same.
"""

from collections.abc import Callable, Collection, Sequence
from ctypes import byref, c_int32, c_uint, c_ulonglong, c_void_p, cast, create_string_buffer, memmove, sizeof
from itertools import islice
from math import isfinite
from struct import Struct, pack
from typing import Any, Generic, TypeVar

import pynvml

from collectors.nvml.types import (
    BufferedSample,
    DeviceLostError,
    DriverUnavailableError,
    FabricState,
    FieldValue,
    Handle,
    MigSize,
    NoDataError,
    NvmlError,
    ProcessUtilization,
    RawEvent,
    RunningProcess,
    SampleBuffer,
    TransientError,
    UnsupportedError,
)

_T = TypeVar("_T")
_UNKNOWN_32 = 0xFFFFFFFF
"""NVML's "not available" in an unsigned int."""
_UNKNOWN_64 = 0xFFFFFFFFFFFFFFFF
_LEAST_ROOM = 64
_MOST_ROOM = 65_536
_VALUE_OF_TYPE = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: ("d", 64),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: ("I4x", 32),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: ("L", 64),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: ("Q", 64),
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: ("q", 63),
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: ("i4x", 31),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: ("H6x", 16),
}
"""How a value of each type lies in NVML's union, and the bits it counts with."""
# The binding's structures decode in Python at each attribute: with 60 samples a GPU and tick, that was a
# tenth of all that a collector did. The names are the binding's.
SAMPLE = {number: Struct(f"@Q{value}") for number, (value, _) in _VALUE_OF_TYPE.items()}
"""``c_nvmlSample_t`` by the type of its value: stamp and value."""
_UNION = {number: (Struct(f"@{value}"), bits) for number, (value, bits) in _VALUE_OF_TYPE.items()}
"""NVML's union by the type of its value, and the bits that this counts with."""
PROCESS_UTILIZATION = Struct("@IQII8x")
"""``c_nvmlProcessUtilizationSample_t``: pid, stamp, multiprocessors and memory in percent."""
PROCESS_INFO = Struct("@IQII")
"""``c_nvmlProcessInfo_v3_t``: pid, bytes, GPU and compute instance."""
FIELD_VALUE = Struct("@24xII8s")
"""``c_nvmlFieldValue_t``: type, return code and value."""
GPM_METRIC = Struct("@4xId24x")
"""``c_nvmlGpmMetric_t``: return code and value."""

_ERRORS: dict[int, tuple[type[NvmlError], str]] = {
    # The binding raises "success" where a list of processes turns out to be empty.
    pynvml.NVML_SUCCESS: (NoDataError, "empty"),
    pynvml.NVML_ERROR_UNINITIALIZED: (DriverUnavailableError, "uninitialized"),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (DriverUnavailableError, "driver_not_loaded"),
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (DriverUnavailableError, "library_not_found"),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (DriverUnavailableError, "version_mismatch"),
    pynvml.NVML_ERROR_NOT_SUPPORTED: (UnsupportedError, "not_supported"),
    pynvml.NVML_ERROR_NO_PERMISSION: (UnsupportedError, "no_permission"),
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: (UnsupportedError, "driver_too_old"),
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: (UnsupportedError, "driver_too_old"),
    pynvml.NVML_ERROR_DEPRECATED: (UnsupportedError, "withdrawn"),
    pynvml.NVML_ERROR_NOT_FOUND: (NoDataError, "not_found"),
    pynvml.NVML_ERROR_NO_DATA: (NoDataError, "no_data"),
    pynvml.NVML_ERROR_GPU_IS_LOST: (DeviceLostError, "gpu_is_lost"),
    pynvml.NVML_ERROR_RESET_REQUIRED: (DeviceLostError, "reset_required"),
    pynvml.NVML_ERROR_GPU_NOT_FOUND: (DeviceLostError, "gpu_not_found"),
    pynvml.NVML_ERROR_INVALID_ARGUMENT: (TransientError, "invalid_argument"),
    pynvml.NVML_ERROR_INSUFFICIENT_SIZE: (TransientError, "insufficient_size"),
    pynvml.NVML_ERROR_TIMEOUT: (TransientError, "timeout"),
    pynvml.NVML_ERROR_MEMORY: (TransientError, "out_of_memory"),
    pynvml.NVML_ERROR_UNKNOWN: (TransientError, "unknown_error"),
}


def nvml_error(code: int) -> NvmlError:
    """Return the exception for one of NVML's return codes."""
    kind, reason = _ERRORS.get(code, (TransientError, "other_error"))
    return kind(reason)


def call(function: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function of the binding; raises the ``NvmlError`` that its error stands for."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise nvml_error(error.value) from error
    except UnicodeDecodeError as error:  # of a board whose memory of itself is damaged
        raise UnsupportedError("no_text") from error


def check(code: int) -> None:
    """Raise the ``NvmlError`` that a return code stands for, if it is no success."""
    if code:
        raise nvml_error(code)


def _code_of(name: str, *arguments: Any) -> int:
    """Call a function of the library; returns its code."""
    try:
        function = pynvml._nvmlGetFunctionPointer(name)
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(function(*arguments))


class DriverCall(Generic[_T]):
    """Makes a call at each tick, in two steps: ``ask`` has the driver write, and what it wrote is read
    by calling this, which asks if nothing was asked.

    So a tick waits for the driver first, for all of its answers, and reads them in one go then. To read each
    after its wait takes 1.4 times the CPU time: after a wait the processor's caches are cold.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[Any],
        read: Callable[[], _T],
        blank: tuple[Any, bytes] | None = None,
    ) -> None:
        """``arguments`` come after the handle. ``blank``: a place, and what is to be there before a call."""
        self._name, self._arguments, self._read, self._blank = name, arguments, read, blank
        self._code: int | None = None

    def ask(self, handle: Handle) -> None:
        """Call the driver."""
        if self._blank is not None:
            place, content = self._blank
            memmove(place, content, len(content))
        self._code = _code_of(self._name, handle, *self._arguments)

    def drop(self) -> None:
        """Forget what was asked."""
        self._code = None

    def __call__(self, handle: Handle) -> _T:
        """Return the answer. Raises the ``NvmlError`` that the driver's code stands for."""
        if self._code is None:
            self.ask(handle)
        code, self._code = self._code, None
        check(code or 0)
        return self._read()


class RowsCall(DriverCall[list[_T]]):
    """Asks for an array of rows, in one call; in one more where there was too little room.

    The binding asks for the size first, each time, which is as long a call as the one for the answer.
    """

    def __init__(
        self,
        name: str,
        row: Any,
        arguments: Callable[[Any, Any, Any], Sequence[Any]],
        layout: Callable[[], Struct],
        read: Callable[[list[tuple[Any, ...]]], list[_T]],
    ) -> None:
        """``arguments`` makes those after the handle of the count, the array and ``after_us``. ``layout`` is
        asked for after a call."""

        def rows() -> list[_T]:
            filled = min(self._count.value, self.room)
            return read(list(islice(layout().iter_unpack(self._array), filled)))

        super().__init__(name, (), rows)
        self.after_us = c_ulonglong()
        """Of rows with a stamp, those are asked for that are newer; 0: all."""
        self._row, self._arrange = row, arguments
        self._count = c_uint()
        self.make_room(_LEAST_ROOM)

    def make_room(self, room: int) -> None:
        """Have room for so many rows from now on."""
        self.room = room
        self._array = (self._row * room)()
        # Some drivers count rows that they leave as they are.
        self._blank = self._array, bytes(sizeof(self._array))
        self._arguments = self._arrange(byref(self._count), self._array, self.after_us)

    def ask(self, handle: Handle) -> None:
        """Call the driver."""
        self._count.value = self.room
        super().ask(handle)

    def __call__(self, handle: Handle) -> list[_T]:
        """Return the rows."""
        if self._code is None:
            self.ask(handle)
        while self._code == pynvml.NVML_ERROR_INSUFFICIENT_SIZE and self.room < _MOST_ROOM:
            self.make_room(min(2 * max(self.room, self._count.value), _MOST_ROOM))
            self.ask(handle)
        return super().__call__(handle)


def open_library() -> None:
    """Load and initialise NVML, once for many ticks.

    Where no process keeps the driver up, it starts each GPU, which takes a second or more.
    """
    call(pynvml.nvmlInit)


def driver_version() -> str:
    """Return the kernel driver's, such as 570.86.15 (nvidia-smi: Driver Version)."""
    return str(call(pynvml.nvmlSystemGetDriverVersion))


def close_library() -> None:
    """Shut NVML down. Handles are void afterwards."""
    call(pynvml.nvmlShutdown)


def device_count() -> int:
    """Tell how many GPUs NVML knows, lost ones too (nvidia-smi -L)."""
    return int(call(pynvml.nvmlDeviceGetCount))


def device(index: int) -> Handle:
    """Return the GPU at ``index`` (nvidia-smi: GPU)."""
    return call(pynvml.nvmlDeviceGetHandleByIndex, index)


def _answer(
    kind: Callable[[Any], _T], function: Callable[..., Any], *arguments: Any
) -> Callable[[Handle], _T]:
    """Make a call of the binding whose answer is one value of this ``kind``."""
    return lambda handle: kind(call(function, handle, *arguments))


def _first(pair: Any) -> int:
    return int(pair[0])


def uuid(handle: Handle) -> str:
    """Return ``GPU-…`` or ``MIG-…``, which unlike the index stays the same (nvidia-smi -L); never an empty
    text, by which nothing could be told apart."""
    text = str(call(pynvml.nvmlDeviceGetUUID, handle))
    if not text:
        raise UnsupportedError("no_text")
    return text


name = _answer(str, pynvml.nvmlDeviceGetName)
"""Model (nvidia-smi: name); of a MIG slice, with its profile at the end."""
encoder_pct = _answer(_first, pynvml.nvmlDeviceGetEncoderUtilization)
"""Percent of the driver's last sampling period in which the video encoder worked. None with MIG."""
decoder_pct = _answer(_first, pynvml.nvmlDeviceGetDecoderUtilization)
"""The same of the video decoder."""
jpeg_pct = _answer(_first, pynvml.nvmlDeviceGetJpgUtilization)
"""The same of the JPEG decoder."""
optical_flow_pct = _answer(_first, pynvml.nvmlDeviceGetOfaUtilization)
"""The same of the optical flow accelerator."""
power_mw = _answer(int, pynvml.nvmlDeviceGetPowerUsage)
"""Milliwatts of the board (nvidia-smi: power.draw); on Ampere and later the mean of a second."""
power_limit_mw = _answer(int, pynvml.nvmlDeviceGetEnforcedPowerLimit)
"""Milliwatts: the lowest of all limits in force (nvidia-smi: enforced.power.limit)."""
energy_mj = _answer(int, pynvml.nvmlDeviceGetTotalEnergyConsumption)
"""Millijoules since the driver was loaded; Volta and later. nvidia-smi does not show it."""
temperature_c_before_r570 = _answer(int, pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)
"""``temperature_c`` by the call that newer drivers will drop."""
temp_margin_c = _answer(int, pynvml.nvmlDeviceGetMarginTemperature)
"""Degrees to where the clocks are lowered (nvidia-smi: temperature.gpu.tlimit); R560 and later."""
mem_clock_mhz = _answer(int, pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM)
"""Megahertz of the memory, now (nvidia-smi: clocks.mem)."""
pcie_generation = _answer(int, pynvml.nvmlDeviceGetCurrPcieLinkGeneration)
"""Generation of the link as it runs now (nvidia-smi: pcie.link.gen.current): it falls while the GPU
idles."""
pcie_width = _answer(int, pynvml.nvmlDeviceGetCurrPcieLinkWidth)
"""Lanes of the link as it runs now (nvidia-smi: pcie.link.width.current)."""
throttle_reasons = _answer(int, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
"""``event_reasons`` under their name before R535."""
max_mig_devices = _answer(int, pynvml.nvmlDeviceGetMaxMigDeviceCount)
"""How many MIG slices a GPU can have; their indexes lie below, with gaps."""
gpu_instance = _answer(int, pynvml.nvmlDeviceGetGpuInstanceId)
"""GPU instance that a slice is in (nvidia-smi: GI ID); several compute instances can share one."""
supported_events = _answer(int, pynvml.nvmlDeviceGetSupportedEventTypes)
"""A bit for each type of event that the GPU tells."""
serial = _answer(str, pynvml.nvmlDeviceGetSerial)
"""Number on the board (nvidia-smi: serial)."""
ecc_enabled = _answer(bool, pynvml.nvmlDeviceGetCurrentEccMode)
"""Whether errors of memory are found now (nvidia-smi: ecc.mode.current)."""
persistence_enabled = _answer(bool, pynvml.nvmlDeviceGetPersistenceMode)
"""Whether the driver stays loaded while nobody uses the GPU (nvidia-smi: persistence_mode)."""


def utilization() -> DriverCall[tuple[int, int]]:
    """Ask for percent of the driver's last 1/6-1 s with a kernel running, and with the memory controller at
    work.

    nvidia-smi: utilization.gpu and utilization.memory, which is not the memory in use. None with MIG.
    """
    rates = pynvml.c_nvmlUtilization_t()
    return DriverCall("nvmlDeviceGetUtilizationRates", (byref(rates),), lambda: (rates.gpu, rates.memory))


def memory() -> DriverCall[tuple[int, int]]:
    """Ask for bytes used, without what the driver reserves, and in total (nvidia-smi: memory.used,
    memory.total)."""
    info = pynvml.c_nvmlMemory_v2_t(version=pynvml.nvmlMemory_v2)
    return DriverCall("nvmlDeviceGetMemoryInfo_v2", (byref(info),), lambda: (info.used, info.total))


def memory_with_reserved(handle: Handle) -> tuple[int, int]:
    """Return the same by the older call: what the driver reserves counts as used."""
    info = call(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return info.used, info.total


def temperature_c() -> DriverCall[int]:
    """Ask for Celsius of the GPU's core (nvidia-smi: temperature.gpu)."""
    answer = pynvml.c_nvmlTemperature_v1_t(
        version=pynvml.nvmlTemperature_v1, sensorType=pynvml.NVML_TEMPERATURE_GPU
    )
    return DriverCall("nvmlDeviceGetTemperatureV", (byref(answer),), lambda: answer.temperature)


def temp_margin_by_threshold(handle: Handle) -> int:
    """Return the same from the threshold, which GPUs from Ada on will no longer say."""
    slowdown = call(
        pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    )
    return int(slowdown) - temperature_c_before_r570(handle)


def sm_clock_mhz() -> DriverCall[int]:
    """Ask for megahertz of the multiprocessors, now (nvidia-smi: clocks.sm)."""
    clock = c_uint()
    arguments = c_uint(pynvml.NVML_CLOCK_SM), byref(clock)
    return DriverCall("nvmlDeviceGetClockInfo", arguments, lambda: clock.value)


def event_reasons() -> DriverCall[int]:
    """Ask for a bit for each reason that holds the clocks down (nvidia-smi: clocks_event_reasons.active)."""
    reasons = c_ulonglong()
    return DriverCall("nvmlDeviceGetCurrentClocksEventReasons", (byref(reasons),), lambda: reasons.value)


def buffer_size(handle: Handle, buffer: SampleBuffer) -> int:
    """Tell how many samples a ring buffer holds at most."""
    count = c_uint(0)
    check(
        _code_of(
            "nvmlDeviceGetSamples", handle, c_uint(buffer), c_ulonglong(), byref(c_uint()), byref(count), None
        )
    )
    return count.value


def buffered_samples(buffer: SampleBuffer) -> RowsCall[BufferedSample]:
    """Ask for the samples of a ring buffer, oldest first.

    Power in milliwatts, utilization in percent. ``NoDataError`` is none: the buffers of an idle GPU run dry.
    nvidia-smi does not show them.
    """
    number, kind = c_uint(buffer), c_uint()
    return RowsCall(
        "nvmlDeviceGetSamples",
        pynvml.c_nvmlSample_t,
        lambda count, rows, after_us: (number, after_us, byref(kind), count, rows),
        lambda: SAMPLE[_known_type(kind.value)],
        lambda rows: sorted([row for row in rows if row[1] != _UNKNOWN_32]),
    )


def process_utilization() -> RowsCall[ProcessUtilization]:
    """Ask for the newest of each process that did anything (without ``after_us``: in up to nine seconds).

    ``NoDataError`` is none. nvidia-smi pmon: sm, mem.
    """
    return RowsCall(
        "nvmlDeviceGetProcessUtilization",
        pynvml.c_nvmlProcessUtilizationSample_t,
        lambda count, rows, after_us: (rows, count, after_us),
        lambda: PROCESS_UTILIZATION,
        # Some drivers name pid 0 in unused places of the answer.
        lambda rows: [ProcessUtilization(*row) for row in rows if row[0] and row[2] != _UNKNOWN_32],
    )


PROCESS_VERSIONS = 2, 3
"""Of the two calls for processes, in the order in which they are asked. Drivers 535.43 to 535.86 write longer
rows by version 3, under the same number; those of version 2 are alike in all (XuehaiPan/nvitop#79, #89)."""


def compute_processes(version: int) -> RowsCall[RunningProcess]:
    """Ask for processes with a compute context (nvidia-smi: type C); of a whole GPU, of all slices."""
    return _running_processes(f"nvmlDeviceGetComputeRunningProcesses_v{version}")


def graphics_processes(version: int) -> RowsCall[RunningProcess]:
    """Ask for processes with a graphics context (nvidia-smi: type G); one with both is in both (C+G)."""
    return _running_processes(f"nvmlDeviceGetGraphicsRunningProcesses_v{version}")


def _running_processes(name: str) -> RowsCall[RunningProcess]:
    return RowsCall(
        name,
        pynvml.c_nvmlProcessInfo_v3_t,
        lambda count, rows, _: (count, rows),
        lambda: PROCESS_INFO,
        lambda rows: [
            RunningProcess(pid, None if used == _UNKNOWN_64 else used, (gpu_instance, compute_instance))
            for pid, used, gpu_instance, compute_instance in rows
            if pid or used  # some drivers count rows that they do not write
        ],
    )


def field_values(ids: Collection[int | tuple[int, int]]) -> DriverCall[list[FieldValue | NvmlError]]:
    """Ask for several fields in one call, in the order of ``ids``; each has its own answer or error.

    An id with a second number is of a scope, such as a link.
    """
    asked = b"".join(pack("@II32x", *((number, 0) if isinstance(number, int) else number)) for number in ids)
    values = create_string_buffer(len(asked))
    return DriverCall(
        "nvmlDeviceGetFieldValues",
        (c_int32(len(ids)), values),
        lambda: [_field_value(*row) for row in FIELD_VALUE.iter_unpack(values)],
        (values, asked),
    )


def _field_value(kind: int, code: int, value: bytes) -> FieldValue | NvmlError:
    if code:
        return nvml_error(code)
    try:
        layout, bits = _UNION[_known_type(kind)]
    except UnsupportedError as error:
        return error
    (number,) = layout.unpack(value)
    return FieldValue(int(number), bits) if isfinite(number) else NoDataError("no_data")


def _known_type(number: int) -> int:
    """Raises ``UnsupportedError`` for a type that is newer than the binding."""
    if number not in _VALUE_OF_TYPE:
        raise UnsupportedError("unknown_type")
    return number


def mig_enabled(handle: Handle) -> bool:
    """Tell whether the GPU is divided now, not after its next reset (nvidia-smi: mig.mode.current)."""
    current, _ = call(pynvml.nvmlDeviceGetMigMode, handle)
    return bool(current)


def mig_device(handle: Handle, index: int) -> Handle:
    """Return the slice at ``index`` (nvidia-smi: MIG Dev); raises ``NoDataError`` where there is none."""
    return call(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)


def mig_size(handle: Handle) -> MigSize:
    """Return the size of a slice."""
    attributes = call(pynvml.nvmlDeviceGetAttributes_v2, handle)
    return MigSize(
        attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount, attributes.memorySizeMB
    )


def event_set_new() -> Any:
    """Make a set that keeps what happens to the GPUs registered with it; give it back with
    ``event_set_free``."""
    return call(pynvml.nvmlEventSetCreate)


def event_set_free(events: Any) -> None:
    """Give a set back; while the library is open only."""
    call(pynvml.nvmlEventSetFree, events)


def register_events(handle: Handle, mask: int, events: Any) -> None:
    """Have the set told what happens to the GPU from now on."""
    call(pynvml.nvmlDeviceRegisterEvents, handle, mask, events)


def next_event(events: Any) -> RawEvent | None:
    """Return the next event of a set, without waiting for one; None if nothing has happened."""
    try:
        event = call(pynvml.nvmlEventSetWait_v2, events, 0)
    except TransientError as error:
        if error.reason == "timeout":
            return None
        raise
    instance = None if event.gpuInstanceId == _UNKNOWN_32 else int(event.gpuInstanceId)
    return RawEvent(address(event.device), int(event.eventType), int(event.eventData), instance)


def address(handle: Handle) -> int:
    """Return what tells one handle from another: an event names its GPU by it."""
    return cast(handle, c_void_p).value or 0


def fabric(handle: Handle) -> FabricState:
    """Return the state of the NVLink fabric and a summary of its health; R570 or so and later."""
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    call(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, byref(info))
    return _fabric(info.state, int(info.healthSummary) or None)


def fabric_without_health(handle: Handle) -> FabricState:
    """Return the same by the older call."""
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    call(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, byref(info))
    return _fabric(info.state, None)


def _fabric(state: int, health: int | None) -> FabricState:
    if state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
        raise UnsupportedError("not_supported")
    return FabricState(int(state), health)


def bus_id(handle: Handle) -> str:
    """Tell where it is on the PCIe bus, as the kernel's log names it (nvidia-smi: pci.bus_id)."""
    bus_id = call(pynvml.nvmlDeviceGetPciInfo_v3, handle).busId
    return bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else str(bus_id)


def compute_mode(handle: Handle) -> str:
    """Tell who may use it (nvidia-smi: compute_mode)."""
    mode = call(pynvml.nvmlDeviceGetComputeMode, handle)
    return _COMPUTE_MODES.get(mode, str(mode))


_COMPUTE_MODES = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
}


def spare_rows(handle: Handle) -> tuple[int, int]:
    """Return how many banks of memory have few rows left to replace others, and how many none; also with MIG.
    From Ampere on."""
    histogram = call(pynvml.nvmlDeviceGetRowRemapperHistogram, handle)
    return int(histogram.low), int(histogram.none)


def uncorrected_errors(handle: Handle) -> tuple[int, int, int, int]:
    """Return uncorrectable errors of memory: in DRAM and SRAM since the last reset, then in the GPU's
    life."""
    counted = [
        int(call(pynvml.nvmlDeviceGetMemoryErrorCounter, handle, _UNCORRECTED, since, where))
        for since in (pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC)
        for where in (pynvml.NVML_MEMORY_LOCATION_DRAM, pynvml.NVML_MEMORY_LOCATION_SRAM)
    ]
    return counted[0], counted[1], counted[2], counted[3]


_UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED


def gpm_supported(handle: Handle) -> bool:
    """Return True on a GPU with GPM, counters without a profiler; raises ``UnsupportedError`` before
    Hopper."""
    if not call(pynvml.nvmlGpmQueryDeviceSupport, handle).isSupportedDevice:
        raise UnsupportedError("not_supported")
    return True


def gpm_samples_new() -> tuple[Any, Any]:
    """Make room for two GPM samples; give each back with ``gpm_sample_free``."""
    first = call(pynvml.nvmlGpmSampleAlloc)
    try:
        return first, call(pynvml.nvmlGpmSampleAlloc)
    except NvmlError:
        gpm_sample_free(first)
        raise


def gpm_sample_free(sample: Any) -> None:
    """Give back a sample's room; while the library is open only."""
    call(pynvml.nvmlGpmSampleFree, sample)


def gpm_sample(handle: Handle, instance: int | None, sample: Any) -> int:
    """Fill ``sample`` with the counters of a GPU, or of one of its GPU instances, as they are now; returns
    NVML's code."""
    if instance is None:
        return _code_of("nvmlGpmSampleGet", handle, sample)
    return _code_of("nvmlGpmMigSampleGet", handle, c_uint(instance), sample)


def gpm_question(metrics: Sequence[int]) -> Any:
    """Return what ``gpm_answers`` asks, by GPM's numbers: a large structure, made once for many ticks."""
    question = pynvml.c_nvmlGpmMetricsGet_t()
    question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    question.numMetrics = len(metrics)
    for at, number in enumerate(metrics):
        question.metrics[at].metricId = number
    return question


def gpm_ask(question: Any, first: Any, second: Any) -> int:
    """Ask for the values between two samples, which must be 100 ms apart or more; returns NVML's code."""
    question.sample1, question.sample2 = first, second
    return _code_of("nvmlGpmMetricsGet", byref(question))


def gpm_answers(question: Any) -> list[float | NvmlError]:
    """Give the values that were asked for, or why there is none.

    Percent, and MiB a second; they may be out of range.
    """
    answers: list[float | NvmlError] = []
    for code, value in islice(GPM_METRIC.iter_unpack(question.metrics), question.numMetrics):
        if code:
            answers.append(nvml_error(code))
        else:
            answers.append(value if isfinite(value) else NoDataError("no_data"))
    return answers
