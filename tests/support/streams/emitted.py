"""What an operator emitted, as plain data."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import orjson

from dutycycle.contract.log import ProducerRecord
from streams.operators.base import CountedEvent, Emission


def plain_of(emissions: Iterable[Emission], topic: str) -> list[dict[str, Any]]:
    """The values of the records of a topic."""
    outs = [one for one in emissions if isinstance(one, ProducerRecord) and one.topic == topic]
    return [orjson.loads(one.value or b"") for one in outs]


def counts_of(emissions: Iterable[Emission]) -> dict[str, int]:
    """How often each event happened."""
    counts = Counter[str]()
    for one in emissions:
        if isinstance(one, CountedEvent):
            counts[one.event] += one.count
    return dict(counts)
