"""The bars of forecasts' errors."""

from pathlib import Path

from dutycycle.experiments.tables import write_picture


def test_the_axis_has_numbers_and_a_name_is_no_formula(tmp_path: Path) -> None:
    rows = [{"run": "a", "forecaster": "$x^2$", "metric": "power_w", "error_10s": 0.5, "coverage_10s": 0.9}]
    write_picture(rows, tmp_path / "errors.svg")
    texts = (tmp_path / "errors.svg").read_text()
    assert [f"<!-- {label} -->" in texts for label in ("0.01", "0.1", "1", "10", "$x^2$")] == [True] * 5
    assert "mathdefault" not in texts
