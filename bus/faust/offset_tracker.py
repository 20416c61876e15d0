"""What an offset says about the ones before it: the next one, a repeat, or a hole. Pure."""

from dataclasses import dataclass
from enum import Enum, auto


class Seen(Enum):
    """What a record is, judged by its offset alone."""

    NEXT = auto()
    REPEAT = auto()
    """Read before in this assignment: Faust delivers a record twice around a seek. Leave it out."""
    AFTER_HOLE = auto()
    """Records before it were not delivered. Where they are still on the broker, that is loss."""


@dataclass(slots=True)
class Intake:
    """The place in one partition, from its assignment to its revocation.

    ``expected`` is the offset that has to come next: at first the committed one, 0 where there is none.
    """

    expected: int = 0

    def judge(self, offset: int) -> Seen:
        """What the record at ``offset`` is. Does not move the place: ``took`` does."""
        if offset == self.expected:
            return Seen.NEXT
        return Seen.REPEAT if offset < self.expected else Seen.AFTER_HOLE

    def took(self, offset: int) -> None:
        """The record at ``offset`` was taken."""
        self.expected = offset + 1
