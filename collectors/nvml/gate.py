"""The only way to NVML: its calls with plain values, its errors translated. Nothing else imports ``pynvml``.

Every function may raise the exceptions of ``nvml_errors`` and nothing else of NVML's. Percent may be out of
range here, as drivers report it. "nvidia-smi" in a docstring names the column of the same figure.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, TypeVar

import pynvml

from collectors.nvml.errors import Away, Hiccup, Lost, Nothing, Refused, Unsupported
from collectors.nvml.types import Attributes, Buffer, Counter, Field, Handle, Running, Share, Stamped

T = TypeVar("T")
_UNKNOWN_32 = 0xFFFFFFFF
"""NVML's "not available" in an unsigned int."""
_VALUE_OF_TYPE = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: ("dVal", 64),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: ("uiVal", 32),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: ("ulVal", 64),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: ("ullVal", 64),
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: ("sllVal", 63),
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: ("siVal", 31),
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: ("usVal", 16),
}
"""Where a value of each type lies in NVML's union, and the bits it counts with."""

_KINDS: dict[int, tuple[type[Refused], str]] = {
    # The binding raises "success" where a list of processes turns out to be empty.
    pynvml.NVML_SUCCESS: (Nothing, "empty"),
    pynvml.NVML_ERROR_UNINITIALIZED: (Away, "uninitialized"),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (Away, "driver_not_loaded"),
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (Away, "library_not_found"),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (Away, "version_mismatch"),
    pynvml.NVML_ERROR_NOT_SUPPORTED: (Unsupported, "not_supported"),
    pynvml.NVML_ERROR_NO_PERMISSION: (Unsupported, "no_permission"),
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: (Unsupported, "driver_too_old"),
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: (Unsupported, "driver_too_old"),
    pynvml.NVML_ERROR_DEPRECATED: (Unsupported, "withdrawn"),
    pynvml.NVML_ERROR_NOT_FOUND: (Nothing, "not_found"),
    pynvml.NVML_ERROR_NO_DATA: (Nothing, "no_data"),
    pynvml.NVML_ERROR_GPU_IS_LOST: (Lost, "gpu_is_lost"),
    pynvml.NVML_ERROR_RESET_REQUIRED: (Lost, "reset_required"),
    pynvml.NVML_ERROR_GPU_NOT_FOUND: (Lost, "gpu_not_found"),
    pynvml.NVML_ERROR_INVALID_ARGUMENT: (Hiccup, "invalid_argument"),
    pynvml.NVML_ERROR_INSUFFICIENT_SIZE: (Hiccup, "insufficient_size"),
    pynvml.NVML_ERROR_TIMEOUT: (Hiccup, "timeout"),
    pynvml.NVML_ERROR_MEMORY: (Hiccup, "out_of_memory"),
    pynvml.NVML_ERROR_UNKNOWN: (Hiccup, "unknown_error"),
}


def refusal_of(code: int) -> Refused:
    """The exception for one of NVML's return codes."""
    kind, reason = _KINDS.get(code, (Hiccup, "other_error"))
    return kind(reason)


def call(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function of the binding; raises what its error stands for."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise refusal_of(error.value) from error


def open_library() -> None:
    """Load and start NVML, once for many ticks. Raises ``Away``, or another refusal, if it does not start."""
    call(pynvml.nvmlInit)


def driver_version() -> str:
    """The kernel driver's, such as 570.86.15."""
    return str(call(pynvml.nvmlSystemGetDriverVersion))


def close_library() -> None:
    """Let go of all devices. Handles are void afterwards."""
    call(pynvml.nvmlShutdown)


def device_count() -> int:
    """How many GPUs NVML knows, lost ones too."""
    return int(call(pynvml.nvmlDeviceGetCount))


def device(index: int) -> Handle:
    """The GPU at ``index``, nvidia-smi's GPU number."""
    return call(pynvml.nvmlDeviceGetHandleByIndex, index)


def uuid(handle: Handle) -> str:
    """``GPU-…`` or ``MIG-…``."""
    return str(call(pynvml.nvmlDeviceGetUUID, handle))


def name(handle: Handle) -> str:
    """The model; of a MIG slice, with its profile at the end."""
    return str(call(pynvml.nvmlDeviceGetName, handle))


def utilization(handle: Handle) -> tuple[int, int]:
    """Percent of the driver's last 1/6-1 s with a kernel running, and with the memory controller busy."""
    rates = call(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return rates.gpu, rates.memory


def memory(handle: Handle) -> tuple[int, int]:
    """Bytes used, without what the driver reserves, and bytes in all (nvidia-smi: Memory-Usage)."""
    info = call(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return info.used, info.total


def memory_with_reserved(handle: Handle) -> tuple[int, int]:
    """The same by the older call: what the driver reserves counts as used."""
    info = call(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return info.used, info.total


def power_mw(handle: Handle) -> int:
    """Milliwatts of the whole board; on Ampere and later the mean of the last second."""
    return int(call(pynvml.nvmlDeviceGetPowerUsage, handle))


def power_limit_mw(handle: Handle) -> int:
    """Milliwatts: the lowest of all limits in force."""
    return int(call(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle))


def energy_mj(handle: Handle) -> int:
    """Millijoules since the driver was loaded (Volta and later)."""
    return int(call(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle))


def temperature_c(handle: Handle) -> int:
    """Celsius of the GPU's core."""
    return int(call(pynvml.nvmlDeviceGetTemperatureV, handle, pynvml.NVML_TEMPERATURE_GPU))


def temperature_c_before_r570(handle: Handle) -> int:
    """The same by the call that newer drivers will drop."""
    return int(call(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU))


def sm_clock_mhz(handle: Handle) -> int:
    """Megahertz of the multiprocessors, now."""
    return int(call(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM))


def mem_clock_mhz(handle: Handle) -> int:
    """Megahertz of the memory, now."""
    return int(call(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM))


def pcie_generation(handle: Handle) -> int:
    """Of the link as it runs now: it falls while the GPU idles."""
    return int(call(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle))


def pcie_width(handle: Handle) -> int:
    """Lanes of the link as it runs now."""
    return int(call(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle))


def event_reasons(handle: Handle) -> int:
    """A bit for each thing that holds the clocks down (see ``nvml_throttle``)."""
    return int(call(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle))


def throttle_reasons(handle: Handle) -> int:
    """The same under its name before R535."""
    return int(call(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle))


def samples(handle: Handle, buffer: Buffer, after_us: int) -> list[Stamped]:
    """Buffered samples newer than ``after_us`` (0: all), oldest first; raises ``Nothing`` for none."""
    kind, found = call(pynvml.nvmlDeviceGetSamples, handle, int(buffer), after_us)
    where, _ = _VALUE_OF_TYPE[kind]
    read = (Stamped(one.timeStamp, getattr(one.sampleValue, where)) for one in found)
    return sorted(one for one in read if one.value != _UNKNOWN_32)


def shares(handle: Handle, after_us: int) -> list[Share]:
    """The newest share of each process that did anything after ``after_us`` (0: in the last seconds)."""
    try:
        found = call(pynvml.nvmlDeviceGetProcessUtilization, handle, after_us)
    except Nothing:
        return []
    # Some drivers name pid 0 in unused places of the answer.
    told = (one for one in found if one.pid and one.smUtil != _UNKNOWN_32)
    return [Share(one.pid, one.timeStamp, one.smUtil, one.memUtil) for one in told]


def compute_processes(handle: Handle) -> list[Running]:
    """Processes with a compute context; of a whole GPU, those of all its MIG slices."""
    return [_running(one) for one in call(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)]


def graphics_processes(handle: Handle) -> list[Running]:
    """Processes with a graphics context; many have a compute context too, and are in both lists."""
    return [_running(one) for one in call(pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3, handle)]


def _running(one: Any) -> Running:
    return Running(one.pid, one.usedGpuMemory, (one.gpuInstanceId, one.computeInstanceId))


def counters(handle: Handle, fields: Sequence[Field]) -> list[Counter | Refused]:
    """Several counters in one call; each has its own answer or refusal."""
    found = call(pynvml.nvmlDeviceGetFieldValues, handle, [int(field) for field in fields])
    return [_counter(one) if one.nvmlReturn == 0 else refusal_of(one.nvmlReturn) for one in found]


def _counter(one: Any) -> Counter:
    where, bits = _VALUE_OF_TYPE[one.valueType]
    return Counter(int(getattr(one.value, where)), bits)


def mig_enabled(handle: Handle) -> bool:
    """Whether the GPU is divided now (not: after its next reset)."""
    current, _ = call(pynvml.nvmlDeviceGetMigMode, handle)
    return bool(current)


def mig_places(handle: Handle) -> int:
    """How many MIG slices a GPU can have; their indexes lie below, with gaps."""
    return int(call(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle))


def mig_device(handle: Handle, index: int) -> Handle:
    """The slice at ``index``; raises ``Nothing`` where there is none."""
    return call(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)


def mig_attributes(handle: Handle) -> Attributes:
    """The size of a slice."""
    found = call(pynvml.nvmlDeviceGetAttributes_v2, handle)
    return Attributes(found.gpuInstanceSliceCount, found.computeInstanceSliceCount, found.memorySizeMB)


def gpu_instance(handle: Handle) -> int:
    """The GPU instance that a slice is in; several compute instances can share one."""
    return int(call(pynvml.nvmlDeviceGetGpuInstanceId, handle))


def gpm_supported(handle: Handle) -> bool:
    """True on a GPU with GPM, counters without a profiler; raises ``Unsupported`` before Hopper."""
    if not call(pynvml.nvmlGpmQueryDeviceSupport, handle).isSupportedDevice:
        raise Unsupported("not_supported")
    return True


def gpm_sample_new() -> Any:
    """Room for one GPM sample; give it back with ``gpm_sample_free``."""
    return call(pynvml.nvmlGpmSampleAlloc)


def gpm_sample_free(sample: Any) -> None:
    """Give back a sample's room; while the library is open only."""
    call(pynvml.nvmlGpmSampleFree, sample)


def gpm_sample(handle: Handle, instance: int, sample: Any) -> None:
    """Fill ``sample`` with the counters of a GPU instance as they are now."""
    call(pynvml.nvmlGpmMigSampleGet, handle, instance, sample)


def gpm_busy_pct(first: Any, second: Any) -> float:
    """Percent of the time between two samples with anything running; they must be 100 ms apart or more."""
    question = pynvml.c_nvmlGpmMetricsGet_t()
    question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    question.numMetrics = 1
    question.sample1, question.sample2 = first, second
    question.metrics[0].metricId = pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL
    answer = call(pynvml.nvmlGpmMetricsGet, question).metrics[0]
    if answer.nvmlReturn:
        raise refusal_of(answer.nvmlReturn)
    if not isfinite(answer.value):
        raise Nothing("no_data")
    return float(answer.value)
