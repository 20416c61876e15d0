"""Logs of real machines: what is told of them is judged by the truth that lies beside them.

The folder is made here: two GPUs with a cycle of twenty seconds, of one of which the truth says another.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
import zstandard

from bench.insight import real
from bench.insight.changed import CHANGES, Change, changed, changed_logs, is_long, kind_shares
from bench.insight.real import Measured, Replayed, TraceTruth, read_truth, replay_once, trace_path
from bench.insight.real import replay as real_replay
from bench.insight.report import TableReport
from bench.insight.tables_real import BEGIN, END, real_machines
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.derived import CycleMetric, Forecast, TrendMetric
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.traces.samples import TraceSamples
from tests.support.data.samples import gpu, nvml

BEGIN_S = 1_700_000_000
SECONDS = 400
GIB = 1 << 30


def folder(path: Path) -> Path:
    """A log of one source, and what is known of it."""
    lines = []
    for second in range(SECONDS):
        busy = second % 20 < 12
        pod = {"pod_uid": "p", "namespace": "import", "pod": "p"}
        gpus = [
            gpu(
                index, gpu_util_pct=90 if busy else 5 + second % 3, power_limit_w=400.0,
                power_w=300.0 if busy else 90.0 + second % 5, mem_used_bytes=30 * GIB + second % 7,
                mem_total_bytes=80 * GIB, allocated=[pod],
            )
            for index in range(2)
        ]  # fmt: skip
        plain = nvml(second, gpus, ts_ms=1000 * (BEGIN_S + second), node="log")
        line = {"topic": "dutycycle.nvml-samples", "key": "log", "payload": json.dumps(plain)}
        lines.append(json.dumps(line | {"ts": plain["ts_ms"]}))
    span = [0, SECONDS, 20.0, 0.03, "clear", "made so"]
    truth = {
        "source": "made here", "kind": "training", "limit": ["input"], "accept": [], "t0": BEGIN_S,
        "len_s": SECONDS,
        "series": {
            "GPU-0/gpu_util_pct": {"spans": [span]},
            "GPU-1/gpu_util_pct": {"spans": [[*span[:2], 31.0, *span[3:]]]},
            "GPU-0/mem_used_bytes": {"none": "it is flat"}, "GPU-1/power_w": {"unclear": True},
        },
    }  # fmt: skip
    (path / "log.jsonl.zst").write_bytes(zstandard.compress("\n".join(lines).encode()))
    (path / "truth.json").write_bytes(orjson.dumps({"log": truth}))
    return path


def test_the_tables_and_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}of yesterday\n{END}after\n")
    real_machines(folder(tmp_path), tmp_path / "kept", page)
    text = page.read_text()
    assert "where it is found; series with a wrong one | 1 of 2; 1 (recall 0.50, precision 0.50) |" in text
    assert '| "memory full", told in jobs that ended well | never |' in text
    assert "1 logs with a known kind: " in text
    assert text.startswith(f"before\n{BEGIN}Measured on ")
    assert text.endswith(f"{END}after\n")
    assert "| made here | 1 | 1 |" in text
    assert "yesterday" not in text


def test_a_replay_is_kept_until_code_or_trace_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = trace_path(folder(tmp_path), "log"), tmp_path / "kept"
    truth = read_truth(tmp_path)["log"]
    first = replay_once(path, truth, kept, "code")
    replays: list[Path] = []

    def count(path: Path, truth: TraceTruth) -> Replayed:
        replays.append(path)
        return Replayed(truth)

    monkeypatch.setattr(real, "replay", count)
    other = msgspec.structs.replace(truth, kind="inference")
    again = replay_once(path, other, kept, "code")
    assert (again.insights, again.truth, replays) == (first.insights, other, [])
    replay_once(path, truth, kept, "other code")
    assert (replays, len(list(kept.iterdir()))) == ([path], 1)


def test_a_folder_without_its_truth_or_a_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(DutycycleError, match=r"truth.json: .* name a folder"):
        read_truth(tmp_path)
    (folder(tmp_path) / "log.jsonl.zst").unlink()
    with pytest.raises(DutycycleError, match=r"log.jsonl.zst: No such file, but .*truth.json has its truth"):
        read_truth(tmp_path)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_changed_log_has_what_the_change_says(tmp_path: Path, change: Change) -> None:
    folder(tmp_path)
    records = list(TraceSamples([str(trace_path(tmp_path, "log"))], DEFAULT_PREFIX))
    begin, end = (BEGIN_S + share * SECONDS for share in change.part)
    after = list(changed(records, change, begin, end))
    samples = [msgspec.json.decode(record.value or b"", type=NvmlSample) for record in after]
    moments = [(sample.ts_ms - 1000 * BEGIN_S - 1000 * change.later_s) / 1000 for sample in samples]
    assert [record.ts_ms for record in after] == [sample.ts_ms for sample in samples]
    assert begin - BEGIN_S <= min(moments) <= max(moments) <= end - BEGIN_S
    if change.tick_s:
        assert {later - earlier for earlier, later in pairwise(moments)} == {change.tick_s}
        assert {sample.interval_ms for sample in samples} == {1000 * change.tick_s}
    else:
        part = change.part[1] - change.part[0]
        assert len(samples) == pytest.approx(part * (1 - change.missing) * SECONDS, rel=0.1)
    gpus = [gpu for sample in samples for gpu in sample.gpus]
    assert all((gpu.power_w is None) == change.utilization_alone for gpu in gpus)
    before = [msgspec.json.decode(record.value or b"", type=NvmlSample) for record in records]
    assert (samples == before) == (change == CHANGES[0])
    busy = {gpu.gpu_util_pct for gpu in gpus if (gpu.gpu_util_pct or 0) > 50}
    assert (len(busy) > 1) == bool(change.noise)


def test_kinds_of_changed_logs(tmp_path: Path) -> None:
    report = TableReport()
    nothing, coarse = CHANGES[0], Change("a tick each second", tick_s=1.0)
    changed_logs(report, folder(tmp_path), changes=[nothing, coarse])
    row, other = report.figures["real_changed"]
    assert row["logs"] == 1
    assert row["right %"] + row["unknown %"] + row["wrong %"] == pytest.approx(100)
    assert (row["long: logs"], row["long: right %"]) == (1, row["right %"])
    assert (other["logs"], other["right %"]) == (0, None)  # its ticks are as far apart already
    truth = read_truth(tmp_path)["log"]
    parts = [Change("a half", part=(0.5, 1.0)), Change("a quarter", part=(0.0, 0.25))]
    assert [is_long(truth, change) for change in parts] == [True, False]
    ticks = [Change("ten ticks", tick_s=40.0), Change("nine", tick_s=41.0)]
    assert [is_long(truth, change) for change in ticks] == [True, False]
    shares = real_replay(trace_path(tmp_path, "log"), truth).kind_shares()
    assert kind_shares(trace_path(tmp_path, "log"), truth, nothing) == shares


def replayed(**series: Any) -> Replayed:
    """A log of a hundred seconds of which so much is known."""
    truth = TraceTruth(source="s", t0=0.0, len_s=100.0, series=series)
    log = Replayed(truth)
    log.samples["G/power_w"] = Measured([float(at) for at in range(100)], [float(at) for at in range(100)])
    return log


def test_forecasts_are_held_against_the_newest_value() -> None:
    log = replayed()
    near = Forecast(horizon_s=10, value=19, p05=18, p95=22, method="blend")
    still = Forecast(horizon_s=10, value=10, p05=9, p95=11, method="persistence")
    beyond = Forecast(horizon_s=300, value=10, p05=9, p95=11, method="blend")
    flat = Forecast(horizon_s=30, value=40, p05=40, p95=40, method="blend")
    for forecast in (near, still, flat, beyond):
        log.trends.append((10.0, "G/power_w", TrendMetric(level=10, slope_per_s=0, forecast=(forecast,))))
    assert list(log.forecasts) == [("power_w", 10), ("power_w", 30)]
    assert (log.forecasts["power_w", 10].flat, log.forecasts["power_w", 30].flat) == (0, 1)
    score = log.forecasts["power_w", 10]
    assert (score.count, score.made, score.inside, score.ratio, score.made_ratio) == (2, 1, 1, 11 / 20, 0.1)


def test_memory_that_was_told_to_run_out_did_or_did_not() -> None:
    log = replayed()
    log.samples["G/mem_used_bytes"] = Measured([0.0, 50.0, 99.0], [1.0, 5.0, 10.0])
    log.samples["G/mem_total_bytes"] = Measured([0.0], [10.0])
    said = TrendMetric(level=1, slope_per_s=0, forecast=(), exhausts_in_s=60.0)
    log.trends = [(0.0, "G/mem_used_bytes", said), (99.0, "G/mem_used_bytes", said)]
    assert log.memory_told() == (2, 1)


@pytest.mark.parametrize(
    ("period_s", "at_s", "found", "wrong"),
    [(20.4, 40.0, 1, 0), (22.0, 40.0, 0, 1), (20.0, 130.0, 0, 0), (5.0, 40.0, 0, 0)],
    ids=["within the tolerance", "another", "after a period beyond its end", "one that is accepted"],
)
def test_cycles_are_right_within_a_period_of_their_span(
    period_s: float, at_s: float, found: int, wrong: int
) -> None:
    plain = {
        "source": "s", "t0": 0.0, "len_s": 200.0, "accept": [5.0],
        "series": {"G/power_w": {"spans": [[0, 100, 20.0, 0.03, "clear", ""]]}},
    }  # fmt: skip
    log = Replayed(msgspec.convert(plain, TraceTruth))
    log.cycles["G/power_w"].append((at_s, CycleMetric(cyclic=True, period_s=period_s)))
    score = log.score_cycles()
    assert (score.found, score.missed, score.wrong) == (found, 1 - found, wrong)
