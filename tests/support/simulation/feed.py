"""Input records on their way: each with the moment at which it lies in its topic, disturbed by a plan."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.support.simulation.plan import Plan


@dataclass(frozen=True, slots=True)
class Sent:
    """A record for a source; ``at_s`` is when it arrives there."""

    at_s: float
    topic: str
    key: str | None
    value: bytes | None
    ts_ms: int


def disturbed(plan: Plan, records: Iterable[Sent], tick_s: float) -> list[Sent]:
    """The records as a publisher and a network treat them, in the order of their arrival."""
    arriving = list(records)
    for fault, treat in (
        ("drop", _dropped),
        ("late", _late),
        ("reorder", _reordered),
        ("duplicate", _doubled),
    ):
        if plan.has(fault):
            arriving = list(treat(arriving, plan.chance(fault), tick_s))
    return sorted(arriving, key=lambda one: one.at_s)


def _dropped(records: list[Sent], dice: Random, _tick_s: float) -> Iterator[Sent]:
    share = dice.uniform(0, 0.2)
    return (one for one in records if dice.random() >= share)


def _late(records: list[Sent], dice: Random, tick_s: float) -> Iterator[Sent]:
    share = dice.uniform(0, 0.1)
    for one in records:
        yield replace(one, at_s=one.at_s + tick_s * dice.uniform(5, 90)) if dice.random() < share else one


def _reordered(records: list[Sent], dice: Random, tick_s: float) -> Iterator[Sent]:
    share = dice.uniform(0, 0.5)
    for one in records:
        yield replace(one, at_s=one.at_s + tick_s * dice.uniform(0, 3)) if dice.random() < share else one


def _doubled(records: list[Sent], dice: Random, tick_s: float) -> Iterator[Sent]:
    share = dice.uniform(0, 0.2)
    for one in records:
        yield one
        if dice.random() < share:
            yield replace(one, at_s=one.at_s + tick_s * dice.choice((0.0, 1.0, dice.uniform(0, 40))))
