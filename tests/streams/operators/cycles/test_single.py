"""Logarithm and exponential of single precision."""

import numpy as np
import numpy.typing as npt

from streams.compiled import entry
from streams.operators.cycles.detect.single import LARGEST, exp, log

Singles = npt.NDArray[np.float32]


@entry("void(float32[::1], float32[::1], float32[::1])")
def _each(values: Singles, logs: Singles, exps: Singles) -> None:
    for place in range(values.size):
        logs[place], exps[place] = log(values[place]), exp(values[place])


def _of(values: Singles) -> tuple[Singles, Singles]:
    logs, exps = np.empty_like(values), np.empty_like(values)
    _each(values, logs, exps)
    return logs, exps


def test_the_logarithm_is_right_to_its_last_bits() -> None:
    values = np.exp(np.random.default_rng(0).uniform(-LARGEST, LARGEST, 100_000)).astype(np.float32)
    exact = np.log(values.astype(np.float64))
    assert np.abs(_of(values)[0] - exact).max() <= 1e-7 * LARGEST
    near = np.float32(1) + np.linspace(-0.2, 0.2, 10_001, dtype=np.float32)
    assert np.abs(_of(near)[0] - np.log(near.astype(np.float64))).max() <= 3e-8


def test_the_exponential_is_right_to_its_last_bits() -> None:
    values = np.random.default_rng(1).uniform(-LARGEST, LARGEST, 100_000).astype(np.float32)
    assert np.abs(_of(values)[1] / np.exp(values.astype(np.float64)) - 1).max() <= 2e-7


def test_what_is_out_of_range_counts_as_its_end() -> None:
    values = np.array([-1e9, -LARGEST, LARGEST, 1e9], np.float32)
    low, lowest, highest, high = _of(values)[1].tolist()
    assert (low, high) == (lowest, highest)
