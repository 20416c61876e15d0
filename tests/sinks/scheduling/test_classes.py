"""Which priorities have a PriorityClass: few, near any moment that a pod may get, and kept until then."""

from collections.abc import AsyncIterator
from itertools import pairwise
from math import log2
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle.contract.errors import SettingError
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import WEBHOOK, Telemetry
from sinks.scheduling.core.classes import check_lasts, nearest, quanta, quantum, usable, wanted
from sinks.scheduling.core.policy import Band, Policy
from sinks.scheduling.core.priority import place
from sinks.scheduling.webhook.classes import PriorityClasses
from tests.support.examples import examples

BANDS = {"": Band(0, 10_000_000), "high": Band(20_000_000, 30_000_000)}
POLICY = Policy(bands=BANDS, epoch_s=1000.0)
moments = st.floats(1e4, 1e8)


@given(st.integers(0, 10**7), st.integers(0, 10**5))
@settings(max_examples=examples(200))
def test_classes_are_few_and_a_sixteenth_of_the_distance_apart(first: int, length: int) -> None:
    found = list(quanta(first, first + length))
    assert found[0] == first
    assert len(found) <= 16 * (2 + log2(length + 1))
    for one, after in pairwise([*found, first + length + 1]):
        assert after - one <= max(1, (one - first) / 16 + 1)


@given(st.integers(0, 10**6), st.integers(100, 5000), st.integers(1, 3000))
@settings(max_examples=examples(200))
def test_what_has_a_class_keeps_it_until_its_moment_is_past(first: int, length: int, later: int) -> None:
    now, then = set(quanta(first, first + length)), set(quanta(first + later, first + later + length))
    assert {one for one in now if one >= first + later} <= then


@given(moments, st.floats(0, 1e6), st.sampled_from(["", "high"]))
@settings(max_examples=examples(200))
def test_a_pod_gets_a_moment_that_is_not_later_than_its_own(
    now_s: float, duration_s: float, user_class: str
) -> None:
    """So the bound of its delay holds, and it loses at most a sixteenth of it."""
    there, band = sorted(wanted(POLICY, now_s)), POLICY.band(user_class)
    placed = place(POLICY, now_s, duration_s, 1, {}, user_class)
    found = nearest(there, band, placed.priority)
    assert found is not None
    assert band.low <= found <= band.high
    assert usable(POLICY, found, now_s)
    lost_s = (found - placed.priority) * POLICY.quantum_s
    assert 0 <= lost_s <= placed.delay_s / 16 + 2 * POLICY.quantum_s


def test_there_is_no_class_beyond_the_band_and_none_is_given_from_another() -> None:
    assert nearest([5, 25_000_000], BANDS["high"], 30_000_000) == 25_000_000
    assert nearest([5, 8], BANDS["high"], 25_000_000) is None
    assert nearest([], BANDS[""], 1) is None


def test_a_class_whose_moment_is_past_is_useless() -> None:
    now_s = 1e6
    number = BANDS[""].high - quantum(POLICY, now_s)
    assert usable(POLICY, number, now_s)
    assert usable(POLICY, BANDS[""].high, POLICY.epoch_s), "the first of all"
    assert not usable(POLICY, number, now_s + 2 * POLICY.quantum_s)
    assert not usable(POLICY, number, now_s - POLICY.longest_s - 2 * POLICY.quantum_s)
    assert not usable(POLICY, 15_000_000, now_s)  # of a policy before


class FakeApiServer:
    """Has the PriorityClasses that were made, as long as it is there."""

    def __init__(self) -> None:
        self.there = True
        self.classes: list[dict[str, Any]] = []

    async def whole(self, kind: Kind, *, selector: str) -> AsyncIterator[dict[str, Any]]:
        if not self.there:
            raise KubeError("timeout", "away")
        for one in self.classes:
            yield one

    async def submit(self, kind: Kind, made: dict[str, Any], manager: str) -> None:
        self.classes.append(made)


async def test_none_is_given_that_another_replica_may_have_deleted_meanwhile() -> None:
    now_s, server = 1e6, FakeApiServer()
    kept = PriorityClasses(
        cast("ApiServer", server), POLICY, Telemetry(WEBHOOK), wall=lambda: now_s, kept_s=600.0
    )
    for _ in range(2):
        await kept.refresh()
    highest = max(one["value"] for one in server.classes)
    assert kept.name("high", highest) == f"dutycycle-{highest}"
    server.there = False
    now_s += 299
    with pytest.raises(KubeError):
        await kept.refresh()
    assert (kept.name("high", highest), kept.readiness_error()) == (f"dutycycle-{highest}", None)
    now_s += 2
    assert kept.name("high", highest) is None
    assert kept.readiness_error() == "it is not known which PriorityClasses there are by now"
    server.there = True
    await kept.refresh()
    assert kept.name("high", highest) is not None
    assert kept.readiness_error() is None


@pytest.mark.parametrize(
    ("epoch_s", "said"),
    [
        (2e9, "policy epoch_s: 2000000000: is in the future"),
        (0.0, "policy bands: '': 0 to 10000000 is used up"),
    ],
)
def test_a_band_without_a_moment_for_now_is_refused(epoch_s: float, said: str) -> None:
    with pytest.raises(SettingError) as error:
        check_lasts(Policy(epoch_s=epoch_s), 1.8e9)
    assert said in str(error.value)
