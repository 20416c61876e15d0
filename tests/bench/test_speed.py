"""``make bench``: medians, ratios and tables from figures; the peers' fold. Measuring takes minutes."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from bench.peers.fold import METRICS, first, fold, result
from bench.speed import __main__ as command
from bench.speed import measure, report
from bench.speed.worker import ours


def test_a_ratio_is_taken_within_a_round() -> None:
    # The machine was ten times as busy in the second round: the ratio is the same in each.
    assert report.ratio([10, 100, 12], [20, 200, 24]) == 0.5
    with pytest.raises(ValueError, match="shorter"):
        report.ratio([1, 2], [1])


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.1234, "0.123"), (12.34, "12.3"), (123.4, "123"), (12345.6, "12,346")]
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert report.brief(value) == text


def test_medians_and_spreads_stand_in_the_table() -> None:
    found = {"Dutycycle": [300.0, 100.0, 200.0], "Peer": [100.0, 50.0, 50.0]}
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in report.compared(found).split("\n")
    ]
    assert rows[2:] == [["Dutycycle", "200", "100 – 300", "1"], ["Peer", "50", "50 – 100", "3"]]
    assert {len(row) for row in rows} == {4}


def test_growth_is_told_against_the_first() -> None:
    lines = report.scaling("nodes", {10: [100.0], 50: [110.0, 130.0]}).split("\n")
    assert lines[2:] == ["| 10 | 100 |  | 1.00 |", "| 50 | 120 | 110 – 130 | 1.20 |"]


def test_a_run_that_ended_early_says_what_is_missing() -> None:
    assert report.compared({}) == report.alone({}) == report.scaling("nodes", {}) == report.split({})
    assert "Not measured" in report.compared({})


def test_parts_are_shares_of_their_sum_the_largest_first() -> None:
    assert report.split({"small": 25.0, "large": 75.0}).split("\n")[2:] == [
        "| large | 75.0 | 75% |",
        "| small | 25.0 | 25% |",
    ]


def test_the_page_and_its_pictures_can_be_made(tmp_path: Path) -> None:
    results = report.Results(
        contenders={"Dutycycle": [2.0], "Peer": [1.0]},
        own={"memory": ("≤ 600", [500.0], "MB")},
        nodes={10: [1.0]},
        workers={1: [1.0]},
        parts={"decode": 1.0},
        notes={"date": "today"},
    )
    made = report.page(results, "{date} {machine} {compared} {alone} {nodes} {workers} {parts}")
    assert made.startswith("today ")
    assert "| memory | 500 MB |  | ≤ 600 |" in made
    report.bars(tmp_path / "bars.png", results.contenders, "µs")
    report.curves(tmp_path / "curves.png", results)
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("bars.png", "curves.png"))


def test_what_peers_compute_is_mean_min_and_max() -> None:
    def sample(power: float) -> dict[str, object]:
        return {"gpus": [{"uuid": "GPU-1", **dict.fromkeys(METRICS, 1), "power_w": power}]}

    so_far = first(sample(10))
    for power in (40, 20, 30):
        so_far = fold(so_far, sample(power))
    found = result(so_far)["GPU-1"]
    assert found["power_w"] == {"mean": 25, "min": 10, "max": 40}
    assert found["temp_c"] == {"mean": 1, "min": 1, "max": 1}


def test_a_round_that_was_interrupted_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter([1.0, 2.0, 3.0, 4.0, 5.0])

    def backlog(*_: object) -> float:
        for cost in costs:
            return cost
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "backlog", backlog)
    monkeypatch.setattr(command, "peer", lambda name, title: replace(ours(), name=title))
    results = report.Results()
    with pytest.raises(KeyboardInterrupt):
        command._compare(cast("Any", None), command.QUICK, command.Progress(), results)
    assert list(results.contenders.values()) == [[1], [2], [3], [4]]
    assert "| Dutycycle | 1 |" in report.compared(results.contenders)
