"""Goal: ``record`` and ``replay`` write tables of what they would write into a trace, and of the samples."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson
import pytest
from pyarrow import dataset

from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import DEFAULT_PREFIX, SAMPLE_TOPICS, full_name
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.traces.record import RecordRequest, record
from dutycycle.traces.republish import republish
from tests.support.data.traces import read_trace, write_trace
from tests.support.data.training_job import training_job
from tests.support.processes.commands import dutycycle
from tests.support.waiting import wait_until

SECONDS = 90


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("trace") / "day.jsonl", training_job(SECONDS))


def count(out: Path, topic: str, columns: list[str]) -> int:
    """So many different values the columns have."""
    found = dataset.dataset(out / f"topic={topic}", partitioning="hive").to_table(columns=columns)
    return int(found.group_by(columns).aggregate([]).num_rows)


def test_a_replay_to_tables(trace: Path, tmp_path: Path) -> None:
    out, derived = tmp_path / "tables", tmp_path / "derived.jsonl"
    for arguments in (("--out", out, "--format", "parquet"), ("--out", derived)):
        dutycycle("replay", trace, *arguments)
    windows: Counter[str] = Counter()
    topics = set()
    for one in read_trace(str(derived)):
        topic = one.topic.removeprefix(DEFAULT_PREFIX)
        topics.add(topic)
        if topic == "window-aggregates":
            windows.update(orjson.loads(one.payload or b"")["metrics"].keys())
    given = {one.topic.removeprefix(DEFAULT_PREFIX) for one in read_trace(str(trace))}
    assert {one.name for one in out.iterdir()} == {f"topic={one}" for one in topics | given}
    found = dataset.dataset(out / "topic=window-aggregates", partitioning="hive").to_table()
    assert Counter(found["metric"].to_pylist()) == windows
    assert count(out, "nvml-samples", ["ts", "uuid"]) == 2 * SECONDS


def test_what_lies_on_topics_becomes_tables(trace: Path, tmp_path: Path) -> None:
    names = {full_name(DEFAULT_PREFIX, one): 2 for one in SAMPLE_TOPICS}
    with EmbeddedBroker(names) as broker:
        settings = load({}, {"broker": broker.url})
        republish([str(trace)], settings, None)
        wanted = RecordRequest(("nvml-samples", "pods"), start_ms=1, end_ms=None, duration_s=None)
        record(str(tmp_path), "parquet", wanted, settings, overwrite=False, timeout_s=30)
    assert count(tmp_path, "nvml-samples", ["ts", "uuid"]) == 2 * SECONDS
    assert count(tmp_path, "pods", ["uid"]) == 1


def test_ctrl_c_leaves_nothing(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    command = [sys.executable, "-m", "dutycycle", "replay", "-", "--out", str(out), "--format", "csv"]
    # A test that runs in the background of a shell has SIGINT ignored, and hands that on.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as replay:  # fmt: skip
        assert replay.stdin is not None
        replay.stdin.write(trace.read_bytes())
        replay.stdin.flush()
        wait_until((out / ".partial").exists)
        assert replay.poll() is None
        replay.send_signal(signal.SIGINT)
        _, said = replay.communicate(timeout=240)
    assert (replay.returncode, said) == (1, b"dutycycle: interrupted\n")
    assert not out.exists()


WRONG = [
    (("replay", "x", "--format", "csv"), "--format csv needs --out DIR"),
    (("replay", "x", "--format", "csv", "--out", "y", "--grid", "lateness=1s,2s"), "no --broker, --grid"),
    (("replay", os.devnull, "--format", "csv", "--out", "-"), "--format csv needs a folder"),
    (("record", "--format", "csv", "--out", "y", "--from-prometheus", "http://x"), "does not go with"),
    (("record", "--format", "xlsx", "--out", "y"), "invalid choice: 'xlsx'"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_usage_is_one_clear_line(arguments: tuple[str, ...], message: str) -> None:
    assert message in dutycycle(*arguments, status=2).stderr
