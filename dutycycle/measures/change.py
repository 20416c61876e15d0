"""Says whether a figure differs between two runs by more than their noise."""

from dataclasses import dataclass
from math import hypot

from dutycycle.measures.steps import Measure

SIGMAS = 4.0
"""Standard errors beyond which a difference is one. Some twenty figures are compared, whose errors are
themselves estimates from twenty blocks: three would be passed by chance now and then."""
LEAST = 0.01
"""A smaller share is no difference that matters, however little noise there is."""


@dataclass(frozen=True, slots=True)
class FigureChange:
    """Holds a figure's change from one value to another. ``limit``: what a difference has to exceed to be
    more than noise; None where a run is too short to tell."""

    before: float
    after: float
    limit: float | None

    @property
    def share(self) -> float | None:
        """Return the difference as a part of the value before; None where that was 0."""
        return (self.after - self.before) / self.before if self.before else None

    @property
    def is_one(self) -> bool | None:
        """Tell whether there is a difference; None: it cannot be told."""
        difference = abs(self.after - self.before)
        if difference <= LEAST * max(abs(self.before), abs(self.after)):
            return False
        return None if self.limit is None else difference > self.limit


def change(before: Measure, after: Measure) -> FigureChange:
    """Hold one figure of two runs against one another."""
    errors = before.error, after.error
    limit = None if None in errors else SIGMAS * hypot(*(error for error in errors if error is not None))
    return FigureChange(before.value, after.value, limit)
