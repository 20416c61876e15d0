"""Holds NVML's answers as plain values, and its errors sorted by what follows from each."""

from enum import IntEnum
from typing import Any, NamedTuple

Handle = Any
"""A device or a MIG slice of one, as NVML returns it; void once the library is closed."""


class SampleBuffer(IntEnum):
    """Names the driver's ring buffers that are read, by NVML's number (``nvmlSamplingType_t``)."""

    POWER_MW = 0
    GPU_UTIL = 1


BufferedSample = tuple[int, float]
"""One sample of a ring buffer: its stamp, microseconds of a clock that NVML does not name (``nvml.clock``),
and its value."""


class ProcessUtilization(NamedTuple):
    """Holds one process's part of a GPU in the driver's sampling period that ends at ``stamp_us``, percent.

    ``sm_pct``: of time with a kernel of it running. ``mem_copy_pct``: of time with the memory controller
    busy for it. Drivers report values over 100.
    """

    pid: int
    stamp_us: int
    sm_pct: int
    mem_copy_pct: int


class RunningProcess(NamedTuple):
    """Names a process that holds memory on a GPU, once for each MIG instance (GPU and compute instance id).

    ``used_bytes`` None: the driver does not know.
    """

    pid: int
    used_bytes: int | None
    instance: tuple[int, int]


class FieldValue(NamedTuple):
    """Holds the value of a field by its id, and the bits it counts with."""

    value: int
    bits: int


class MigSize(NamedTuple):
    """Holds the size of a MIG slice: parts of the GPU (of 7 or so), of them for compute, and memory."""

    gpu_slices: int
    compute_slices: int
    memory_mib: int


class RawEvent(NamedTuple):
    """Holds what happened to the GPU with this handle: a bit of NVML's types of events, of an Xid its number,
    and the MIG instance, None for the whole GPU."""

    address: int
    type: int
    data: int
    instance: int | None


class FabricState(NamedTuple):
    """Holds the state of the NVLink fabric, and its health; NVIDIA's numbers."""

    state: int
    health: int | None


class NvmlError(Exception):
    """Says why a call has no answer. ``reason`` is short and one of a few: a label of events."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnsupportedError(NvmlError):
    """Says that this device with this driver never answers this call: it is not asked again."""


class NoDataError(NvmlError):
    """Says that there is nothing to answer now: a buffer is empty, a MIG index is not used. No failure."""


class TransientError(NvmlError):
    """Says that this call failed; the next one may not."""


class DeviceLostError(NvmlError):
    """Says that the GPU fell off the bus or needs a reset. The other GPUs still answer."""


class DriverUnavailableError(NvmlError):
    """Says that the library or the kernel module is not there: no GPU can be asked."""


def is_refused(error: NvmlError) -> bool:
    """Tell whether one of several numbers that were asked for in a call is never answered.

    To a driver that does not know a number, it is an invalid argument. Raises the error where it is about the
    whole GPU or driver.
    """
    if isinstance(error, DeviceLostError | DriverUnavailableError):
        raise error
    return isinstance(error, UnsupportedError) or error.reason == "invalid_argument"
