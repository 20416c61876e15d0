"""``dutycycle demo``: a trace to try everything on; what is found in it is what its jobs do."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from dutycycle.cli.main import main
from tests.support.data.traces import read_trace

pytestmark = pytest.mark.slow  # a replay of twenty-five minutes of eight GPUs

START = "2026-01-05T08:00:00Z"


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The records that a replay of twenty-five minutes makes."""
    folder = tmp_path_factory.mktemp("demo")
    trace, out = str(folder / "demo.jsonl.zst"), str(folder / "derived.jsonl")
    assert main(["demo", "--out", trace, "--duration", "25m", "--start", START]) == 0
    assert main(["replay", trace, "--out", out]) == 0
    return [
        {"topic": record.topic.removeprefix("dutycycle."), **orjson.loads(record.payload or b"{}")}
        for record in read_trace(out)
    ]


def latest(
    derived: list[dict[str, Any]], topic: str, subject: dict[str, str], source: str | None = None
) -> dict[str, Any]:
    return [
        record for record in derived
        if record["topic"] == topic and record.get("source") == source
        and subject.items() <= record["subject"].items()
    ][-1]  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ("llama-sft-worker-0", {"kind": "training"}), ("chat-api-0", {"kind": "inference"}),
        ("notebook-0", {"kind": "idle"}), ("resnet-starved-0", {"kind": "training", "bottleneck": "input"}),
    ],
)  # fmt: skip
def test_each_job_is_taken_for_what_it_is(
    derived: list[dict[str, Any]], pod: str, said: dict[str, str]
) -> None:
    insight = latest(derived, "insights", {"pod_uid": f"simulated-{pod}"})
    assert insight.items() >= said.items()


def test_the_leak_is_foreseen(derived: list[dict[str, Any]]) -> None:
    trend = latest(derived, "trends", {"gpu": "GPU-simulated-4"}, "nvml")
    # 46 GiB are free at the start, and 0.021 GiB go each second.
    assert trend["metrics"]["mem_used_bytes"]["exhausts_in_s"] == pytest.approx(46 / 0.021 - 1500, rel=0.1)


def test_steps_are_seen_as_a_cycle(derived: list[dict[str, Any]]) -> None:
    cycle = latest(derived, "cycles", {"pod_uid": "simulated-llama-sft-worker-0"}, "nvml")
    assert cycle["metrics"]["gpu_util_pct"]["period_s"] == pytest.approx(2.4, rel=0.03)


def test_requests_that_come_by_chance_have_no_rhythm(derived: list[dict[str, Any]]) -> None:
    periods = [
        metric["period_s"]
        for record in derived
        if record["topic"] == "cycles" and "GPU-simulated-5" in str(record["subject"])
        for metric in record["metrics"].values()
        if metric["cyclic"]
    ]
    assert [period for period in periods if period < 300] == [], "only the wave of twenty minutes is one"


def test_standard_output_gets_the_same_records_compressed(tmp_path: Path) -> None:
    command = ["demo", "--duration", "20s", "--start", START]
    done = subprocess.run(
        [sys.executable, "-m", "dutycycle", *command], capture_output=True, check=True, timeout=240
    )
    (tmp_path / "piped.anything").write_bytes(done.stdout)
    assert main([*command, "--out", str(tmp_path / "plain.jsonl")]) == 0
    assert list(read_trace(str(tmp_path / "piped.anything"))) == list(
        read_trace(str(tmp_path / "plain.jsonl"))
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--duration", "3650d"], "--duration 3.1536e+08 s at an interval of 1 s are 315,360,000 ticks"),
        (["--start", "yesterday"], "--start 'yesterday'"),
    ],
)
def test_what_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["demo", "--out", str(tmp_path / "x.jsonl"), *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", [["--broker", "kafka://127.0.0.1:9"], ["--prometheus", "http://127.0.0.1:9"]]
)
def test_up_keeps_simulated_figures_to_itself(
    flags: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["up", "--demo", "--duration", "1s", *flags]) == 2
    assert f"--demo does not go with {flags[0]}" in capsys.readouterr().err
