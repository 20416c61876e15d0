"""Goal: what a user's model asks for is bounded before our own process builds it."""

import time

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from streams.construction import TooLargeError, check_construction
from streams.models import models_of


def forever() -> None:
    while True:
        pass


def test_what_takes_too_long() -> None:
    begun = time.process_time()
    with pytest.raises(TooLargeError, match="not built within 1 s of CPU time: make it smaller"):
        check_construction(forever, cpu_seconds=1)
    assert time.process_time() - begun < 1  # it was not ours


def test_what_takes_too_much() -> None:
    with pytest.raises(TooLargeError, match=r"more than 0\.0625 GiB of memory"):
        check_construction(lambda: bytearray(2**28), most_bytes=2**26)


def test_all_else_is_left_to_who_builds_it() -> None:
    check_construction(lambda: 1 // 0)
    check_construction(dict)


@pytest.mark.slow  # five seconds of CPU; with smaller bounds it is tried above
def test_a_forest_of_a_hundred_million_trees_is_refused_by_name() -> None:
    spec = "trees=gpu/gpu_util_pct: ensemble.BaggingRegressor(linear_model.LinearRegression(), 1000000000)"
    with pytest.raises(SettingError, match=r"model trees: .*: make it smaller"):
        models_of(load({}, {"models": spec}))
