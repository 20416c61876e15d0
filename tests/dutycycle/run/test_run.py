"""``dutycycle run`` as a user types it, with the fake driver and real processes."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.data.traces import read_trace
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.one_used import one_used
from tests.support.processes.commands import environ, run_to_end

GIB = 1024**3
_TRAINS = """
import os, sys, time
from pathlib import Path
from tests.support.fakes.nvml.one_used import one_used
one_used(os.getpid()).write(Path(os.environ["FAKE_NVML_SCENARIO"]))
held = bytearray(os.urandom(1)) * (300 << 20)
end = time.monotonic() + 6
used = time.process_time() + 1.5
while time.monotonic() < end or time.process_time() < used:
    if time.process_time() > used:
        time.sleep(0.05)
print("trained")
sys.exit(3)
"""


def records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in read_trace(str(folder / "trace.jsonl.zst")):
        found.setdefault(one.topic.removeprefix("dutycycle."), []).append(orjson.loads(one.payload or b""))
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A command of six seconds that uses one of two GPUs."""
    folder = tmp_path_factory.mktemp("run")
    file = one_used(None).write(folder / "world")
    out = folder / "out"
    done = run_to_end(
        "run", "--interval", "250ms", "--price-gpu-hour", "3", "--out", out, "--",
        sys.executable, "-c", _TRAINS, env=environ() | driver(file),
    )  # fmt: skip
    return out, done


Trained = tuple[Path, subprocess.CompletedProcess[str]]


def test_status_and_output_are_the_commands_and_ours_is_on_stderr(trained: Trained) -> None:
    _, done = trained
    assert done.returncode == 3, done.stderr
    assert done.stdout == "trained\n"
    assert "Traceback" not in done.stderr


def test_the_trace_has_the_command_as_a_pod_on_its_gpu_alone(trained: Trained) -> None:
    found = records(trained[0])
    first, last = found["pods"][0], found["pods"][-1]
    assert (first["namespace"], first["phase"], last["phase"]) == ("run", "Running", "Failed")
    users = {
        (gpu["uuid"], process.get("pod_uid"))
        for sample in found["nvml-samples"] for gpu in sample["gpus"] for process in gpu.get("processes", ())
    }  # fmt: skip
    assert ("GPU-1", first["uid"]) in users
    assert {uuid for uuid, uid in users if uid is not None} == {"GPU-1"}


def test_the_maxima_are_those_of_the_driver_and_the_kernel(trained: Trained) -> None:
    said = trained[1].stderr
    assert re.search(r"GPUs +1 × NVIDIA H200", said), said
    assert re.search(r"GPU utilization +mean [\d.]+ %, max 88 %", said), said
    assert re.search(r"GPU memory, max of one +3\.0 GiB of 141\.0 GiB", said), said
    memory = re.search(r"Host memory, max +(\d+) MiB", said)
    assert memory is not None
    assert 300 <= int(memory[1]) < 420
    cpu = re.search(r"CPU time +([\d.]+) s", said)
    assert cpu is not None
    assert 1.5 <= float(cpu[1]) < 5
    assert re.search(r"Cost +0\.0\d", said), said


def test_cpu_time_adds_up_to_what_the_kernel_says(trained: Trained) -> None:
    samples = [one for one in records(trained[0])["cgroup-samples"] if one["pods"]]
    used = sum(
        pod["containers"][0].get("cpu_util_pct", 0) / 100 * (after["ts_ms"] - before["ts_ms"]) / 1000
        for before, after in pairwise(samples) for pod in after["pods"]
    )  # fmt: skip
    cpu = re.search(r"CPU time +([\d.]+) s", trained[1].stderr)
    assert cpu is not None
    began = 0.8  # what the interpreter used before the first tick, and ticks of a loaded machine
    assert used == pytest.approx(float(cpu[1]), abs=began)


def test_overhead_and_paths_are_said_and_the_report_is_there(trained: Trained) -> None:
    out, done = trained
    assert re.search(r"Measuring took +[\d.]+ s of CPU time, [\d.]+ % of one core", done.stderr)
    assert f"{out}/report.html" in done.stderr
    assert f"{out}/trace.jsonl.zst" in done.stderr
    text = (out / "report.html").read_text()
    assert 'data-chart="gpu-util"' in text
    assert (out / "report.files" / "gpu-util.png").exists()
    again = run_to_end("report", out / "trace.jsonl.zst", "--out", out / "again.html")
    assert again.returncode == 0, again.stderr


def test_without_a_gpu_it_works_and_says_so_once(tmp_path: Path) -> None:
    done = run_to_end("run", "--out", tmp_path / "out", "--", "sh", "-c", "sleep 1.2\nexit 5")
    assert done.returncode == 5
    assert done.stderr.startswith("dutycycle: sh -c 'sleep 1.2 exit 5'")
    assert done.stderr.count("libnvidia-ml.so.1 cannot be loaded") == 1
    assert "GPU utilization" not in done.stderr
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--"], 2, "give a command"),
        (["--out", "{folder}/full", "--", "true"], 1, "is not empty; give another folder"),
        (["--out", "{folder}/new", "--", "no-such-command"], 127, "no-such-command: command not found"),
        (["--interval", "1ms", "--", "true"], 2, "--interval='1ms': expected a duration"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(
    tmp_path: Path, arguments: list[str], status: int, message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    done = run_to_end("run", *(one.format(folder=tmp_path) for one in arguments))
    assert done.returncode == status
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_words_of_the_command_are_never_ours(tmp_path: Path) -> None:
    """``up`` is a service of ours, and ``--from -10m`` a flag: not here."""
    done = run_to_end("run", "--out", tmp_path / "out", "--", "echo", "up", "--from", "-10m", "-v", "--", "x")
    assert (done.returncode, done.stdout) == (0, "up --from -10m -v -- x\n")
