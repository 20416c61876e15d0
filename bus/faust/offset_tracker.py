"""What an offset says about the ones before it: the next one, a repeat, or a hole. Pure."""

from dataclasses import dataclass
from enum import Enum, auto


class OffsetKind(Enum):
    """What a record is, judged by its offset alone."""

    NEXT = auto()
    REPEAT = auto()
    """Read before in this assignment: Faust delivers a record twice around a seek. Leave it out."""
    AFTER_GAP = auto()
    """Records before it were not delivered. Where they are still on the broker, that is loss."""


@dataclass(slots=True)
class OffsetTracker:
    """The place in one partition, from its assignment to its revocation.

    ``expected`` is the offset that has to come next: at first the committed one, 0 where there is none.
    """

    expected: int = 0

    def classify(self, offset: int) -> OffsetKind:
        """What the record at ``offset`` is. Does not move the place: ``took`` does."""
        if offset == self.expected:
            return OffsetKind.NEXT
        return OffsetKind.REPEAT if offset < self.expected else OffsetKind.AFTER_GAP

    def took(self, offset: int) -> None:
        """The record at ``offset`` was taken."""
        self.expected = offset + 1
