"""The only importer of ``pynvml``: NVML's calls with plain values, and its errors translated.

Every function may raise the errors of ``nvml.types`` and nothing else of NVML's. Percentages may be out of
range here, as drivers report them. A docstring names what ``nvidia-smi`` shows of the same.
"""

from collections.abc import Callable, Sequence
from ctypes import byref, c_int32, c_uint, c_ulonglong, c_void_p, cast, create_string_buffer
from functools import lru_cache
from itertools import islice
from math import isfinite
from struct import Struct, pack, unpack
from typing import Any, TypeVar

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
_room: dict[str, int] = {}
"""How many rows a function's answer has needed, where that is more than ``_LEAST_ROOM``."""
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


def uuid(handle: Handle) -> str:
    """``GPU-…`` or ``MIG-…``, which unlike the index stays the same (nvidia-smi -L)."""
    return str(call(pynvml.nvmlDeviceGetUUID, handle))


def name(handle: Handle) -> str:
    """Return the model (nvidia-smi: name); of a MIG slice, with its profile at the end."""
    return str(call(pynvml.nvmlDeviceGetName, handle))


def utilization(handle: Handle) -> tuple[int, int]:
    """Return percent of the driver's last 1/6-1 s with a kernel running, and with the memory controller busy.

    nvidia-smi: utilization.gpu and utilization.memory, which is not the memory in use. None with MIG.
    """
    rates = call(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return rates.gpu, rates.memory


def encoder_pct(handle: Handle) -> int:
    """Percent of the driver's last sampling period in which the video encoder worked. None with MIG."""
    return int(call(pynvml.nvmlDeviceGetEncoderUtilization, handle)[0])


def decoder_pct(handle: Handle) -> int:
    """Return the same of the video decoder."""
    return int(call(pynvml.nvmlDeviceGetDecoderUtilization, handle)[0])


def jpeg_pct(handle: Handle) -> int:
    """Return the same of the JPEG decoder."""
    return int(call(pynvml.nvmlDeviceGetJpgUtilization, handle)[0])


def optical_flow_pct(handle: Handle) -> int:
    """Return the same of the optical flow accelerator."""
    return int(call(pynvml.nvmlDeviceGetOfaUtilization, handle)[0])


def memory(handle: Handle) -> tuple[int, int]:
    """Return bytes used, without what the driver reserves, and in total (nvidia-smi: memory.used, .total)."""
    info = call(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return info.used, info.total


def memory_with_reserved(handle: Handle) -> tuple[int, int]:
    """Return the same by the older call: what the driver reserves counts as used."""
    info = call(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return info.used, info.total


def power_mw(handle: Handle) -> int:
    """Return milliwatts of the board (nvidia-smi: power.draw); on Ampere and later the mean of a second."""
    return int(call(pynvml.nvmlDeviceGetPowerUsage, handle))


def power_limit_mw(handle: Handle) -> int:
    """Milliwatts: the lowest of all limits in force (nvidia-smi: enforced.power.limit)."""
    return int(call(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle))


def energy_mj(handle: Handle) -> int:
    """Millijoules since the driver was loaded; Volta and later. nvidia-smi does not show it."""
    return int(call(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle))


def temperature_c(handle: Handle) -> int:
    """Celsius of the GPU's core (nvidia-smi: temperature.gpu)."""
    return int(call(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU))


def temperature_c_before_r570(handle: Handle) -> int:
    """Return the same by the call that newer drivers will drop."""
    return int(call(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU))


def temp_margin_c(handle: Handle) -> int:
    """Return degrees to where the clocks are lowered (nvidia-smi: temperature.gpu.tlimit); R560 and later."""
    return int(call(pynvml.nvmlDeviceGetMarginTemperature, handle))


def temp_margin_by_threshold(handle: Handle) -> int:
    """Return the same from the threshold, which GPUs from Ada on will no longer say."""
    slowdown = call(
        pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    )
    return int(slowdown) - temperature_c_before_r570(handle)


def sm_clock_mhz(handle: Handle) -> int:
    """Return megahertz of the multiprocessors, now (nvidia-smi: clocks.sm)."""
    return int(call(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM))


def mem_clock_mhz(handle: Handle) -> int:
    """Return megahertz of the memory, now (nvidia-smi: clocks.mem)."""
    return int(call(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM))


def pcie_generation(handle: Handle) -> int:
    """Of the link as it runs now (nvidia-smi: pcie.link.gen.current): it falls while the GPU idles."""
    return int(call(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle))


def pcie_width(handle: Handle) -> int:
    """Lanes of the link as it runs now (nvidia-smi: pcie.link.width.current)."""
    return int(call(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle))


def event_reasons(handle: Handle) -> int:
    """Return a bit for each reason that holds the clocks down (nvidia-smi: clocks_event_reasons.active)."""
    return int(call(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle))


def throttle_reasons(handle: Handle) -> int:
    """Return the same under its name before R535."""
    return int(call(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle))


def buffer_size(handle: Handle, buffer: SampleBuffer) -> int:
    """Tell how many samples a ring buffer holds at most."""
    count = c_uint(0)
    code = call(_function, "nvmlDeviceGetSamples")(
        handle, c_uint(buffer), c_ulonglong(0), byref(c_uint()), byref(count), None
    )
    if code:
        raise nvml_error(code)
    return count.value


def buffered_samples(handle: Handle, buffer: SampleBuffer, after_us: int, room: int) -> list[BufferedSample]:
    """Return samples of a ring buffer newer than ``after_us`` (0: all), oldest first; ``room`` for so many.

    Power in milliwatts, utilization in percent. Raises ``NoDataError`` for none: the buffers of an idle GPU
    run dry. nvidia-smi does not show them.
    """
    kind = c_uint()
    rows = _rows(
        "nvmlDeviceGetSamples",
        pynvml.c_nvmlSample_t,
        room,
        lambda function, count, rows: function(
            handle, c_uint(buffer), c_ulonglong(after_us), byref(kind), byref(count), rows
        ),
        lambda: SAMPLE[_known_type(kind.value)],
    )
    samples = [sample for sample in rows if sample[1] != _UNKNOWN_32]
    samples.sort()
    return samples


def process_utilization(handle: Handle, after_us: int) -> list[ProcessUtilization]:
    """Return the newest of each process that did anything after ``after_us`` (0: in up to nine seconds).

    nvidia-smi pmon: sm, mem.
    """
    name = "nvmlDeviceGetProcessUtilization"
    try:
        rows = _rows(
            name,
            pynvml.c_nvmlProcessUtilizationSample_t,
            _room.get(name, _LEAST_ROOM),
            lambda function, count, rows: function(handle, rows, byref(count), c_ulonglong(after_us)),
            lambda: PROCESS_UTILIZATION,
        )
    except NoDataError:
        return []
    # Some drivers name pid 0 in unused places of the answer.
    return [ProcessUtilization(*row) for row in rows if row[0] and row[2] != _UNKNOWN_32]


def compute_processes(handle: Handle) -> list[RunningProcess]:
    """Processes with a compute context (nvidia-smi: type C); of a whole GPU, those of all its MIG slices."""
    return _running_processes("nvmlDeviceGetComputeRunningProcesses_v3", handle)


def graphics_processes(handle: Handle) -> list[RunningProcess]:
    """Return processes with a graphics context (nvidia-smi: type G); one with both is in both lists (C+G)."""
    return _running_processes("nvmlDeviceGetGraphicsRunningProcesses_v3", handle)


def _running_processes(name: str, handle: Handle) -> list[RunningProcess]:
    rows = _rows(
        name,
        pynvml.c_nvmlProcessInfo_v3_t,
        _room.get(name, _LEAST_ROOM),
        lambda function, count, rows: function(handle, byref(count), rows),
        lambda: PROCESS_INFO,
    )
    return [
        RunningProcess(pid, None if used == _UNKNOWN_64 else used, (gpu_instance, compute_instance))
        for pid, used, gpu_instance, compute_instance in rows
    ]


def _rows(
    name: str, row: Any, room: int, ask: Callable[[Any, c_uint, Any], int], layout: Callable[[], Struct]
) -> list[tuple[Any, ...]]:
    """Return what a function writes into an array, in one call; in one more where there was too little room.
    ``layout`` is asked for after the call.

    The binding asks for the size first, each time, which is as long a call as the one for the answer.
    """
    function = call(_function, name)
    while True:
        count, rows = c_uint(room), (row * room)()
        code = ask(function, count, rows)
        if code != pynvml.NVML_ERROR_INSUFFICIENT_SIZE or room >= _MOST_ROOM:
            break
        room = _room[name] = min(2 * max(room, count.value), _MOST_ROOM)
    if code:
        raise nvml_error(code)
    return list(islice(layout().iter_unpack(rows), min(count.value, room)))


def _function(name: str) -> Any:
    return pynvml._nvmlGetFunctionPointer(name)


def field_values(handle: Handle, ids: Sequence[int | tuple[int, int]]) -> list[FieldValue | NvmlError]:
    """Return several fields in one call, in the order of ``ids``; each has its own answer or error.

    An id with a second number is of a scope, such as a link.
    """
    asked = _asked_fields(tuple(ids))
    values = create_string_buffer(asked, len(asked))
    if code := call(_function, "nvmlDeviceGetFieldValues")(handle, c_int32(len(ids)), values):
        raise nvml_error(code)
    return [_field_value(*row) for row in FIELD_VALUE.iter_unpack(values)]


@lru_cache(256)
def _asked_fields(ids: tuple[int | tuple[int, int], ...]) -> bytes:
    """The array for an answer: of each row the id and scope are set. The same ids are asked at each tick."""
    return b"".join(pack("@II32x", *((number, 0) if isinstance(number, int) else number)) for number in ids)


def _field_value(kind: int, code: int, value: bytes) -> FieldValue | NvmlError:
    if code:
        return nvml_error(code)
    try:
        letter, bits = _VALUE_OF_TYPE[_known_type(kind)]
    except UnsupportedError as error:
        return error
    (number,) = unpack(f"@{letter}", value)
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


def max_mig_devices(handle: Handle) -> int:
    """Tell how many MIG slices a GPU can have; their indexes lie below, with gaps."""
    return int(call(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle))


def mig_device(handle: Handle, index: int) -> Handle:
    """Return the slice at ``index`` (nvidia-smi: MIG Dev); raises ``NoDataError`` where there is none."""
    return call(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)


def mig_size(handle: Handle) -> MigSize:
    """Return the size of a slice."""
    attributes = call(pynvml.nvmlDeviceGetAttributes_v2, handle)
    return MigSize(
        attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount, attributes.memorySizeMB
    )


def gpu_instance(handle: Handle) -> int:
    """The GPU instance that a slice is in (nvidia-smi: GI ID); several compute instances can share one."""
    return int(call(pynvml.nvmlDeviceGetGpuInstanceId, handle))


def event_set_new() -> Any:
    """A set that keeps what happens to the GPUs registered with it; give it back with ``event_set_free``."""
    return call(pynvml.nvmlEventSetCreate)


def event_set_free(events: Any) -> None:
    """Give a set back; while the library is open only."""
    call(pynvml.nvmlEventSetFree, events)


def supported_events(handle: Handle) -> int:
    """Return a bit for each type of event that the GPU tells."""
    return int(call(pynvml.nvmlDeviceGetSupportedEventTypes, handle))


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


def serial(handle: Handle) -> str:
    """Return the number on the board (nvidia-smi: serial)."""
    return str(call(pynvml.nvmlDeviceGetSerial, handle))


def bus_id(handle: Handle) -> str:
    """Tell where it is on the PCIe bus, as the kernel's log names it (nvidia-smi: pci.bus_id)."""
    bus_id = call(pynvml.nvmlDeviceGetPciInfo_v3, handle).busId
    return bus_id.decode("ascii", "replace") if isinstance(bus_id, bytes) else str(bus_id)


def ecc_enabled(handle: Handle) -> bool:
    """Tell whether errors of memory are found now (nvidia-smi: ecc.mode.current)."""
    return bool(call(pynvml.nvmlDeviceGetCurrentEccMode, handle))


def persistence_enabled(handle: Handle) -> bool:
    """Tell whether the driver stays loaded while nobody uses the GPU (nvidia-smi: persistence_mode)."""
    return bool(call(pynvml.nvmlDeviceGetPersistenceMode, handle))


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
    """How many banks of memory have few rows left to replace others, and how many none; also with MIG. From
    Ampere on."""
    histogram = call(pynvml.nvmlDeviceGetRowRemapperHistogram, handle)
    return int(histogram.low), int(histogram.none)


def uncorrected_errors(handle: Handle) -> tuple[int, int, int, int]:
    """Uncorrectable errors of memory: in DRAM and SRAM since the last reset, then in the GPU's life."""
    counted = [
        int(call(pynvml.nvmlDeviceGetMemoryErrorCounter, handle, _UNCORRECTED, since, where))
        for since in (pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC)
        for where in (pynvml.NVML_MEMORY_LOCATION_DRAM, pynvml.NVML_MEMORY_LOCATION_SRAM)
    ]
    return counted[0], counted[1], counted[2], counted[3]


_UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED


def gpm_supported(handle: Handle) -> bool:
    """True on a GPU with GPM, counters without a profiler; raises ``UnsupportedError`` before Hopper."""
    if not call(pynvml.nvmlGpmQueryDeviceSupport, handle).isSupportedDevice:
        raise UnsupportedError("not_supported")
    return True


def gpm_samples_new() -> tuple[Any, Any]:
    """Room for two GPM samples; give each back with ``gpm_sample_free``."""
    first = call(pynvml.nvmlGpmSampleAlloc)
    try:
        return first, call(pynvml.nvmlGpmSampleAlloc)
    except NvmlError:
        gpm_sample_free(first)
        raise


def gpm_sample_free(sample: Any) -> None:
    """Give back a sample's room; while the library is open only."""
    call(pynvml.nvmlGpmSampleFree, sample)


def gpm_sample(handle: Handle, instance: int | None, sample: Any) -> None:
    """Fill ``sample`` with the counters of a GPU, or of one of its GPU instances, as they are now."""
    if instance is None:
        call(pynvml.nvmlGpmSampleGet, handle, sample)
    else:
        call(pynvml.nvmlGpmMigSampleGet, handle, instance, sample)


def gpm_question(metrics: Sequence[int]) -> Any:
    """Return what ``gpm_answers`` asks, by GPM's numbers: a large structure, made once for many ticks."""
    question = pynvml.c_nvmlGpmMetricsGet_t()
    question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    question.numMetrics = len(metrics)
    for at, number in enumerate(metrics):
        question.metrics[at].metricId = number
    return question


def gpm_answers(question: Any, first: Any, second: Any) -> list[float | NvmlError]:
    """Give the values between two samples, which must be 100 ms apart or more, or why there is none.

    Percent, and MiB a second; they may be out of range.
    """
    question.sample1, question.sample2 = first, second
    call(pynvml.nvmlGpmMetricsGet, question)
    answers: list[float | NvmlError] = []
    for code, value in islice(GPM_METRIC.iter_unpack(question.metrics), question.numMetrics):
        if code:
            answers.append(nvml_error(code))
        else:
            answers.append(value if isfinite(value) else NoDataError("no_data"))
    return answers
