"""The comparison with peers, on so few series that it takes seconds: it runs, and ours is ahead.

========== =========================================================
 tables     each is printed, and the JSON holds the same figures
 cycles    a better F1 than any peer's, and no more false alarms
 forecasts  smaller errors than any peer's at 10, 30 and 300 s
 memory     the leak is announced
 kinds      a better macro-F1 than any rule's
 anomalies  more faults found than any peer finds, and no more false alarms; or as many, and fewer
========== =========================================================
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.generators import Case, Floats
from bench.insight.peers_cycle import DETECTORS
from bench.insight.report import TableReport

KINDS = {"slow_steps", "hot_gpu", "slow_gpu", "power", "hang"}
SEEDS, THIN = range(2000, 2001), 7

Figures = dict[str, Any]


def split(table: list[Figures], ours: str = "Dutycycle") -> tuple[Figures, list[Figures]]:
    """Our row of a table, and the peers'."""
    mine = [row for row in table if ours in row.values()]
    return mine[0], [
        row for row in table if row is not mine[0] and not str(next(iter(row.values()))).startswith("(")
    ]


@pytest.mark.slow
def test_the_whole_comparison(tmp_path: Path) -> None:
    from bench.bench_insight import run  # seconds of imports

    run(SEEDS, tmp_path, thin=THIN)
    figures: Figures = json.loads((tmp_path / "insight.json").read_text())
    every_table_is_there(figures)
    cycles_are_found_better_than_by_any_peer(figures)
    forecasts_are_nearer_than_any_peers(figures)
    the_level_of_a_cyclic_job_is_nearer_than_what_it_is_now(figures)
    assert {row["curve"]: row["Dutycycle"] for row in figures["memory"]}["leak"] == 100.0
    for shapes in ("tuned", "unseen"):
        kinds_are_told_better_than_by_rules(figures, shapes)
    faults_are_found_better_than_by_any_peer(figures)


def every_table_is_there(figures: Figures) -> None:
    assert set(figures) == {
        "run", "cycles", "cycles_ours", "cycles_reliability", "cycles_harder", "cycles_delay",
        "cycles_watched", "cycles_machines", "cycles_jobs", "cycles_cost", "forecasts", "forecasts_by_noise",
        "coverage", "ages", "memory", "fills", "job_forecasts", "kinds", "kinds_confusion",
        "kinds_reliability", "bottlenecks", "bottlenecks_reliability", "bottlenecks_counters",
        "bottlenecks_counters_reliability", "anomalies", "anomalies_by_fault", "anomalies_false",
        "anomalies_counters",
    }  # fmt: skip
    assert figures["run"]["first"] == SEEDS.start


def cycles_are_found_better_than_by_any_peer(figures: Figures) -> None:
    ours, peers = split(figures["cycles"])
    assert {row["detector"] for row in peers} == set(DETECTORS)
    assert all(row["found %"] > 50 for row in figures["cycles_machines"] if row["found %"] is not None)
    for peer in peers:
        assert ours["F1 whole"] + ours["F1 fract."] > peer["F1 whole"] + peer["F1 fract."]
        assert ours["alarms %"] <= peer["alarms %"]


def forecasts_are_nearer_than_any_peers(figures: Figures) -> None:
    ours, peers = split(figures["forecasts"])
    assert len(peers) == 4
    for peer in peers:
        for horizon_s in (10, 30, 300):
            assert ours[f"all {horizon_s} s"] < peer[f"all {horizon_s} s"]
    assert peers[0]["all 10 s"] == pytest.approx(1.0), "persistence is what errors are over"


def the_level_of_a_cyclic_job_is_nearer_than_what_it_is_now(figures: Figures) -> None:
    of = {row["job"]: row for row in figures["job_forecasts"]}
    assert of["two_rhythms"]["minute 30 s"] < 0.5
    assert of["two_rhythms"]["5-95 % 30 s"] > 80


def kinds_are_told_better_than_by_rules(figures: Figures, shapes: str) -> None:
    table = [row for row in figures["kinds"] if shapes in row["rule"]]
    ours, peers = split(table, f"Dutycycle, {shapes} shapes")
    assert len(peers) == 2
    assert ours["macro-F1"] > max(peer["macro-F1"] for peer in peers)


def faults_are_found_better_than_by_any_peer(figures: Figures) -> None:
    ours, peers = split(figures["anomalies"])
    kinds = [name for name, value in ours.items() if name in KINDS and value is not None]
    assert len(peers) == 5
    for peer in peers:
        more = sum(ours[kind] for kind in kinds) - sum(peer[kind] for kind in kinds)
        fewer = peer["alarms/GPU week"] - ours["alarms/GPU week"]
        # Here each fault is one job: who finds all of them, as we do, must have more false alarms.
        assert (more > 0 and fewer >= 0) or (more == 0 and fewer > 0)


def sine(period: float) -> Floats:
    """Of 600 samples."""
    return np.asarray(50 + 10 * np.sin(2 * np.pi * np.arange(600) / period))


@pytest.mark.parametrize(
    "name", ["FFT + ACF", "Autoperiod", "CFD-Autoperiod", "GPOEO", "Lomb-Scargle", "find_peaks"]
)
def test_a_peer_is_no_straw_man(name: str) -> None:
    period = DETECTORS[name](sine(24.0) + np.random.default_rng(1).normal(size=600))
    assert period == pytest.approx(24.0, rel=0.05)


def test_the_ancestors_rule_sees_what_stands_out_for_a_while() -> None:
    pulses = np.zeros(600)
    pulses[::50] = 100.0
    assert DETECTORS["Alnair"](pulses) == 50.0


@pytest.mark.parametrize("name", list(DETECTORS))
def test_what_does_not_vary_is_not_asked_about(name: str) -> None:
    assert DETECTORS[name](np.full(600, 40.0)) is None


def test_the_padded_transform_is_lomb_and_scargles() -> None:
    from scipy.signal import detrend, lombscargle  # a second of imports

    series = Case("square", 3, 17.3, 3.0).series()
    level, moments = detrend(series), np.arange(600.0)
    frequencies = np.arange(2 / 600, 0.5, 1 / 3000)
    power = lombscargle(moments, level, 2 * np.pi * frequencies)
    best = 1 / frequencies[np.argmax(power)]
    assert DETECTORS["Lomb-Scargle"](series) == pytest.approx(best, rel=1e-3)


def test_a_report_aligns_and_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    report = TableReport()
    report.table("t", "title", ["what", "figure"], [["one", 0.12345], ["another", None]])
    assert capsys.readouterr().out == "\ntitle\nwhat     figure\none       0.123\nanother       -\n"
    assert report.figures == {"t": [{"what": "one", "figure": 0.12345}, {"what": "another", "figure": None}]}
