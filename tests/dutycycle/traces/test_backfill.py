"""Goal: what a real Prometheus kept becomes a trace whose replay has windows, peaks and cycles with names."""

import argparse
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from dutycycle.cli.history import range_of
from dutycycle.cli.main import main
from dutycycle.contract.trace_reader import TraceReader
from tests.support.data.prometheus_history import (
    B_AWAY_S,
    B_RESET_S,
    CPU_RESET_S,
    CYCLE_S,
    HOUR_S,
    HOURS,
    POD_ENDS_S,
    REPLICA_MISSED_S,
    SCRAPE_S,
    history,
    utilization,
)
from tests.support.fakes.exporter_pages import UID
from tests.support.servers.ports import free_port
from tests.support.servers.prometheus import Prometheus, scrape
from tests.support.waiting import wait_until

START_S = (int(time.time()) - 48 * HOUR_S) // 7200 * 7200
Record = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    found = Prometheus(tmp_path_factory.mktemp("prometheus"), scrape([]), history=history(START_S))
    yield found
    found.stop()


def moment(second: int) -> str:
    return str((START_S + second) * 1000)


def arguments(server: Prometheus, out: Path, *more: str, start_s: int = -60) -> list[str]:
    end = moment(HOURS * HOUR_S + 60)
    return ["record", "--from-prometheus", server.url, "--since", moment(start_s), "--until", end,
            "--out", str(out), *more]  # fmt: skip


@pytest.fixture(scope="module")
def trace(server: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trace") / "week.jsonl.zst"
    assert main(arguments(server, out)) == 0
    assert [file.name for file in out.parent.iterdir()] == [out.name]
    return out


def records(trace: Path) -> dict[str, list[Record]]:
    """By topic, in their order, with the second of each as ``at_s``."""
    found: dict[str, list[Record]] = defaultdict(list)
    for _, one in TraceReader(str(trace)):
        assert one.ts_ms is not None
        plain = orjson.loads(one.payload) if one.payload else {"gone": one.key}
        found[one.topic.removeprefix("dutycycle.")].append(
            plain | {"at_s": one.ts_ms / 1000 - START_S, "key": one.key}
        )
    return found


def test_all_is_in_order_of_time_and_no_tick_is_there_twice(trace: Path) -> None:
    times = [one.ts_ms for _, one in TraceReader(str(trace))]
    assert times == sorted(times)  # type: ignore[type-var]  # each has one
    found = records(trace)
    for topic in ("nvml-samples", "cgroup-samples"):
        ticks = [(one["node"], one["seq"]) for one in found[topic]]
        assert len(set(ticks)) == len(ticks) > 100
        assert len({(one["node"], one["ts_ms"]) for one in found[topic]}) == len(ticks)


def test_every_scrape_is_there_once_with_its_time(trace: Path) -> None:
    gpus = [one for one in records(trace)["nvml-samples"] if one["node"] == "gpu-a"]
    scraped = range(0, REPLICA_MISSED_S.start, SCRAPE_S)
    assert [one["at_s"] for one in gpus if one["at_s"] < REPLICA_MISSED_S.start] == list(scraped)
    steps = [after["at_s"] - before["at_s"] for before, after in pairwise(gpus)]
    assert min(steps) >= SCRAPE_S / 2
    assert max(steps) < 2 * SCRAPE_S  # where the second replica takes over, and where it gives back
    assert sum(step != SCRAPE_S for step in steps) <= 2
    for one in gpus:
        expected = utilization(int(one["at_s"])) if one["at_s"] < POD_ENDS_S else 0
        assert one["gpus"][0]["gpu_util_pct"] == expected, one["at_s"]


def test_a_gap_stays_one_and_a_reset_has_no_rate(trace: Path) -> None:
    found = records(trace)
    free = [one for one in found["nvml-samples"] if one["node"] == "gpu-b"]
    assert not [one for one in free if one["at_s"] - 3 in B_AWAY_S]
    assert len(free) == (HOURS * HOUR_S - len(B_AWAY_S)) // SCRAPE_S
    (after,) = (one for one in free if one["at_s"] - 3 == B_RESET_S)
    assert after["gpus"][0]["energy_j"] == 0
    use = {one["at_s"]: one["pods"][0]["containers"][0] for one in found["cgroup-samples"]}
    rates = {at_s: one.get("cpu_util_pct") for at_s, one in use.items()}
    without = [at_s for at_s, rate in rates.items() if rate is None]
    # It reads 0 where it begins anew, which may be a read that failed: the next one tells that it was none.
    absent_s = [0, CPU_RESET_S]
    assert [int(at_s) // SCRAPE_S * SCRAPE_S for at_s in without] == absent_s
    known = [rate for rate in rates.values() if rate is not None]
    assert sum(known) / len(known) == pytest.approx(150, rel=0.01)


def test_the_pod_has_its_uid_its_job_and_its_end(trace: Path) -> None:
    pods = records(trace)["pods"]
    first, ended, gone, tombstone = pods
    assert (first["uid"], first["name"], first["namespace"], first["node"]) == (
        UID,
        "bert-0",
        "team",
        "gpu-a",
    )
    assert (first["phase"], first["gpu_request"]) == ("Running", 1)
    assert (first["job"]["kind"], first["job"]["name"]) == ("Job", "bert")
    assert ended["phase"] == "Succeeded"
    assert POD_ENDS_S <= ended["at_s"] <= POD_ENDS_S + 120
    assert gone["finished_ms"] > (START_S + POD_ENDS_S) * 1000
    assert tombstone["gone"] == UID


def test_its_replay_has_windows_peaks_and_cycles(trace: Path, tmp_path: Path) -> None:
    out, db = tmp_path / "derived.jsonl", f"sqlite:///{tmp_path}/records.db"
    assert main(["replay", str(trace), "--out", str(out), "--records", db]) == 0
    found = records(out)
    cycles = [one for one in found["cycles"] if one["key"] == f"pod/{UID}/nvml"]
    known = [one["metrics"]["gpu_util_pct"] for one in cycles if "gpu_util_pct" in one["metrics"]]
    assert any(one.get("period_s") == pytest.approx(CYCLE_S, rel=0.05) for one in known)
    assert {one["size_ms"] for one in found["window-aggregates"] if one["key"] == f"pod/{UID}"} == {
        10_000, 60_000
    }  # fmt: skip
    peaks = found["pod-peaks"][-1]
    assert (peaks["pod"]["name"], peaks["final"], peaks["metrics"]["gpu_util_pct"]["max"]) == (
        "bert-0", True, 95
    )  # fmt: skip
    assert peaks["metrics"]["cpu_util_pct"]["mean"] == pytest.approx(150, rel=0.01)
    assert peaks["attribution"] == {"gpu-a/0": "allocated"}
    job = found["job-peaks"][-1]
    assert (job["job"]["kind"], job["job"]["name"], job["namespace"]) == ("Job", "bert", "team")


def test_one_sample_a_step(server: Prometheus, tmp_path: Path) -> None:
    out = tmp_path / "steps.jsonl"
    assert main(arguments(server, out, "--step", "1m", start_s=0)) == 0
    found = records(out)
    seconds = {node: [one["at_s"] for one in found["nvml-samples"] if one["node"] == node]
               for node in ("gpu-a", "gpu-b")}  # fmt: skip
    # The pod's last sample is a quarter of a minute before the GPU is free.
    assert seconds["gpu-a"] == sorted([*range(60, HOURS * HOUR_S + 60, 60), POD_ENDS_S - SCRAPE_S])
    holders = {
        one["at_s"]: one["gpus"][0].get("allocated")
        for one in found["nvml-samples"]
        if one["node"] == "gpu-a"
    }
    assert [bool(holders[at_s]) for at_s in (POD_ENDS_S - 60, POD_ENDS_S - 15, POD_ENDS_S)] == [
        True,
        True,
        False,
    ]
    away = [second for second in seconds["gpu-b"] if B_AWAY_S.start + 60 < second <= B_AWAY_S.stop]
    assert away == [], "a gap is not filled with what was before it"
    assert {one["interval_ms"] for one in found["nvml-samples"] if one["node"] == "gpu-a"} == {60_000, 45_000}


def test_a_step_is_known_by_all_its_samples(server: Prometheus, tmp_path: Path) -> None:
    """A load of two minutes: its last instants would say 5 % of every step."""
    out, db = tmp_path / "steps.jsonl", f"sqlite:///{tmp_path}/records.db"
    assert main(arguments(server, out, "--step", "2m", start_s=0)) == 0
    found = records(out)
    busy = [one for one in found["nvml-samples"] if one["node"] == "gpu-a" and one["at_s"] < HOUR_S]
    assert len(busy) == HOUR_S // CYCLE_S - 1
    figures = {(one["gpus"][0]["gpu_util_pct"], one["gpus"][0]["gpu_util_max_pct"]) for one in busy}
    assert figures == {(50, 95)}
    cpu = [
        one["pods"][0]["containers"][0].get("cpu_util_pct")
        for one in found["cgroup-samples"]
        if CPU_RESET_S + CYCLE_S < one["at_s"] < HOUR_S
    ]
    assert cpu == pytest.approx([150] * len(cpu), rel=0.02)
    assert main(["replay", str(out), "--out", str(tmp_path / "derived.jsonl"), "--records", db]) == 0
    peaks = [
        one for one in records(tmp_path / "derived.jsonl")["pod-peaks"] if one["pod"]["name"] == "bert-0"
    ]
    assert peaks[-1]["metrics"]["gpu_util_pct"]["max"] == 95
    assert peaks[-1]["metrics"]["gpu_util_pct"]["mean"] == pytest.approx(50, rel=0.02)


def test_a_run_that_was_killed_goes_on(server: Prometheus, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "week.jsonl.zst"
    command = [sys.executable, "-m", "dutycycle", *arguments(server, out)]
    state = Path(f"{out}.progress")
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def has_counted() -> bool:
        assert running.poll() is None, "it was done too soon to be killed"
        return state.exists() and b'"counts":{"' in state.read_bytes()

    try:
        wait_until(has_counted, pause_s=0.001)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert not out.exists()
    with Path(f"{out}.partial").open("ab") as partial:
        partial.write(b"what was written after the last checkpoint")
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, "goes on with" in done.stderr) == (0, True), done.stderr
    assert out.read_bytes() == trace.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == [out.name]


def test_nothing_there_is_an_error_and_leaves_nothing(
    server: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "none.jsonl.zst"
    long_ago = [f"{START_S * 1000 - 86_400_000 * days}" for days in (3, 2)]
    done = main(["record", "--from-prometheus", server.url, "--since", long_ago[0], "--until", long_ago[1],
                 "--out", str(out)])  # fmt: skip
    assert done == 1
    assert "has no samples of dcgm-exporter" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--from-prometheus", "http://h:1"], "needs --since"),
        (["--from-prometheus", "h:1", "--since", "1h"], "--from-prometheus: expected a URL"),
        (["--from-prometheus", "--since", "1h"], "no Prometheus is known: give"),
        (["--from-prometheus", "http://h:1", "--since", "soon"], "--since 'soon': expected"),
        (["--from-prometheus", "http://h:1", "--since", "1w"], "--since '1w': expected a duration such as"),
        (["--from-prometheus", "http://h:1", "--since", "1796070000"],
         "--since 1796070000: looks like Unix seconds: expected milliseconds, 1796070000000"),
        (["--from-prometheus", "http://h:1", "--since", "1h", "--until", "2h"], "is not after the beginning"),
        (["--from-prometheus", "http://h:1", "--since", "1h", "--step", "1.5s"], "--step 1.5s: expected"),
        (["--from-prometheus", "http://h:1", "--since", "1h", "--topic", "pods"], "--topic does not go with"),
        (["--since", "1h"], "--since needs --from-prometheus"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    given: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", *given, "--out", str(tmp_path / "x.jsonl")]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("until", [None, "now", "2099-01-01T00:00:00Z"])
def test_nothing_of_the_future_is_asked_for(until: str | None) -> None:
    before_ms = time.time_ns() // 1_000_000
    wanted = range_of(argparse.Namespace(since="1h", until=until, step=None))
    assert before_ms - 1000 <= wanted.end_ms <= time.time_ns() // 1_000_000
    assert wanted.start_ms >= before_ms - 3_601_000


def test_a_prometheus_that_is_away_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    given = ["--from-prometheus", url, "--since", "1h", "--timeout", "1s", "--out", str(tmp_path / "x.jsonl")]
    assert main(["record", *given]) == 1
    assert f"{url} does not answer" in capsys.readouterr().err
