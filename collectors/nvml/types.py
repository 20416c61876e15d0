"""What NVML answers when it is more than one number, as plain values."""

from enum import IntEnum
from typing import Any, NamedTuple

Handle = Any
"""A device or a MIG slice of one, as NVML hands it out; void once the library is closed."""


class Buffer(IntEnum):
    """The driver's ring buffers that are read, by NVML's number (``nvmlSamplingType_t``)."""

    POWER_MW = 0
    GPU_UTIL = 1


class Field(IntEnum):
    """Counters by NVML's field id. Both since the driver was loaded, bytes, seen from the GPU."""

    PCIE_TX = 197
    PCIE_RX = 198


class Stamped(NamedTuple):
    """One buffered sample. ``stamp_us`` is of a clock that NVML does not name (see ``nvml_clock``)."""

    stamp_us: int
    value: float


class Share(NamedTuple):
    """One process's part of a device at ``stamp_us``, percent as the driver reports them."""

    pid: int
    stamp_us: int
    sm_pct: int
    mem_copy_pct: int


class Running(NamedTuple):
    """A process that holds memory on a device; one for each MIG instance. ``used_bytes`` None: unknown."""

    pid: int
    used_bytes: int | None
    instance: tuple[int, int]


class Counter(NamedTuple):
    """A counter's value and its width in bits."""

    value: int
    bits: int


class Attributes(NamedTuple):
    """The size of a MIG slice: parts of the GPU (of 7 or so), of them for compute, and memory."""

    gpu_slices: int
    compute_slices: int
    memory_mib: int
