"""The order of pods by one number each: short first, nobody starves, use in the past counts."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle.contract.errors import SettingError
from sinks.scheduling.core.policy import Band, Policy, policy_of
from sinks.scheduling.core.predicted_usage import PredictedUsage, excesses
from sinks.scheduling.core.priority import place
from tests.support.examples import examples

POLICY = Policy(stretch=4, size_exponent=0, longest_s=10_000, quantum_s=1, bands={"": Band(0, 900_000_000)})
times = st.floats(0, 1e6)
durations = st.floats(1, 1e6)


def priority(arrival_s: float, duration_s: float | None, **more: Any) -> int:
    return place(POLICY, arrival_s, duration_s, 1, more.pop("excess", {}), **more).priority


def test_the_shorter_goes_first_and_waiting_counts() -> None:
    assert priority(0, 60) > priority(0, 600)
    assert priority(0, 600) > priority(3000, 60)  # it has waited for longer than 4 * 540 s
    assert priority(0, 600) < priority(2000, 60)


def test_without_similar_pods_a_pod_is_taken_for_the_policys_duration() -> None:
    assert priority(0, None) == priority(0, POLICY.unknown_s)
    assert "no similar pods: taken for 3600 s" in place(POLICY, 0, None, 1, {}).reason


@given(times, durations, times, durations)
@settings(max_examples=examples(300))
def test_nobody_is_overtaken_by_what_comes_after_the_bound(
    arrival: float, duration: float, later: float, other: float
) -> None:
    """However short what comes later, and however long this one takes: this is the ageing."""
    placed = place(POLICY, arrival, duration, 1, {})
    after = place(POLICY, arrival + placed.delay_s + POLICY.quantum_s + later, other, 1, {})
    assert placed.delay_s <= POLICY.longest_s
    assert after.priority <= placed.priority


@given(st.lists(st.tuples(times, durations), min_size=2, max_size=20))
@settings(max_examples=examples(100))
def test_the_order_is_that_of_priorities_that_grow_with_the_time_waited(
    jobs: list[tuple[float, float]],
) -> None:
    """At any moment a priority ``waited - delay`` gives the same order as the number given once."""
    placed = [(arrival, place(POLICY, arrival, duration, 1, {})) for arrival, duration in jobs]
    for now in (1e6, 2e6):
        ageing = [now - arrival - one.delay_s for arrival, one in placed]
        for first, (_, one) in zip(ageing, placed, strict=True):
            for second, (_, other) in zip(ageing, placed, strict=True):
                assert first - second < POLICY.quantum_s + 1e-3 or one.priority >= other.priority


def test_more_gpus_and_more_use_in_the_past_set_back() -> None:
    policy = Policy(size_exponent=0.5, fairness=1, longest_s=1e6, stretch=1)
    alone = place(policy, 0, 600, 1, {})
    assert place(policy, 0, 600, 16, {}).delay_s == pytest.approx(4 * alone.delay_s)
    greedy = place(policy, 0, 600, 1, {"ml": 2.0, "team red": 3.0})
    assert greedy.delay_s == pytest.approx(3 * alone.delay_s)
    assert "team red used 3.0 times its share" in greedy.reason
    assert place(policy, 0, 600, 1, {"ml": 1e9}).delay_s == pytest.approx(8 * alone.delay_s)


def test_a_users_class_bounds_the_priority() -> None:
    wide = {"": Band(0, 10_000_000), "prod": Band(20_000_000, 30_000_000)}
    policy = Policy(bands=wide)
    far = 1000 * 365 * 86_400.0
    assert place(policy, 0, 1, 1, {}, "prod").priority <= 30_000_000
    assert place(policy, far, 1, 1, {}, "prod").priority == 20_000_000
    assert place(policy, far, 1, 1, {}, "other").priority == 0
    assert place(policy, 0, 1e9, 1, {}, "prod").priority > place(policy, 0, 1, 1, {}, "").priority


def excess(usage: PredictedUsage, owner: str, shares: dict[str, float], now_s: float) -> float:
    return excesses([owner], usage.charged(now_s), shares)[owner]


def test_use_is_a_share_of_the_newest_window() -> None:
    usage = PredictedUsage(2400)
    assert excess(usage, "team a", {}, 0) == 1.0  # nobody used anything
    usage.charge(["team a", "namespace red"], 300, 0)
    usage.charge(["team b", "namespace red"], 100, 50)
    assert excess(usage, "team a", {}, 60) == pytest.approx(1.5)
    assert excess(usage, "team b", {}, 60) == pytest.approx(0.5)
    assert excess(usage, "team a", {"team a": 3}, 60) == pytest.approx(1.0)
    assert excess(usage, "team c", {}, 60) == 0
    usage.charge(["team a"], -200, 0)  # it took less than was predicted
    assert excess(usage, "team a", {}, 60) == pytest.approx(1.0)
    assert excess(usage, "team a", {}, 2410) == 1.0  # all of it has left the window
    usage.charge(["team a"], 100, 0)  # too late to count
    assert excess(usage, "team a", {}, 2410) == 1.0


def test_of_what_has_left_the_window_not_even_a_rounding_error_counts_as_use() -> None:
    usage = PredictedUsage(2400)
    for gpu_s, at_s in ((0.1, 0), (0.2, 100)):  # 0.1 + 0.2 - 0.1 - 0.2 is more than 0
        usage.charge(["team a"], gpu_s, at_s)
    usage.charge(["team b"], 100, 2600)
    assert excess(usage, "team b", {}, 2600) == 1.0
    assert usage.charged(2600) == {"team b": 100}


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        ({"strech": 1}, "there is no 'strech': expected one of bands, epoch_s"),
        ({"stretch": -1}, "policy stretch: -1.0: expected a number from 0 to 10000"),
        ({"stretch": "much"}, "policy stretch: 'much': expected a number"),
        ({"stretch": True}, "policy stretch: True: expected a number"),
        ({"longest_s": float("nan")}, "policy longest_s: nan"),
        ({"shares": {"ml": 0}}, "policy shares: ml: 0.0: expected a number above 0"),
        ({"shares": [1]}, "policy shares: [1]: expected numbers by namespace or team"),
        ({"bands": {"prod": [0, 10_000_000]}}, 'policy bands: expected one named ""'),
        ({"bands": {"": [0]}}, "policy bands: : [0]: expected [lowest, highest], whole numbers"),
        ({"bands": 5}, "policy bands: 5: expected pairs"),
        ({"bands": {"": [0, 1000]}}, "policy bands: '' lasts 0.0 years at a quantum of 60 s"),
        ({"bands": {"": [0, 2_000_000_000]}}, "expected a range that ends at 1000000000 or below it"),
        ({"bands": {"": [0, 10_000_000], "prod": [9_000_000, 30_000_000]}}, "shares nothing with"),
    ],
)  # fmt: skip
def test_a_wrong_policy_is_refused_with_the_name_of_what_is_wrong(
    settings_: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingError) as error:
        policy_of(settings_)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_policy_is_read() -> None:
    given_ = {"stretch": 2, "shares": {"ml": 3}, "bands": {"": [0, 9_000_000]}}
    assert policy_of(given_) == Policy(stretch=2, shares={"ml": 3}, bands={"": Band(0, 9_000_000)})
