"""Tells what holds a GPU's clocks down: NVML's bits as short names."""

_NAMES = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
_IDLE = 0x001
"""An idle GPU's clocks are low because nothing runs. That holds nothing back, so it is left out."""


def throttle_names(mask: int) -> tuple[str, ...]:
    """Names of the bits in ``mask``, lowest first; a bit that is newer than this list is ``reason_0x…``."""
    bits = (1 << place for place in range(mask.bit_length()) if mask >> place & 1)
    return tuple(_NAMES.get(bit, f"reason_{bit:#x}") for bit in bits if bit != _IDLE)
