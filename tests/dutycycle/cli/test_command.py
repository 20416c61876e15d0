"""The command used wrongly, or on a machine that will not do: one clear line, and nothing is lost."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from bench.cluster_trace import START_MS, Shape, records
from dutycycle.cli.arguments import given_settings, moment_ms
from dutycycle.cli.main import build_parser
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.contract.trace import TraceRecord
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.live.children import Child
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.data.traces import read_trace, write_trace
from tests.support.kafka import send
from tests.support.processes.commands import ANEW
from tests.support.processes.hidden import hide_modules
from tests.support.processes.warm import command
from tests.support.waiting import DEADLINE_S, until, wait_until

GOOD = list(records(Shape(nodes=1, gpus=1, seconds=40)))
NOW_MS = 1_800_000_000_000


def started(*arguments: str | Path, start: Sequence[str] = ANEW, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*start, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environ,
    )  # fmt: skip


def ended(*arguments: str | Path, start: Sequence[str] = (), **environ: str) -> tuple[int, str]:
    """Status and stderr."""
    with started(*arguments, start=start or command(), **environ) as process:
        _, stderr = process.communicate(timeout=DEADLINE_S)
        return process.returncode, stderr


@pytest.mark.parametrize(
    ("arguments", "package", "installed_by"),
    [
        (("collect", "--broker", "kafka://127.0.0.1:1"), "pynvml", "dutycycle"),
        (("stream", "--broker", "kafka://127.0.0.1:1"), "faust", "dutycycle"),
        (("sink", "--broker", "kafka://127.0.0.1:1"), "faust", "dutycycle"),
        (("replay", "TRACE", "--out", "OUT", "--format", "parquet"), "pyarrow", "dutycycle[parquet]"),
        (
            ("replay", "TRACE", "--out", "OUT", "--model", "m=power_w: time_series.HoltWinters()"),
            "river",
            "dutycycle[models]",
        ),
    ],
)
def test_a_part_that_is_not_installed_is_named(
    arguments: tuple[str, ...], package: str, installed_by: str, tmp_path: Path
) -> None:
    paths = {"TRACE": write_trace(tmp_path / "t.jsonl", GOOD), "OUT": tmp_path / "out"}
    given = [paths.get(word, word) for word in arguments]
    status, said = ended(*given, start=ANEW, **hide_modules(tmp_path, {package}))
    expected = f"dutycycle: the package {package} is not installed: pip install '{installed_by}'"
    assert (status, said.splitlines()[-1]) == (1, expected)
    assert not (tmp_path / "out").exists()


def test_without_any_extra_a_trace_is_replayed_and_reported(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.jsonl", GOOD)
    hidden = hide_modules(tmp_path, {"pyarrow", "river", "scipy"})
    status, said = ended("replay", trace, "--out", tmp_path / "out.jsonl", start=ANEW, **hidden)
    assert (status, (tmp_path / "out.jsonl").stat().st_size > 0) == (0, True), said
    status, said = ended("report", trace, "--out", tmp_path / "page.html", start=ANEW, **hidden)
    missing = "the package pyarrow is not installed: pip install 'dutycycle[parquet]'"
    assert (status, said.splitlines()[-1]) == (0, f"The tables are CSV alone; Parquet: {missing}")
    assert {file.suffix for file in (tmp_path / "page.files").iterdir()} == {".csv", ".png"}


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_full_disk_is_named(suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"out{suffix}"
    out.symlink_to("/dev/full")
    status, stderr = ended("replay", write_trace(tmp_path / "t.jsonl", GOOD), "--out", out)
    assert (status, stderr.strip()) == (
        1, f"dutycycle: cannot write the trace {out}: No space left on device",
    )  # fmt: skip


def test_a_trace_is_never_its_own_output(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.jsonl", GOOD)
    before = trace.read_bytes()
    (tmp_path / "same").symlink_to(trace)
    status, stderr = ended("replay", trace, "--out", tmp_path / "same")
    assert (status, trace.read_bytes() == before) == (2, True)
    assert "choose another file" in stderr


def test_a_missing_trace_leaves_the_output_alone(tmp_path: Path) -> None:
    out = tmp_path / "precious"
    out.write_text("yesterday's")
    status, stderr = ended("replay", tmp_path / "nowhere", "--out", out)
    assert (status, out.read_text()) == (1, "yesterday's")
    assert "nowhere: No such file" in stderr


BROKER = ("--broker", "kafka://127.0.0.1:9")
WRONG = [
    (("record", "--out", "x", *BROKER, "--from", "soon"), 2, "--from 'soon': expected"),
    (("record", "--out", "x", *BROKER, "--from", "9" * 30), 2, "is before 1970 or after 2100"),
    (("record", "--out", "x", *BROKER, "--from", "-1x"), 2, "--from '-1x': expected"),
    (("record", "--out", "x", *BROKER, "--from", "2026-11-20", "--to", "2026-11-19"), 2,
     "is not after the beginning"),
    (("replay", "x", "--speed", "abc"), 2, "--speed: 'abc': expected a number above 0"),
    (("replay", "x", "--speed", "2"), 2, "--speed needs --broker"),
    (("replay", "x", "--windows", "60s,10s"), 2, "--windows"),
    (("replay", "x", "--lateness", "soon"), 2, "--lateness='soon': expected a duration"),
    (("sink", *BROKER, "--remote-write", "http://a"), 2,
     "--remote-write sends the series of --metrics: give --metrics"),
    (("peaks", "--records", "sqlite:////nowhere/x.db"), 1, "/nowhere/x.db"),
    (("collect",), 2, "DUTYCYCLE_BROKER"),
    (("topics",), 2, "no broker: give --broker"),
    (("record", "--out", "x"), 2, "--broker"),
    (("nothing",), 2, "unknown command nothing"),
    ((), 2, "COMMAND"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "status", "message"), WRONG)
def test_wrong_usage_is_one_clear_line(arguments: tuple[str, ...], status: int, message: str) -> None:
    exit_status, stderr = ended(*arguments)
    assert exit_status == status
    assert message in stderr
    assert "Traceback" not in stderr


MOMENTS = [
    ("-10m", NOW_MS - 600_000),
    ("1700000000000", 1_700_000_000_000),
    ("2026-11-20T10:00:00Z", 1_795_168_800_000),
    ("2026-11-20T12:00:00+02:00", 1_795_168_800_000),
]


@pytest.mark.parametrize(("text", "expected"), MOMENTS)
def test_moments(text: str, expected: int) -> None:
    assert moment_ms("--from", text, NOW_MS) == expected


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM])
def test_a_recording_ends_while_it_waits_for_the_broker(one: signal.Signals, tmp_path: Path) -> None:
    arguments = ("record", "--out", tmp_path / "x", "--from", "-10m", "--broker", "kafka://127.0.0.1:9")
    with started(*arguments) as process:
        try:
            assert process.stderr is not None
            assert "127.0.0.1:9" in process.stderr.readline()
            process.send_signal(one)
            process.communicate(timeout=240)
            assert process.returncode == 0
        finally:
            process.kill()


def test_what_ctrl_c_leaves_of_a_recording_is_whole(tmp_path: Path) -> None:
    out, partial = tmp_path / "t.jsonl", tmp_path / "t.jsonl.partial"
    topics = {f"dutycycle.{name}": 1 for name in SAMPLE_TOPICS}
    with EmbeddedBroker(topics) as broker:
        settings = load({}, {"broker": broker.url})
        samples = [(one.topic.removeprefix("dutycycle."), one.key, one.payload, None) for one in GOOD]
        with started(
            "record", "--out", out, "--broker", broker.url, "--duration", "10m", "--from", "-1h"
        ) as process:
            try:
                asyncio.run(send(settings, samples))
                wait_until(lambda: partial.exists() and partial.stat().st_size > 0, lambda: str(partial))
                process.send_signal(signal.SIGINT)
                _, stderr = process.communicate(timeout=240)
            finally:
                process.kill()
    assert process.returncode == 0, stderr
    found = [one.payload for one in read_trace(str(out))]
    assert found, stderr
    assert set(found) <= {one.payload for one in GOOD}


async def test_a_child_that_was_just_being_started_is_ended_too(tmp_path: Path) -> None:
    child = Child("stream", {**os.environ, "DUTYCYCLE_BROKER": "kafka://127.0.0.1:9"}, tmp_path / "log")
    task = asyncio.create_task(child.run())
    await asyncio.sleep(0)
    assert await child.stop() is None, "there is no process yet"
    await asyncio.wait_for(task, 120)


async def test_the_end_does_not_wait_for_a_back_off(tmp_path: Path) -> None:
    child = Child("nonsense", dict(os.environ), tmp_path / "log")
    child.restarts = 5
    task = asyncio.create_task(child.run())
    await until(lambda: any("again in 30 s" in line for line in child.warnings))
    await child.stop()
    await asyncio.wait_for(task, 120)


def test_a_replay_refuses_what_a_worker_refuses() -> None:
    pipeline = LocalPipeline(stages(load({})), "other.")
    payload = orjson.dumps({**orjson.loads(GOOD[0].payload or b""), "x": "x" * 1_000_000})
    (out,) = pipeline.feed(ConsumerRecord("pods", 0, 3, GOOD[0].key, payload, START_MS))
    letter = orjson.loads(out.value or b"")
    assert (letter["reason"], letter["topic"], letter["offset"]) == ("size", "other.pods", 3)


def test_one_wrong_clock_does_not_end_the_settling_of_peaks() -> None:
    pipeline = LocalPipeline(stages(load({})))
    lines = list(records(Shape(nodes=1, gpus=1, seconds=150)))
    wrong = lines[-1]
    peaks = 0
    for one in [*lines[:3], wrong, *lines[3:]]:
        ts_ms = START_MS + 86_400_000 if one is wrong else one.ts_ms or 0
        name = one.topic.removeprefix("dutycycle.")
        outs = pipeline.feed(ConsumerRecord(name, 0, 0, one.key, one.payload, ts_ms))
        peaks += sum(out.topic == "pod-peaks" for out in outs)
    assert peaks >= 3


def test_a_replay_that_fails_leaves_what_is_there(tmp_path: Path) -> None:
    bad, keep = tmp_path / "x.csv", tmp_path / "keep.jsonl"
    bad.write_text("a,b\n1,2\n")
    keep.write_bytes(b"kept")
    status, said = ended("replay", bad, "--out", keep)
    assert (status, said.strip()) == (1, f"dutycycle: {keep} is there already: give another name, or --force")
    status, said = ended("replay", bad, "--out", keep, "--force")
    assert (status, keep.read_bytes()) == (1, b"kept"), said
    assert f"{bad}:1:" in said


DERIVED = TraceRecord(topic="dutycycle.trends", key="a", payload=b"{}")


@pytest.mark.parametrize("lines", [[], [DERIVED]], ids=["empty", "derived"])
@pytest.mark.parametrize("published", [False, True])
def test_a_trace_without_samples_is_no_success(
    lines: list[TraceRecord], published: bool, tmp_path: Path
) -> None:
    trace, out = write_trace(tmp_path / "empty.jsonl", lines), tmp_path / "out.jsonl"
    with EmbeddedBroker({f"dutycycle.{name}": 8 for name in SAMPLE_TOPICS}) as broker:
        status, said = ended("replay", trace, *(("--broker", broker.url) if published else ("--out", out)))
    expected = f"dutycycle: {trace}: no samples to replay: expected records of "
    assert (status, said.startswith(expected), out.exists()) == (1, True, False), said


@pytest.mark.parametrize("command", [("topics",), ("record", "--duration", "1s", "--out", "OUT")])
def test_a_broker_that_never_answers_is_not_waited_for_for_ever(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    arguments = [str(tmp_path / "out.jsonl") if one == "OUT" else one for one in command]
    url = "kafka://127.0.0.1:1"
    status, said = ended(*arguments, "--broker", url, "--timeout", "1s")
    expected = f"dutycycle: no broker answered within 1 s at DUTYCYCLE_BROKER={url}; --timeout waits longer"
    assert (status, said.splitlines()[-1]) == (1, expected)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("flags", "address"), [
    (["--web"], "127.0.0.1:8899"), (["--web", "--once"], "127.0.0.1:8899"), (["--web", ":0"], "127.0.0.1:0"),
    (["--web=0.0.0.0:80"], "0.0.0.0:80"), ([], None),
])  # fmt: skip
@pytest.mark.parametrize("name", ["up", "top"])
def test_the_page_has_an_address_of_its_own(name: str, flags: list[str], address: str | None) -> None:
    given = given_settings(build_parser({name}).parse_args([name, *flags]))
    assert load({}, given).web == address
