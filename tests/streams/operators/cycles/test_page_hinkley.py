"""The drift detector is River's own, and does not bring what it does not need."""

import subprocess
import sys
from typing import Any

import numpy as np
from river import drift
from river.base import DriftDetector

from streams.operators.cycles.page_hinkley import PageHinkley


def test_it_is_the_detector_of_river() -> None:
    settings = {"min_instances": 2, "delta": 0.1, "threshold": 0.5, "mode": "down"}
    ours = PageHinkley(**settings)
    river: Any = drift.PageHinkley(**settings)  # type: ignore[arg-type]
    assert isinstance(ours, DriftDetector)
    random = np.random.default_rng(1)
    fired = []
    for gain in np.concatenate([1 + 0.1 * random.normal(size=50), 0.3 + 0.1 * random.normal(size=50)]):
        ours.update(gain)
        river.update(gain)
        assert ours.drift_detected == river.drift_detected
        fired.append(ours.drift_detected)
    assert any(fired)


def test_a_worker_starts_without_scipy_stats() -> None:
    script = "import sys, streams.service; print('scipy.stats' in sys.modules, 'river' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
