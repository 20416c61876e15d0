"""What a new pod will need, and whether stated intervals hold."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.scheduling.core.prediction import interval, predict
from sinks.scheduling.core.similar import NEWEST, PastUse, SimilarPodIndex, Template
from tests.support.examples import examples

BERT = Template(
    "ml", owner="a1", image="bert:3", command=("train", "--large"), labels=frozenset({("app", "bert")}),
    gpus=8,
)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "low", "middle", "high", "coverage"),
    [
        ([7.0], 7, 7, 7, 0.0),
        ([7.0, 9.0], 7, 8, 9, 1 / 3),
        ([3.0, 1.0, 2.0], 1, 2, 3, 0.5),
        (list(range(9)), 0, 4, 8, 0.8),
        (list(range(19)), 1, 9, 17, 0.8),
    ],
)
def test_an_interval_is_two_of_the_values(
    values: list[float], low: float, middle: float, high: float, coverage: float
) -> None:
    found = interval(values, 0.8)
    assert found is not None
    assert (found.low, found.middle, found.high) == (low, middle, high)
    assert found.coverage == pytest.approx(coverage)


def test_of_nothing_there_is_no_interval() -> None:
    assert interval([], 0.8) is None
    with pytest.raises(ValueError, match=r"coverage 1\.0"):
        interval([1.0], 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 5, 9, 20, 50])
@pytest.mark.parametrize("draw", ["lognormvariate", "paretovariate"])
def test_stated_intervals_hold(count: int, draw: str) -> None:
    """Of 4,000 draws from the same distribution as many are inside as was stated, within four errors."""
    chance = random.Random(count)  # noqa: S311
    one = {
        "lognormvariate": lambda: chance.lognormvariate(0, 1.5),
        "paretovariate": lambda: chance.paretovariate(1),
    }
    stated = interval([float(place) for place in range(count)], 0.8)
    assert stated is not None
    inside = below = 0
    for _ in range(4000):
        found = interval([one[draw]() for _ in range(count)], 0.8)
        assert found is not None
        value = one[draw]()
        inside += found.low <= value <= found.high
        below += value <= found.high
    assert inside / 4000 == pytest.approx(stated.coverage, abs=4 * 0.5 / 4000**0.5)
    assert below / 4000 == pytest.approx(stated.below, abs=4 * 0.5 / 4000**0.5)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0.01, 0.99))
@settings(max_examples=examples(200))
def test_an_interval_is_ordered_and_states_no_more_than_it_has(values: list[float], wanted: float) -> None:
    found = interval(values, wanted)
    assert found is not None
    assert found.low <= found.middle <= found.high
    assert 0 <= found.coverage <= found.below <= 1
    enough = (len(values) - 1) / (len(values) + 1) >= wanted
    assert found.coverage >= wanted - 1e-6 if enough else found.coverage < wanted


@pytest.mark.parametrize(
    ("template", "likeness", "duration"),
    [
        (BERT, "owner template", 100.0),
        (Template("ml", image="bert:3", command=BERT.command, gpus=8), "image, command and GPUs", 150.0),
        (Template("ml", image="bert:3", labels=frozenset({("app", "bert")})), "image and labels", 150.0),
        (Template("ml", image="bert:3", command=("eval",)), "image", 200.0),
        (Template("ml", image="gpt:1", gpus=8), "namespace and GPUs", 200.0),
        (Template("ml", gpus=1), None, None),
        (Template("web", owner="a1", image="bert:3", command=("train", "--large"), gpus=8), None, None),
    ],
)  # fmt: skip
def test_the_nearest_similar_pods_count(
    template: Template, likeness: str | None, duration: float | None
) -> None:
    index = SimilarPodIndex()
    other = Template(
        "ml", owner="c3", image="bert:3", command=("train", "--large"), gpus=8, labels=BERT.labels
    )
    third = Template("ml", owner="d4", image="bert:3", command=("train", "--small"), gpus=8)
    for one, seconds in ((BERT, 100.0), (other, 200.0), (third, 300.0)):
        index.add(one, PastUse({"duration_s": seconds}))
    found = predict(index.nearest(template))
    assert (found and found.likeness) == likeness
    assert (found and found.middle("duration_s")) == duration


def test_kinds_and_evidence() -> None:
    index = SimilarPodIndex()
    for kind in ("training", "training", "inference", None):
        index.add(BERT, PastUse({"gpu_util_pct": 90.0}, kind))
    found = predict(index.nearest(BERT))
    assert found is not None
    assert (found.kind, round(found.agreement, 2), found.pods) == ("training", 0.67, 4)
    assert found.evidence() == "4 ended pods with the same owner template; 67% of them training"
    assert found.high("gpu_util_pct") == 90.0
    assert found.middle("duration_s") is None  # absent is not zero


def test_few_similar_pods_are_said_to_be_few() -> None:
    index = SimilarPodIndex()
    index.add(BERT, PastUse({"duration_s": 60.0}))
    one = predict(index.nearest(BERT))
    index.add(BERT, PastUse({"duration_s": 80.0}))
    two = predict(index.nearest(BERT))
    assert one is not None
    assert two is not None
    assert one.evidence().endswith("one says nothing of how it varies")
    assert one.figures["duration_s"].coverage == 0
    assert two.evidence().endswith("two cover a third of what comes")


def test_old_similar_pods_are_forgotten() -> None:
    index = SimilarPodIndex()
    for seconds in range(3 * NEWEST):
        index.add(BERT, PastUse({"duration_s": float(seconds)}))
    found = predict(index.nearest(BERT))
    assert found is not None
    assert found.pods == NEWEST
    assert found.figures["duration_s"].low >= 2 * NEWEST


def test_stated_intervals_hold_among_many_programs() -> None:
    """Each with its own times; a run has a new image, so that its job's name alone makes it similar."""
    chance = random.Random(7)  # noqa: S311
    index, inside, asked = SimilarPodIndex(), 0, 0
    for run in range(60):
        for program in range(40):
            seconds = chance.lognormvariate(program / 5, 0.8)
            new = Template("ml", f"{run}-{program}", f"job-{program}", f"image:{run}-{program}", gpus=1.0)
            if run >= 20:  # nineteen similar pods are enough for 0.8
                found = predict(index.nearest(new))
                assert found is not None
                assert found.likeness == "job name and GPUs"
                stated = found.figures["duration_s"]
                inside, asked = inside + (stated.low <= seconds <= stated.high), asked + 1
                assert stated.coverage >= 0.8
            index.add(new, PastUse({"duration_s": seconds}))
    assert inside / asked >= 0.8 - 4 * 0.5 / asked**0.5
