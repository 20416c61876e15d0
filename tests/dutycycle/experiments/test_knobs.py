"""Goal: every setting of the operators has a dotted name; a wrong one is refused with a proposal."""

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.experiments.knobs import KNOBS, assignment, grid, values_of, with_values
from streams.topology import stages

REFUSED = [
    ("cycles.windw=600", "did you mean cycles.window?"),
    ("confidence=0.9", "did you mean cycles.confidence?"),
    ("broker=kafka://a:1", "expected one of analyses, windows"),
    ("cycles.window", "expected NAME=VALUE"),
    ("cycles.window=602", "--set cycles.window=602: expected a multiple of 4"),
    ("trends.horizons=soon", "expected a duration"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(SettingError) as refused:
        assignment(text)
    assert why in str(refused.value)


def test_a_grid_is_every_combination() -> None:
    assert grid(["cycles.misses=1,2", "windows=10s,60s;30s"]) == [
        {"cycles.misses": "1", "windows": "10s,60s"},
        {"cycles.misses": "1", "windows": "30s"},
        {"cycles.misses": "2", "windows": "10s,60s"},
        {"cycles.misses": "2", "windows": "30s"},
    ]
    assert grid(["cycles.misses=1,2,1"]) == [{"cycles.misses": "1"}, {"cycles.misses": "2"}], "each once"
    assert grid([]) == [{}]
    with pytest.raises(SettingError, match="there twice"):
        grid(["cycles.misses=1", "cycles.misses=2"])


def test_values_become_settings() -> None:
    found = with_values(Settings(), {"cycles.window": "1200", "trends.horizons": "5s,1m"})
    assert (found.cycles_window, found.trends_horizons) == (1200, (5.0, 60.0))
    assert values_of(found)["cycles.window"] == 1200
    assert set(values_of(found)) == set(KNOBS)


def test_models_are_a_setting_too() -> None:
    hw = "a=gpu/power_w: time_series.HoltWinters(alpha=0.1, beta=0.1)"
    (one, other) = grid([f"models={hw};b=power_w: drift.ADWIN()"])
    assert [with_values(Settings(), found).models[0].name for found in (one, other)] == ["a", "b"]
    assert KNOBS["models.lags"] == "models_lags"


def test_a_metric_that_is_none_is_refused() -> None:
    with pytest.raises(SettingError, match="no metric power; did you mean power_w"):
        stages(with_values(Settings(), {"cycles.metrics": "power"}))
