"""``dutycycle replay`` with a folder: a run for each combination, scored, resumed and the same again."""

import csv
import json
from pathlib import Path

import orjson
import pytest

from bench.cluster_trace import START_MS, Shape, records
from tests.support.data.traces import write_trace
from tests.support.processes.commands import dutycycle

PERIOD_S = 8.0
SECONDS = 260
GPU = "gpu/gpu-000/GPU-0000-0"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "small.jsonl.zst"
    return write_trace(path, records(Shape(nodes=1, gpus=1, seconds=SECONDS)))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_sweep_is_scored_resumed_and_repeated(trace: Path, tmp_path: Path) -> None:
    span = {"from_ms": START_MS + 21_000, "to_ms": START_MS + 1000 * SECONDS}
    lines = [
        {"subject": GPU, "metric": "gpu_util_pct", "period_s": PERIOD_S, **span},
        {"subject": GPU, "metric": "power_w", "period_s": PERIOD_S, **span},
        {"subject": GPU, "metric": "mem_used_bytes", **span},
    ]
    truth = tmp_path / "truth.jsonl"
    truth.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out, again = tmp_path / "sweep", tmp_path / "again"
    asked: tuple[str | Path, ...] = (
        "replay", trace, "--grid", "cycles.metrics=gpu_util_pct;power_w", "--set", "trends.horizons=5s",
        "--score", truth,
    )  # fmt: skip
    done = dutycycle(*asked, "--out", out)
    assert done.stderr == ""  # no terminal, no bar
    util, power = rows(out / "scores.csv")
    assert (util["cycles.metrics"], power["cycles.metrics"]) == ("gpu_util_pct", "power_w")
    # Of two cycles each run looks for one, and says nothing of the other.
    assert [one["cycles_right"] for one in (util, power)] == ["2/3", "2/3"]
    assert [float(one["cycle_f1"]) for one in (util, power)] == pytest.approx([2 / 3, 2 / 3])
    assert all(one["windows"] == "equal" for one in (util, power))
    assert 0 < float(util["error_5s"]) < 1.5
    assert "error_30s" not in util
    assert "cycle_f1" in done.stdout
    assert {float(one["horizon_s"]) for one in rows(out / "forecasts.csv")} == {5.0}

    found = {path.parent.name: orjson.loads(path.read_bytes()) for path in out.glob("runs/*/run.json")}
    assert len(found) == 2
    for one in found.values():
        assert one["settings"]["trends.horizons"] == [5.0]
        assert one["program"]["version"]
        assert one["scores"]["windows"]["compared"] > 100
        assert not one["noticed"]

    first, kept = sorted(out.glob("runs/*/run.json"))
    kept_at = kept.stat().st_mtime_ns
    before = contents(out)
    first.unlink()  # as if it had been interrupted
    resumed = dutycycle(*asked, "--out", out)
    assert "1 of 2 runs are finished already" in resumed.stderr
    assert kept.stat().st_mtime_ns == kept_at
    assert contents(out) == before

    dutycycle(*asked, "--out", again, "--jobs", "1")
    assert contents(again) == before


def test_a_span_of_no_series_of_the_trace_is_named_and_not_scored(trace: Path, tmp_path: Path) -> None:
    span = {"from_ms": START_MS, "to_ms": START_MS + 1000 * SECONDS}
    known = {"subject": GPU, "metric": "power_w", "period_s": PERIOD_S, **span}
    absent = [
        {"subject": "gpu/gpu-000/GPU-of-another", "metric": "power_w", **span},
        {"subject": GPU, "metric": "power", "period_s": PERIOD_S, **span},
    ]
    truth, out = tmp_path / "truth.jsonl", tmp_path / "out"
    truth.write_text("".join(json.dumps(line) + "\n" for line in (known, *absent)))
    asked = ("replay", trace, "--score", truth, "--set", "cycles.metrics=power_w", "--out", out, "--quiet")
    for _ in range(2):  # a run that is finished says it again
        said = dutycycle(*asked).stderr
        for line in absent:
            assert f"{truth}: the trace has no {line['metric']} of {line['subject']}: left out" in said
        assert f"no power_w of {GPU}" not in said
    (row,) = rows(out / "scores.csv")
    assert (row["cycle_f1"], row["cycles_right"]) == ("1.0", "1/1")


REFUSED = [
    (("--grid", "cycles.misses=1,2"), "need --out DIR/"),
    (("--grid", "cycles.misses=1,0", "--out", "x/"), "--grid cycles.misses=0: expected a whole number"),
    (("--set", "cycles.wndow=600"), "did you mean cycles.window?"),
    (("--set", "cycles.metrics=power"), "did you mean power_w?"),
    (("--set", "cycles.window=640", "--broker", "127.0.0.1:1"), "do not go with it"),
    (("--jobs", "0"), "expected a whole number from 1"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED)
def test_what_is_refused(arguments: tuple[str, ...], why: str, trace: Path) -> None:
    assert why in dutycycle("replay", trace, *arguments, status=2).stderr


def test_a_run_that_fails_ends_the_sweep_with_its_reason(trace: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    grid = ("--grid", "cycles.misses=1,2", "--out", tmp_path / "sweep")
    done = dutycycle("replay", empty, *grid, status=1)
    assert "cycles.misses=1: " in done.stderr or "cycles.misses=2: " in done.stderr
    assert "no samples to replay" in done.stderr


def test_a_setting_changes_a_single_replay(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "derived.jsonl"
    dutycycle("replay", trace, "--set", "windows=30s", "--out", out)
    assert b'size_ms\\":30000' in out.read_bytes()
    assert b'size_ms\\":10000' not in out.read_bytes()


def test_the_settings_are_listed() -> None:
    listed = dutycycle("replay", "--list-settings").stdout
    assert "cycles.window  " in listed
    assert "trends.horizons " in listed


def test_a_score_does_not_hide_the_setting_of_its_name(trace: Path, tmp_path: Path) -> None:
    done = dutycycle("replay", trace, "--grid", "windows=10s,60s;30s", "--out", tmp_path / "out/", "--quiet")
    with (tmp_path / "out/scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["windows"], row["score_windows"]) for row in rows] == [
        ("10s,60s", "equal"),
        ("30s", "equal"),
    ]
    head, *lines = done.stdout.splitlines()
    assert head.split()[:1] == ["windows"]
    assert [line.split()[0] for line in lines[:2]] == ["10s,60s", "30s"]


def test_a_folder_that_cannot_be_made_is_one_line(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    grid = ("--grid", "windows=10s", "--out", tmp_path / "file/out/", "--quiet")
    done = dutycycle("replay", trace, *grid, status=1)
    assert done.stdout == ""
    assert done.stderr.startswith(f"dutycycle: windows=10s: {tmp_path}/file/out")
    assert done.stderr.endswith(": Not a directory\n")
    assert done.stderr.count("\n") == 1
