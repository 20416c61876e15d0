"""What differs between runs of the toy stage and of the real ones."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dutycycle.contract.log import ProducerRecord
from streams.operators.base import Stage
from tests.support.simulation.feed import Sent
from tests.support.simulation.plan import Plan
from tests.support.simulation.shadow import Digest, Shadow

Name = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """``piece_bytes`` is the bound of a stored record where states are to be checkpoint."""

    stages: list[Stage]
    feed: Callable[[Plan], list[Sent]]
    digests: dict[str, Digest]
    names: dict[str, Callable[[Any], Name]]
    """By output topic: the name of a record, given its parsed value. One name has one content, for ever."""
    versions: dict[str, Callable[[Any], Name]] = field(default_factory=dict)
    """By output topic that is sent coalesced: which of two records of a key is the newer."""
    subjects: dict[str, Callable[[Any], Name | None]] = field(default_factory=dict)
    """By such a topic: what a record is about, where several are about one key and supersede only their own;
    None for a record that is sent at once, not coalesced."""
    ordered: frozenset[str] = frozenset()
    """The stages of which somebody may send late what is of the same moment as newer records: of two of one
    version the one counts that has seen more of its log."""
    piece_bytes: int
    lasting: Callable[[dict[str, Any]], dict[str, Any]] = lambda snapshot: snapshot
    """The part of a stored state that does not depend on when it was stored."""
    account: Callable[[Shadow, list[Sent]], None] = lambda shadow, sent: None
    """Asserts that every input is accounted for. May use the shadow up."""
    whole: Callable[[Shadow, list[Sent], dict[tuple[str, str], ProducerRecord]], None] = (
        lambda shadow, sent, newest: None
    )
    """Asserts that the newest outputs by topic and key are those of a replay in process."""
