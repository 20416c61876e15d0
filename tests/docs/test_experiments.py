"""The commands of docs/experiments.md, run as they stand there."""

import re
import subprocess
from pathlib import Path

import orjson
import pytest

from tests.support.data.traces import read_trace
from tests.support.processes import warm

PAGE = (Path(__file__).parents[2] / "docs/experiments.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
FILES = re.findall(r"^`([\w.-]+)`:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("experiment")
    for name, text in FILES:
        (found / name).write_text(text, encoding="utf-8")
    return found


def run(command: str, folder: Path) -> str:
    """Run a command and return what it prints, however long a busy machine takes: the test has a limit."""
    shell = f'dutycycle() {{ {" ".join(warm.command())} "$@"; }}; set -e; {command}'
    done = subprocess.run(["sh", "-c", shell], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def test_a_researcher_needs_under_ten_commands() -> None:
    assert 3 < len(COMMANDS) < 10
    names = [command.split()[1] for command in COMMANDS]
    assert names == ["demo", "import", *["replay"] * 4, "plot", "replay", "replay"]
    assert [name for name, _ in FILES] == ["gpu-a.csv", "truth.jsonl", "mymodels.py"]


def test_each_command_does_what_the_page_says(folder: Path) -> None:
    said = {command: run(command, folder) for command in COMMANDS}
    ticks = [orjson.loads(record.payload or b"") for record in read_trace(str(folder / "log.jsonl.zst"))]
    assert [len(tick["gpus"]) for tick in ticks] == [2, 2]
    assert ticks[0]["ts_ms"] == 1795165200415  # ten in Berlin is nine in UTC
    (sweep,) = (out for command, out in said.items() if "--grid" in command)
    lines = sweep.splitlines()
    assert len(lines) == 1 + 4
    assert lines[0].split()[:4] == ["cycles.confidence", "cycles.misses", "cycle_f1", "cycles_right"]
    assert all(line.split()[2:4] == ["1", "3/3"] and line.endswith("equal") for line in lines[1:])
    (compared,) = (out for command, out in said.items() if "forest" in command)
    _, table = compared.split("\n\n")
    head, *rows = (line.split() for line in table.splitlines())
    assert [row[1] for row in rows] == ["forest", "hw", "lin", "trends"]
    errors = {row[1]: float(row[head.index("error_30s")]) for row in rows}
    # Not below 1, that of persistence: five minutes hold a handful of published forecasts.
    assert errors["trends"] < min(errors["hw"], errors["lin"], errors["forest"])
    assert "model_failed" in compared  # Holt-Winters divides by zero on idle GPUs, and begins anew
    assert (folder / "models/forecasts.png").read_bytes()[:4] == b"\x89PNG"
    assert (folder / "said.png").read_bytes()[:4] == b"\x89PNG"
    topics = {record.topic for record in read_trace(str(folder / "own.jsonl"))}
    assert "dutycycle.model-scores" in topics
