"""``make bench``: what is verified of contenders, and verdicts, ratios and pages from figures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.peers.fold import METRICS, first, fold, result
from bench.speed import __main__ as command
from bench.speed import report, scale
from bench.speed import truth as truths
from bench.speed.bench import Bench, StepPrinter, brief
from bench.speed.cluster import GPU, stream_of
from bench.speed.figures import Figures, MeasurementRun
from bench.speed.goals import ROWS, Goal, ratio
from bench.speed.rows import backlog, live, replay
from bench.speed.size import QUICK
from bench.speed.truth import Truth, WrongResultsError, of_ours, of_peer, truth
from bench.speed.worker import SAME_WORK, WORK_OF_A_PEER, Contender, ours
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from streams.local import LocalPipeline
from streams.topology import stages

NODES, SECONDS = 2, 45
SAMPLES = [sample for tick in stream_of(NODES, SECONDS, (GPU,)) for sample in tick]


@pytest.fixture(scope="module")
def right() -> Truth:
    return truth(payload for _, _, payload, _ in SAMPLES)


def _ours(settings: Settings | None = None) -> list[bytes]:
    """What the stages send."""
    pipeline = LocalPipeline(stages(settings or Settings()))
    outs = [
        out
        for offset, (topic, node, payload, ts_ms) in enumerate(SAMPLES)
        for out in pipeline.feed(ConsumerRecord(topic, 0, offset, node, payload, ts_ms))
    ]
    return [out.value or b"" for out in outs if out.topic == "window-aggregates"]


def _peers() -> list[bytes]:
    """What a peer sends: the windows of whole ten seconds."""
    windows: dict[tuple[str, int], Any] = {}
    for _, node, payload, ts_ms in SAMPLES:
        key, sample = (node, ts_ms // 10_000 * 10_000), orjson.loads(payload)
        windows[key] = fold(windows[key], sample) if key in windows else first(sample)
    return [orjson.dumps({"start_ms": key[1], "metrics": result(one)}) for key, one in windows.items()]


def test_all_contenders_send_the_windows_that_the_samples_have(right: Truth) -> None:
    # 45 seconds: ours waits ten for late samples, so that three windows of each of 16 GPUs are closed.
    assert len(right.closed(truths.LATENESS_S)) == 48
    assert len(right.closed(0)) == 64
    right.verify("ours", of_ours(_ours()), truths.LATENESS_S)
    right.verify("the same work", of_ours(_ours(load({}, WORK_OF_A_PEER))), truths.LATENESS_S)
    right.verify("peer", of_peer(_peers()), 0)


def test_a_window_that_is_missing_ends_the_run(right: Truth) -> None:
    with pytest.raises(WrongResultsError, match=r"peer: 8 of 64 windows are missing, the first of GPU-0000-"):
        right.verify("peer", of_peer(_peers()[1:]), 0)


@pytest.mark.parametrize("place", range(3))
def test_a_figure_that_differs_ends_the_run(right: Truth, place: int) -> None:
    found = of_ours(_ours())
    wrong = list(found[("GPU-0001-3", right.last_ms // 10_000 * 10_000 - 40_000)]["power_w"])
    wrong[place] += 0.001
    found[("GPU-0001-3", right.last_ms // 10_000 * 10_000 - 40_000)]["power_w"] = (
        wrong[0],
        wrong[1],
        wrong[2],
    )
    with pytest.raises(WrongResultsError, match="ours: power_w of GPU-0001-3 at "):
        right.verify("ours", found, truths.LATENESS_S)


def test_a_ratio_is_taken_within_a_round() -> None:
    # The machine was ten times as busy in the second round: the ratio is the same in each.
    assert ratio([10, 100, 12], [20, 200, 24]) == [0.5, 0.5, 0.5]
    with pytest.raises(ValueError, match="shorter"):
        ratio([1, 2], [1])


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.1234, "0.123"), (12.34, "12.3"), (123.4, "123"), (12345.6, "12,346")]
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert brief(value) == text


@pytest.mark.parametrize(
    ("values", "at_least", "verdict"),
    [
        ([], False, "not measured"),
        ([50], False, "beyond"),
        ([51], False, "met"),
        ([90, 100, 200], False, "met"),
        ([130], False, "**missed**: 1.30 times the goal"),
        ([50], True, "**missed**: 0.50 times the goal"),
        ([100], True, "met"),
    ],
)
def test_a_goal_is_met_or_missed_by_so_much(values: list[float], at_least: bool, verdict: str) -> None:
    row = Goal("a", "s", lambda _: values, 100, None if at_least else 50, at_least)
    assert row.verdict(row.values(Figures())) == verdict


def test_medians_and_spreads_stand_in_the_table() -> None:
    found = {"Dutycycle": [300.0, 100.0, 200.0], SAME_WORK: [30.0, 10.0, 20.0], "Peer": [100.0, 50.0, 50.0]}
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in report.compared(found).split("\n")
    ]
    assert rows[2:] == [
        ["Dutycycle", "200", "100 – 300", "1", "0.1"],
        [SAME_WORK, "20", "10 – 30", "10", "1"],
        ["Peer", "50", "50 – 100", "3", "0.3"],
    ]
    assert {len(row) for row in rows} == {5}
    against_best = Figures(values={f"peers.{name}": of for name, of in found.items()})
    against_best.values["peers.Other"] = [50.0, 100.0, 100.0]
    best = next(row for row in ROWS if row.title == "backlog, windows alone, against the best peer")
    assert best.values(against_best) == [0.6, 0.2, 0.4]  # within each round, of the best of that round


def test_growth_is_told_against_the_first() -> None:
    lines = report.scaling("nodes", {10: [100.0], 50: [110.0, 130.0]}).split("\n")
    assert lines[2:] == ["| 10 | 100 |  | 1.00 |", "| 50 | 120 | 110 – 130 | 1.20 |"]


def test_a_run_that_ended_early_says_what_is_missing() -> None:
    assert report.compared({}) == report.scaling("nodes", {}) == report.split({}) == report.MISSING
    assert report.goals(Figures()).count("not measured") == len(ROWS)


def test_parts_are_shares_of_their_sum_the_largest_first() -> None:
    assert report.split({"small": [25.0], "large": [75.0]}).split("\n")[2:] == [
        "| large | 75.0 | 75% |",
        "| small | 25.0 | 25% |",
    ]


def test_the_pages_and_pictures_are_made_of_the_figures_alone(tmp_path: Path) -> None:
    run = MeasurementRun("today", "abc", (0.1, 2.0), quick=True, machine="two cores; Python 3")
    figures = Figures(
        values={"peers.Dutycycle": [90.0, 110.0], "peers.Bytewax 1": [200.0, 200.0],
                "scaling.nodes.50": [1.0], "scaling.nodes.10": [2.0], "scaling.workers.2": [1.05]},
        notes={"live.how": "so"},
        runs={"peers": run},
    )  # fmt: skip
    figures.save(tmp_path / "figures.json")
    again = Figures.load(tmp_path / "figures.json")
    assert again == figures
    report.write(again, tmp_path)
    scale.write(again, tmp_path)
    page = (tmp_path / "performance.md").read_text()
    assert "| stream worker, backlog | ≤ 100 | ≤ 50 | 100 µs of CPU a sample | 90 – 110 | met |" in page
    assert (
        "| backlog with everything on, against Bytewax doing only windows | ≤ 1.2 | ≤ 0.8 | 0.5 times "
        "| 0.45 – 0.55 | beyond |" in page
    )
    assert "| CPU a sample with more workers, against one | ≤ 1.1 |  | 1.05 times |  | met |" in page
    assert "| peers | today | abc | two cores | 0.1 → 2 | quick |" in page
    assert "{" not in page
    pictures = [tmp_path / "pictures" / name for name in ("speed_peers.png", "speed_scaling.png")]
    assert all(picture.stat().st_size > 1000 for picture in pictures)


def test_what_peers_compute_is_mean_min_and_max() -> None:
    def sample(power: float) -> dict[str, object]:
        return {"gpus": [{"uuid": "GPU-1", **dict.fromkeys(METRICS, 1), "power_w": power}]}

    so_far = first(sample(10))
    for power in (40, 20, 30):
        so_far = fold(so_far, sample(power))
    found = result(so_far)["GPU-1"]
    assert found["power_w"] == {"mean": 25, "min": 10, "max": 40}
    assert found["temp_c"] == {"mean": 1, "min": 1, "max": 1}


def test_a_latency_is_from_the_sample_that_closes_a_window_to_its_arrival() -> None:
    record = {"source": "cgroup", "subject": {"node": "a"}, "end_ms": 60_000}
    unknown = record | {"end_ms": 10_000}  # closed by a sample of before
    arrivals = [(7.25, orjson.dumps(record)), (7.5, orjson.dumps(unknown))]
    sent_s = {("cgroup-samples", "a", 70_000): 7.0, ("nvml-samples", "a", 70_000): 6.0}
    assert list(live.latencies_ms(arrivals, sent_s)) == [250.0]


def test_a_round_that_was_interrupted_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    costs = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])

    def one(*_: object, **__: object) -> float:
        for cost in costs:
            return cost
        raise KeyboardInterrupt

    monkeypatch.setattr(backlog, "backlog", one)
    monkeypatch.setattr(backlog, "peer", lambda name, title: replace(ours(), name=title))
    size = replace(QUICK, rounds=2, compared=(1, 1, 2))
    bench = Bench(tmp_path, [0], size, StepPrinter(), Figures())
    with pytest.raises(KeyboardInterrupt):
        backlog.compare(bench)
    assert list(bench.figures.of("peers").values()) == [[1], [2], [3], [4], [5], [6]]


def test_a_peer_with_wrong_windows_has_no_figure_and_the_others_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    turns: dict[str, int] = {}

    def cost(_: Bench, who: Contender, *__: object, **___: object) -> float:
        turns[who.name] = turns.get(who.name, 0) + 1
        if who.name == backlog.PEERS["pathway"] and turns[who.name] == 2:
            raise WrongResultsError("Pathway: 365 of 450 windows, and no more in 90 s")
        return float(turns[who.name])

    monkeypatch.setattr(backlog, "backlog", cost)
    monkeypatch.setattr(backlog, "peer", lambda name, title: replace(ours(), name=title))
    bench = Bench(tmp_path, [0], replace(QUICK, rounds=3, compared=(1, 1, 2)), StepPrinter(), Figures())
    backlog.compare(bench)
    names = ["Dutycycle", SAME_WORK, *(title for name, title in backlog.PEERS.items() if name != "pathway")]
    assert bench.figures.of("peers") == {name: [1.0, 2.0, 3.0] for name in names}
    assert bench.figures.notes["left_out.how"].startswith("Pathway: 365 of 450 windows")


def test_what_is_measured_anew_replaces_its_own_figures_alone() -> None:
    figures = Figures({"a.x": [1.0], "a.y.z": [2.0], "ab.x": [3.0]}, {"a.how": "so"})
    figures.forget("a")
    assert (figures.values, figures.notes) == ({"ab.x": [3.0]}, {})


def test_the_parts_of_a_replay_are_measured_anew_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    costs = iter(range(1, 5))
    monkeypatch.setattr(replay, "_trace", lambda *_: tmp_path)
    monkeypatch.setattr(replay, "_replay", lambda *_: (100.0, {"cycles": float(next(costs))}))
    size = replace(QUICK, repeats=1, replays=((1, 1), (2, 2)))
    bench = Bench(tmp_path, [0], size, StepPrinter(), Figures())
    for cost in (2.0, 4.0):
        assert command.measure(bench, ["replay"], quick=True) == []
        assert bench.figures.of("replay.part") == {"cycles": [cost]}


def test_a_measurement_that_fails_has_no_figures_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wrong(bench: Bench) -> None:
        bench.add("wrong.x", 1)
        raise WrongResultsError("peer: 1 of 2 windows are missing")

    def broken(bench: Bench) -> None:
        bench.add("broken.x", 1)
        raise RuntimeError("the worker ended")

    monkeypatch.setattr(command, "MEASUREMENTS", {
        "wrong": wrong, "broken": broken, "good": lambda bench: bench.add("good.x", 1),
    })  # fmt: skip
    bench = Bench(tmp_path, [0], QUICK, StepPrinter(), Figures({"wrong.x": [2.0], "other.x": [3.0]}))
    assert command.measure(bench, ["wrong", "broken", "good"], quick=True) == ["wrong", "broken"]
    assert bench.figures.values == {"other.x": [3.0], "good.x": [1]}
    assert list(bench.figures.runs) == ["good"]


def test_a_larger_fleet_is_worked_out_and_what_was_measured_of_one_stands_beside(tmp_path: Path) -> None:
    names = ("cpu_pct", "records_per_s", "sent_kb_s", "changelog_kb_s", "memory_mb")
    values = {f"fleet.predicted.{name}": [100.0] for name in names}
    values |= {f"fleet.measured.{name}": [120.0] for name in names}
    values |= {"live.cpu_us": [200.0], "state.memory_most_mb": [1000.0], "state.recovery_s": [10.0]}
    scale.write(Figures(values=values, notes={"fleet.how": "So it was."}), tmp_path)
    page = (tmp_path / "scale.md").read_text()
    assert "| cores | samples a second × 200 µs | 0.5 busy | 5 busy |" in page  # 1,250 and 12,500 nodes
    assert "| stream workers, a core each | cores ÷ 0.7 | 1 | 8 |" in page
    assert "| partitions of each topic |" in page
    assert "| 2 | 16 |" in page
    assert "So it was.\n\n|" in page
    assert "| CPU of the worker | 100 % of a core | 120 % of a core | +20 % |" in page
    assert page.count("Not measured. It takes live.") == 4
