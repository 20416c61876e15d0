"""Rows that do not say their GPU: dealt out where their times tell how many GPUs there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.imports.dealing import find_deal


@given(
    gpus=st.integers(1, 16),
    interval_ms=st.sampled_from([200, 1000, 5000, 60_000]), moments=st.integers(3, 50),
    late_ms=st.lists(st.integers(0, 5), min_size=50, max_size=50), pause_at=st.integers(0, 60),
)  # fmt: skip
def test_rows_of_one_moment_are_counted(
    gpus: int, interval_ms: int, moments: int, late_ms: list[int], pause_at: int
) -> None:
    times = [
        moment * interval_ms + late_ms[moment] + 2 * gpu + (600_000 if moment >= pause_at else 0)
        for moment in range(moments)
        for gpu in range(gpus)
    ]
    deal = find_deal(times)
    assert deal.gpus == gpus
    assert deal.interval_ms is None or abs(deal.interval_ms - interval_ms) <= 10


@given(
    gaps=st.lists(st.integers(70, 130), min_size=2, max_size=200),
    pauses=st.lists(st.integers(0, 199), max_size=3),
)
def test_one_gpu_with_jitter_and_pauses_stays_one(gaps: list[int], pauses: list[int]) -> None:
    times, now = [0], 0
    for place, gap in enumerate(gaps):
        now += 10 * gap + (60_000 if place in pauses else 0)
        times.append(now)
    assert find_deal(times).gpus == 1


@pytest.mark.parametrize(
    ("times", "gpus"),
    [
        ([0, 600, 2000, 2600, 4000, 4600], 2),  # two programs that write into one file
        ([0, 1, 1000], 1),  # too few moments
        ([0, 0, 1000, 2000, 2000, 3000, 4000, 4000], 1),  # 0.7 s, in whole seconds
        ([0], 1),
        ([5, 5, 5], 1),
    ],
)
def test_only_what_is_clear_is_dealt_out(times: list[int], gpus: int) -> None:
    assert find_deal(times).gpus == gpus
