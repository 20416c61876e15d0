"""``dutycycle replay`` as a user runs it: same bytes twice, clear errors, nothing good lost."""

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from bench.cluster_trace import START_MS, Shape, records
from dutycycle.contract.trace import TraceRecord, encode_line
from tests.support.data.traces import read_by_topic, read_trace, write_trace
from tests.support.processes.warm import command

SHAPE = Shape(nodes=4, gpus=2, seconds=130)


def dutycycle(
    *arguments: str | Path, stdin: bytes = b"", start: Sequence[str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*(start or command()), *map(str, arguments)],
        input=stdin, capture_output=True, check=False, timeout=240,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("trace") / "small.jsonl.zst", records(SHAPE))


def test_the_same_trace_gives_the_same_bytes(trace: Path, tmp_path: Path) -> None:
    outs = [tmp_path / "1.jsonl.zst", tmp_path / "2.jsonl.zst"]
    anew = (sys.executable, "-m", "dutycycle")  # each with a hash seed of its own
    for out in outs:
        assert dutycycle("replay", trace, "--out", out, start=anew).returncode == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert outs[0].stat().st_size > 10_000


def test_what_a_replay_finds(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    done = dutycycle("replay", trace, "--out", out)
    assert done.returncode == 0, done.stderr
    found = read_by_topic(out)
    assert set(found) == {
        "window-aggregates", "trends", "cycles", "pod-peaks", "job-peaks", "insights", "usage", "node-peaks",
    }  # fmt: skip
    (job,) = {one["job"]["uid"]: one for one in found["job-peaks"]}.values()
    assert sorted(job["pods"]) == [f"train-0-worker-{n}" for n in range(4)]
    windows = [w for w in found["window-aggregates"] if w["size_ms"] == 60_000]
    gpus = [w for w in windows if w["subject"]["kind"] == "gpu"]
    expected = {(START_MS + 1000 * s) // 60_000 for s in range(SHAPE.seconds)}
    assert {int(str(w["start_ms"])) // 60_000 for w in gpus} == expected
    counts = [w["metrics"]["gpu_util_pct"]["count"] for w in gpus]
    assert sum(counts) == SHAPE.nodes * SHAPE.gpus * SHAPE.seconds


def test_keep_open_leaves_open_what_a_live_stream_would(trace: Path, tmp_path: Path) -> None:
    closed, kept = tmp_path / "closed.jsonl", tmp_path / "kept.jsonl"
    dutycycle("replay", trace, "--out", closed)
    dutycycle("replay", trace, "--out", kept, "--keep-open")
    watermark = START_MS + 1000 * (SHAPE.seconds - 1)
    ends = [int(str(w["end_ms"])) for w in read_by_topic(kept)["window-aggregates"]]
    assert max(ends) + 10_000 <= watermark
    assert max(int(str(w["end_ms"])) for w in read_by_topic(closed)["window-aggregates"]) > watermark


def test_standard_input_and_output(trace: Path, tmp_path: Path) -> None:
    plain = b"".join(map(encode_line, read_trace(str(trace))))
    done = dutycycle("replay", "-", "--out", "-", stdin=plain)
    out = tmp_path / "out.jsonl"
    dutycycle("replay", trace, "--out", out)
    assert done.stdout == out.read_bytes()


def test_records_of_a_replay_are_shown_by_peaks(trace: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    assert dutycycle("replay", trace, "--records", url).returncode == 0
    shown = dutycycle("peaks", "--records", url, "--format", "json", "--job", "train-0")
    peaks = orjson.loads(shown.stdout)
    assert [one["pod"]["name"] for one in peaks] == [f"train-0-worker-{n}" for n in range(4)]
    assert all(88 <= one["metrics"]["gpu_util_pct"]["max"] <= 100 for one in peaks)
    table = dutycycle("peaks", "--records", url).stdout.decode()
    assert table.count("train-0-worker-") == 4
    lines = dutycycle("peaks", "--jobs", "--records", url, "--format", "csv").stdout.decode().splitlines()
    assert lines[0].startswith("kind,namespace,name,uid,")
    assert any(line.startswith("PyTorchJob,ml,train-0,job-0,") for line in lines)


GOOD = list(records(Shape(nodes=1, gpus=1, seconds=40)))
DAMAGE = [
    ("cut line", b'{"topic":"dutycycle.pods","ke', "not JSON"),
    ("no payload", b'{"topic":"dutycycle.pods","key":"a"}', "required field `payload`"),
    ("unknown topic", b'{"topic":"other.pods","key":"a","payload":"{}"}', "topic 'other.pods' is none of"),
]


@pytest.mark.parametrize(("goal", "line", "reason"), DAMAGE, ids=[row[0] for row in DAMAGE])
def test_a_damaged_line_is_named_and_what_came_before_is_kept(
    goal: str, line: bytes, reason: str, tmp_path: Path
) -> None:
    path, out = write_trace(tmp_path / "t.jsonl", GOOD), tmp_path / "out.jsonl"
    path.write_bytes(b"\n\n" + path.read_bytes() + line + b"\n")  # blank lines count
    done = dutycycle("replay", path, "--out", out)
    assert done.returncode == 1
    message = done.stderr.decode().strip().splitlines()[-1]
    assert message.startswith(f"dutycycle: {path}:{len(GOOD) + 3}: "), goal
    assert reason in message
    assert read_by_topic(out)["pod-peaks"], goal


def test_a_bad_record_in_a_trace_is_a_dead_letter_and_its_neighbours_count(tmp_path: Path) -> None:
    bad = TraceRecord(topic="dutycycle.nvml-samples", key="gpu-000", payload=b"\x00garbage", ts_ms=START_MS)
    path, out = write_trace(tmp_path / "t.jsonl", [*GOOD[:20], bad, *GOOD[20:]]), tmp_path / "out.jsonl"
    assert dutycycle("replay", path, "--out", out).returncode == 0
    (letter,) = read_by_topic(out)["dead-letters"]
    assert (letter["reason"], letter["topic"]) == ("decode", "dutycycle.nvml-samples")
    clean, expected = write_trace(tmp_path / "clean.jsonl", GOOD), tmp_path / "expected.jsonl"
    dutycycle("replay", clean, "--out", expected)
    assert read_by_topic(out)["window-aggregates"] == read_by_topic(expected)["window-aggregates"]


def test_a_reader_that_has_seen_enough_is_no_error(trace: Path) -> None:
    shell = f"{sys.executable} -m dutycycle replay {trace} --out - | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell], capture_output=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("order", ["shuffled", "reversed"])
def test_a_trace_that_is_not_in_the_order_of_time(order: str, tmp_path: Path) -> None:
    """It is said what that costs; sorted it makes the same as one that is in order."""
    samples = list(records(Shape(nodes=2, gpus=1, seconds=120)))
    right, mixed = tmp_path / "right.jsonl", tmp_path / "mixed.jsonl"
    write_trace(right, samples)
    mixed_samples = samples[::-1]
    if order == "shuffled":
        random.Random(7).shuffle(mixed_samples)  # noqa: S311 - no secrets
    write_trace(mixed, mixed_samples)
    said, outs = {}, {}
    runs: dict[str, list[str | Path]] = {
        "right": ["replay", right], "mixed": ["replay", mixed], "sorted": ["replay", mixed, "--sort"],
    }  # fmt: skip
    for name, words in runs.items():
        out = tmp_path / f"{name}.out.jsonl"
        done = dutycycle(*words, "--out", out)
        assert done.returncode == 0, done.stderr
        said[name] = done.stderr.decode()
        # Of one moment the nodes may come in another order.
        outs[name] = sorted((one.topic, one.key or "", one.payload) for one in read_trace(str(out)))
    assert outs["right"] == outs["sorted"] != outs["mixed"]
    hint = "is the trace in the order of time? --sort takes it so"
    assert {name for name, text in said.items() if hint in text} == {"mixed"}


def test_what_comes_before_a_damaged_line_is_replayed_in_order(tmp_path: Path) -> None:
    samples = list(records(Shape(nodes=1, gpus=1, seconds=60)))
    right, cut = tmp_path / "right.jsonl", tmp_path / "cut.jsonl"
    write_trace(right, samples)
    write_trace(cut, samples[::-1])
    with cut.open("a", encoding="utf-8") as file:
        file.write('{"topic": "dutycycle.nvml-sa')
    outs = {trace: tmp_path / f"{trace.stem}.out.jsonl" for trace in (right, cut)}
    for trace, out in outs.items():
        done = dutycycle("replay", trace, "--sort", "--out", out)
        assert done.returncode == (trace == cut)
        assert (f"{cut}:{len(samples) + 1}: not JSON" in done.stderr.decode()) == (trace == cut)
    assert outs[right].read_bytes() == outs[cut].read_bytes() != b""
