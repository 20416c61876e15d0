"""Tells by the power of a GPU whether a counter of its energy is in the unit that it was taken for, and in
which it is. Pure."""

from dataclasses import dataclass

UNITS_J = {"J": 1.0, "mJ": 1e-3, "µJ": 1e-6, "kJ": 1e3, "Wh": 3600.0, "kWh": 3.6e6}
"""Joules of each unit in which somebody counts energy."""
MOST_GROWTH_W = 1e6
"""No counter of a GPU grows as fast, not even one that is a minute old at each reading in a second: it
leaps."""
LEAST_STEPS = 5
"""A counter in hundredths of a kWh grows at times only: before it grew so often, nothing can be told."""
_MOST_OFF = 10.0
"""Power is sampled and energy is not, so they differ by bursts, but not by this factor."""
_FITS = 2.0


@dataclass(slots=True)
class EnergyGrowth:
    """Adds up by how much counters grew, in their own unit, and the joules that the power of the same time
    says."""

    energy: float = 0.0
    by_power_j: float = 0.0
    steps: int = 0

    def add(self, grown: float, joules: float) -> None:
        """Add a step."""
        self.energy += grown
        self.by_power_j += joules
        self.steps += grown > 0

    def __add__(self, other: "EnergyGrowth") -> "EnergyGrowth":
        return EnergyGrowth(
            self.energy + other.energy, self.by_power_j + other.by_power_j, self.steps + other.steps
        )

    @property
    def tells_unit(self) -> bool:
        """Tell whether they grew often enough. A power of 0 is none that was measured, for a GPU that counts
        energy."""
        return self.steps >= LEAST_STEPS and self.by_power_j > 0


def agrees(energy_j: float, by_power_j: float) -> bool:
    """Tell whether a counter grew as far as power times time says, in its order of magnitude."""
    return by_power_j <= _MOST_OFF * energy_j <= _MOST_OFF**2 * by_power_j


def unit_of(energy: float, by_power_j: float) -> str | None:
    """Return the unit in which a counter grew by ``energy``; None where none of ``UNITS_J`` fits."""
    for unit, joules in UNITS_J.items():
        if by_power_j <= _FITS * energy * joules <= _FITS**2 * by_power_j:
            return unit
    return None
