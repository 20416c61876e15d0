"""Goal: who follows docs/prometheus.md, or the first use in the README, gets what is written there."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.data.prometheus_history import HOUR_S, history
from tests.support.processes import warm
from tests.support.processes.examples import environ_of
from tests.support.servers.prometheus import Prometheus, scrape

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/prometheus.md").read_text(encoding="utf-8"), re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]
SECTION = re.search(
    r"^## Find the idle GPUs.*?(?=^## )", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)
FIRST_USE = re.findall(r"^\$ \.venv/bin/(.+)$", SECTION[0] if SECTION else "", re.MULTILINE)
HISTORY_H = 1.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with an hour until now and, as that does not grow, a bit of the future."""
    start_s = int(time.time() - (HISTORY_H - 0.25) * HOUR_S)
    server = Prometheus(
        tmp_path_factory.mktemp("prometheus"), scrape([]), history=history(start_s, HISTORY_H)
    )
    yield server.url
    server.stop()


def run(command: str, folder: Path, url: str) -> str:
    """Run a command and return what it prints, however long a busy machine takes: the test has a limit."""
    line = command.replace("http://prometheus:9090", url).replace(
        "--interval 15s --duration 1m",
        "--duration 30s",  # two scrapes: from one a sample may come too late
    )
    (folder / "bin").mkdir(exist_ok=True)
    warm.install(folder / "bin")
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environ_of(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_how_to(url: str, tmp_path: Path) -> None:
    assert [one.split()[1] for one in COMMANDS[1:]] == [
        "record", "replay", "usage", "peaks", "report", "replay", "report", "up",
    ]  # fmt: skip
    said = [run(command, tmp_path, url) for command in COMMANDS]
    assert '"result":[' in said[0]
    assert re.search(r"^team +bert-0 +0\.\d\d ", said[3], re.MULTILINE)
    assert re.search(r"^team +bert-0 +gpu-a +bert ", said[4], re.MULTILINE)
    assert (tmp_path / "week/topic=window-aggregates").is_dir()


def test_the_first_use_of_the_readme(url: str, tmp_path: Path) -> None:
    assert [one.split()[1] for one in FIRST_USE[:2]] == ["record", "replay"]
    *_, last = [run(command, tmp_path, url) for command in FIRST_USE]
    assert "team" in last
