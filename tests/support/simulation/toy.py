"""Runs of the toy stage: cheap, so that thousands fit into a minute."""

from collections.abc import Iterator
from random import Random
from typing import Any

import orjson

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from streams.operators.base import Emission, Operator, Stage
from tests.support.simulation.feed import Sent, disturbed
from tests.support.simulation.plan import Plan
from tests.support.simulation.profile import Profile
from tests.support.simulation.shadow import Shadow
from tests.support.streams.toy import RESULT, SOURCE, TRAIL, Counter

TICK_S = 0.6
_EVICT_MS = (1_200, 2_400, 4_800)
_BAD = (b"rubbish", None, b'{"n":1,"boom":1}', b'{"m":1}', b"{}", b"[]")


class Born(Counter):
    """Tells with its count and sum at which offset it began: a key that left begins again.

    Its state depends on how often it was flushed, so that two workers store other bytes at one offset.
    """

    def flush(self) -> list[Emission]:
        """See ``Operator``."""
        # Of 3 to 27 digits and at the front, so that all that follows lies elsewhere.
        number = int(self._state.pop("flushed", "100")[:3]) % 899 + 101
        self._state = {"flushed": str(number) * (number % 9 + 1)} | self._state
        return super().flush()

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """See ``Operator``."""
        born = self._state.setdefault("born", record.offset)
        try:
            return super().update(record)
        except Exception:
            if born == record.offset:
                del self._state["born"]
            raise

    def _out(self, topic: str, ts_ms: int) -> ProducerRecord:
        numbers = [self._state["count"], self._state["sum"], self._state["born"]]
        return ProducerRecord(topic, self._key, orjson.dumps(numbers), ts_ms)


def profile(plan: Plan) -> Profile:
    """See ``Profile``."""
    evict_ms = plan.chance("evict ms").choice(_EVICT_MS) if plan.has("evict") else None
    stage = Stage(name="toy", source=SOURCE, build=Born, evict_ms=evict_ms)
    return Profile(
        stages=[stage], feed=feed, digests={stage.name: digest}, piece_bytes=60,
        lasting=_without_flushed, names={RESULT: lambda of: (of[2], of[0]), TRAIL: lambda of: (of[2], of[0])},
        versions={RESULT: lambda of: (of[0],)}, subjects={RESULT: lambda of: (of[2],)}, account=account,
    )  # fmt: skip


def _without_flushed(snapshot: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in snapshot.items() if name != "flushed"}


def digest(operator: Operator) -> tuple[int, int, int]:
    """Everything that a toy knows."""
    assert isinstance(operator, Counter)
    state = operator._state
    return state["count"], state["sum"], state["last"]


def feed(plan: Plan) -> list[Sent]:
    """Numbers for every key, now and then a long text that makes its state large."""
    return disturbed(plan, _numbers(plan), TICK_S)


def _numbers(plan: Plan) -> Iterator[Sent]:
    dice = plan.chance("feed")
    large, bad = plan.has("large"), plan.has("bad")
    churns = plan.has("churn") or plan.has("evict")
    for key in range(plan.keys):
        for tick in range(plan.ticks) if not churns else _spans(plan.ticks, plan.chance(f"churn {key}")):
            at_s = TICK_S * (tick + dice.random())
            pad = {"pad": dice.choice((0, 30, 200))} if large and dice.random() < 0.2 else {}
            value = orjson.dumps({"n": dice.randint(0, 99), **pad})
            one = Sent(at_s, SOURCE, f"k{key}", value, int(1000 * at_s / TICK_S))
            yield _bad(plan.chance(f"bad {key} {tick}"), one) if bad else one


def _spans(ticks: int, dice: Random) -> Iterator[int]:
    """Ticks of a key that comes and goes."""
    on = dice.random() < 0.5
    for tick in range(ticks):
        on ^= dice.random() < 0.12
        if on:
            yield tick


def _bad(dice: Random, one: Sent) -> Sent:
    if dice.random() > 0.1:
        return one
    key = one.key if dice.random() < 0.8 else None
    return Sent(one.at_s, one.topic, key, dice.choice(_BAD), one.ts_ms)


def account(shadow: Shadow, sent: list[Sent]) -> None:
    """Every record was counted by its key, or is a dead letter."""
    counted = sum(digest(key.operator)[0] for key in (*shadow.gone, *shadow.keys.values()))
    assert counted + shadow.happened["toy", "dead_letter"] == len(sent)
