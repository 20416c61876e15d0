"""Holds NVIDIA's catalogue of Xids: what each number means, whose fault it is, and what NVIDIA says to do.

After docs.nvidia.com/deploy/xid-errors (Ampere and later) as leptonai/gpud has it generated (1-172);
severities after NVIDIA/NVSentinel. Where these disagree, the catalogue counts.
"""

from typing import Literal, NamedTuple

Level = Literal["healthy", "watch", "drain", "reset", "replace"]
LEVELS: tuple[Level, ...] = ("healthy", "watch", "drain", "reset", "replace")
"""What to do with a GPU, from nothing to a new one. *watch*: it works, look at it; *drain*: no new work;
*reset*: it needs a reset, or its machine a restart; *replace*: it is broken for good."""
Severity = Literal["application", "info", "warning", "fatal", "unknown"]


class Xid(NamedTuple):
    """Holds one row: ``level`` is what the Xid alone makes of a GPU, *healthy* for what says nothing of
    it."""

    name: str
    severity: Severity
    level: Level
    action: str


_RESTART = "restart the application"
_RESET = "reset the GPU"
_DRAIN = "drain the node, then reset the GPU"
_SUPPORT = "if it goes on, contact support"
_NVLINK = "check the links and the NVSwitch, then reset the GPU"


def _application(name: str, action: str = f"{_RESTART}; where it repeats, contact support") -> Xid:
    return Xid(name, "application", "healthy", action)


def _warning(name: str, action: str = f"look at the log of the kernel; {_SUPPORT}") -> Xid:
    return Xid(name, "warning", "watch", action)


def _fatal(name: str, action: str = _RESET, level: Level = "reset") -> Xid:
    return Xid(name, "fatal", level, action)


XIDS: dict[int, Xid] = {
    8: _application("GPU channel stopped processing"),
    11: _application("invalid or corrupted push buffer stream"),
    13: _application("graphics engine exception", f"{_RESTART}; it is most often its own fault"),
    25: _application("invalid or corrupted push buffer address"),
    31: _application("GPU memory page fault", f"{_RESTART}; it used memory that it did not have"),
    32: _application("invalid or corrupted push buffer stream"),
    37: _warning("driver firmware error"),
    38: _warning("driver firmware error"),
    39: _application("copy engine exception"),
    40: _application("copy engine exception"),
    41: _application("copy engine exception"),
    43: _application("GPU stopped processing", "ignore it: the application has failed, and the GPU goes on"),
    44: _warning("graphics engine fault during context switch"),
    45: Xid("preemptive cleanup", "info", "healthy", "follow the error before it; alone, ignore it"),
    46: _fatal("GPU stopped processing: timeout"),
    48: _fatal("uncorrectable ECC error", _DRAIN),
    54: _fatal("auxiliary power is not connected", "check power cables and seating", "drain"),
    60: _application("video processor exception"),
    62: _fatal("internal micro-controller halt"),
    63: Xid("row remapping or page retirement recorded", "info", "watch", "reset the GPU when convenient"),
    64: _fatal("row remapping or page retirement failed", "reset the GPU, then run the field diagnostic"),
    66: _warning("illegal access by the driver"),
    67: _warning("illegal access by the driver"),
    68: _application("video decoder exception"),
    69: _application("graphics engine class error"),
    74: _fatal("NVLink error", _NVLINK),
    78: _fatal("vGPU start error", "update the software of vGPU", "drain"),
    79: _fatal("GPU has fallen off the bus", "restart the machine; check power, seating and cooling"),
    80: _application("corrupted data sent to the GPU"),
    82: _application("JPEG decoder 0 error"),
    83: _application("JPEG decoder 1 error"),
    84: _application("JPEG decoder 2 error"),
    85: _application("JPEG decoder 3 error"),
    86: _application("optical flow accelerator exception"),
    92: _warning("high rate of corrected ECC errors", f"ignore it for now; {_SUPPORT}"),
    93: _warning("InfoROM is wearing out", f"ignore it for now; {_SUPPORT}"),
    94: _application("contained memory error", f"{_RESTART}; reset the GPU when convenient"),
    95: _fatal("uncontained memory error", _DRAIN),
    109: _fatal("context switch timeout"),
    110: _fatal("security fault"),
    119: _fatal("GSP does not answer", "reset the GPU; where it repeats, update the driver"),
    120: _fatal("GSP error", "reset the GPU; where it repeats, update the driver"),
    121: _warning("C2C link corrected error"),
    **{code: _application("engine exception") for code in range(126, 136)},
    136: _fatal("link training failed", _NVLINK),
    137: _warning("NVLink privilege error"),
    140: _fatal("unrecovered ECC error", f"reset the GPU; {_SUPPORT}"),
    141: _warning("unrecoverable fault of a channel"),
    143: _fatal("GPU initialization error"),
    **{code: _fatal("NVLink 5 error", _NVLINK) for code in range(144, 151)},
    151: _warning("key rotation error", "restart the virtual machine"),
    154: Xid("recovery action changed", "info", "healthy", "follow the recovery action"),
    155: _fatal("NVLink: error by software", _NVLINK),
    156: _fatal("resource retirement"),
    157: _warning("resource retirement failed"),
    158: _fatal("GPU fatal timeout"),
    160: _fatal("channel retirement"),
    161: _warning("channel retirement failed"),
    **{code: _warning("power smoothing, or confidential computing") for code in range(162, 167)},
    167: _fatal("PCIe fatal timeout", "restart the machine"),
    168: _warning("protected memory region is not set up"),
    169: _warning("SEC2 error"),
    170: _warning("interrupt of confidential computing"),
    171: _fatal("uncorrectable ECC error of the memory, beside Xid 48", _DRAIN),
    172: _fatal("uncorrectable ECC error of a cache, beside Xid 48", _DRAIN),
    173: _warning("C2C link error"),
    999: Xid("the driver does not say which", "unknown", "watch", "look at the log of the kernel"),
}  # fmt: skip
FALLEN_OFF, UNKNOWN = 79, 999
_LOOK = "look at the log of the kernel and at NVIDIA's page of Xid errors"


def xid_of(code: int) -> Xid:
    """Give the row of an Xid; one that the catalogue lacks is a reason to look, and no verdict on the GPU."""
    return XIDS.get(code) or Xid("Xid that is not in the catalogue", "unknown", "watch", _LOOK)
