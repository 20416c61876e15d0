"""The figures that a kind is judged by, against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import CHANNEL_ROW, CHANNELS
from streams.operators.workload.kinds.features import NAMES, features
from tests.support.examples import examples

SECONDS = 120
UTIL = CHANNEL_ROW["busiest_gpu_util_pct"]


def pod(seed: int, missing: float = 0.0) -> Floats:
    """Two minutes in which a GPU works in turns of some seconds, and all else is noise."""
    rng = np.random.default_rng(seed)
    values = 40 * rng.uniform(size=(len(CHANNELS), SECONDS))
    values[UTIL] = np.where(np.arange(SECONDS) % int(rng.integers(6, 40)) < 4, 90, 2) + values[UTIL] / 20
    values[rng.uniform(size=values.shape) < missing] = np.nan
    values[UTIL, 0] = 1.0
    return values


def of(values: Floats, name: str) -> float:
    found = features(values, 0.25)
    assert found is not None
    return float(found[NAMES.index(name)])


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_what_they_are_called(seed: int) -> None:
    values = pod(seed)
    util, cpu = values[UTIL], np.log2(1 + values[CHANNEL_ROW["cpu_pct"]])
    off = util - util.mean()
    lags = np.array([off[: SECONDS - lag] @ off[lag:] / (SECONDS - lag) for lag in range(SECONDS // 2)])
    begins = np.flatnonzero((util[1:] >= 8) & (util[:-1] < 8)) + 1
    first = max(int(np.flatnonzero(lags < 0)[0]), 3)
    expected = {
        "util_recent": util[-60:].mean() / 100, "util_std": util.std() / 50, "busy_share": (util >= 8).mean(),
        "busy_level": np.sort(util[util >= 8])[(util >= 8).sum() // 2] / 100, "minutes": 0.5,
        "ups_per_min": begins.size / 2 / 10, "run_spread": np.std(np.diff(begins)) / np.diff(begins).mean(),
        "rest_longest": np.log2(1 + np.diff(np.flatnonzero(util >= 8)).max() - 1) / 8,
        "smoothness": np.corrcoef(util[1:], util[:-1])[0, 1], "cpu_follows": np.corrcoef(util, cpu)[0, 1],
        "periodicity": min(lags[first:].max() / lags[0], 1), "period_found": 0.25,
        "cpu_spread": cpu.std() / 3, "no_cgroup": 0.0,
        "write_most": np.log2(1 + values[CHANNEL_ROW["write_kb_per_s"]].max()) / 20,
    }  # fmt: skip
    assert {name: of(values, name) for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_what_is_absent_is_the_value_before_it() -> None:
    values = pod(1)
    there = values[CHANNEL_ROW["mem_mb"]].copy()
    values[CHANNEL_ROW["mem_mb"], -5:] = np.nan
    assert of(values, "host_mem_rise") == pytest.approx(np.log2((1 + there[-6]) / (1 + there[-60])))
    values[CHANNEL_ROW["cpu_pct"], ::4] = np.nan
    assert of(values, "no_cgroup") == 0.25


@given(st.integers(0, 2**31), st.floats(0, 1), st.integers(1, SECONDS))
@settings(max_examples=examples(60))
def test_every_figure_is_a_number_whatever_is_missing(seed: int, missing: float, seconds: int) -> None:
    values = pod(seed, missing)[:, :seconds]
    found = features(values, 0.0)
    assert (found is None) == (np.count_nonzero(~np.isnan(values[UTIL])) < 15)
    assert found is None or np.isfinite(found).all()
