"""Goal: with --skip-bad the good lines of a trace are replayed as if the bad ones were not there."""

import subprocess
from pathlib import Path

import orjson
import pytest

from bench.cluster_trace import Shape, records
from dutycycle.cli.main import main
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.contract.trace import encode_line
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.processes.commands import run_to_end

GOOD = [encode_line(one) for one in records(Shape(nodes=1, gpus=1, seconds=90))]
BAD = [
    b"garbage\n",
    b'{"topic":"dutycycle.nvml-samples"}\n',
    b'{"topic":"others.logs","key":"a","payload":"{}"}\n',
    GOOD[7][: len(GOOD[7]) // 2] + b"\n",
]


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    path = tmp_path / "clean.jsonl"
    path.write_bytes(b"".join(GOOD))
    return path


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    path = tmp_path / "spoilt.jsonl"
    lines = GOOD[:3] + BAD[:1] + GOOD[3:60] + BAD[1:] + GOOD[60:]
    path.write_bytes(b"".join(lines))
    return path


def test_a_replay(clean: Path, spoilt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, expected = tmp_path / "out.jsonl", tmp_path / "expected.jsonl"
    assert main(["replay", str(clean), "--out", str(expected)]) == 0
    capsys.readouterr()
    assert main(["replay", str(spoilt), "--out", str(out)]) == 1, "the first bad line ends it"
    assert main(["replay", str(spoilt), "--out", str(out), "--force", "--skip-bad"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"dutycycle: {spoilt}:4: not JSON")
    named = [line.partition(f"left out: {spoilt}:")[2].partition(":")[0] for line in said[1:5]]
    assert (named, said[-1]) == (["4", "62", "63", "64"], "left out: 4 bad lines")
    assert out.read_bytes() == expected.read_bytes()


def test_a_trace_that_is_published(spoilt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker({f"dutycycle.{name}": 8 for name in SAMPLE_TOPICS}) as broker:
        assert main(["replay", str(spoilt), "--broker", broker.url, "--skip-bad"]) == 0
    *_, published, left_out = capsys.readouterr().err.splitlines()
    assert left_out == "left out: 4 bad lines"
    counts = [int(part.split()[0]) for part in published.removeprefix("published: ").split(", ")]
    assert sum(counts) == len(GOOD)


@pytest.mark.slow  # several replays, each a process of its own
def test_an_experiment(spoilt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["replay", str(spoilt), "--out", f"{tmp_path}/sweep/", "--jobs", "1"]
    assert main(command) == 1
    assert f"{spoilt}:4: not JSON" in capsys.readouterr().err
    assert main([*command, "--skip-bad"]) == 0
    (run,) = (orjson.loads(one.read_bytes()) for one in tmp_path.glob("sweep/runs/*/run.json"))
    assert run["noticed"]["bad_lines"] == 4


def test_a_cut_off_file_is_read_as_far_as_it_goes(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, cut = tmp_path / "whole.jsonl.gz", tmp_path / "cut.jsonl.gz"
    subprocess.run(["gzip", "-c", str(clean)], stdout=whole.open("wb"), check=True)
    data = whole.read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    assert main(["replay", str(cut), str(clean), "--skip-bad"]) == 0, "the next file is read all the same"
    said = capsys.readouterr().err
    assert "the compressed stream is damaged or cut off" in said
    assert said.endswith("left out: 1 bad line\n")


def test_nothing_good_is_no_success(tmp_path: Path) -> None:
    trace = tmp_path / "bad.jsonl"
    trace.write_bytes(BAD[0])
    done = run_to_end("replay", trace, "--skip-bad")
    assert (done.returncode, "no samples to replay" in done.stderr) == (1, True)
