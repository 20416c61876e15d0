"""``dutycycle health`` on machines with GPUs in order, with a broken one, and with none at all."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario
from tests.support.processes.commands import run_to_end

GOOD = FakeGpu(uuid="GPU-a")
CASES: dict[str, tuple[FakeGpu, int, str, str]] = {
    "in order": (FakeGpu(uuid="GPU-b"), 0, "healthy", "-"),
    "a row waits": (
        FakeGpu(uuid="GPU-b", fields={144: 1}), 0, "watch",
        "row remapping waits for a reset (reset the GPU when convenient)",
    ),
    "no row left": (
        FakeGpu(uuid="GPU-b", fields={145: 1}), 1, "replace",
        "row remapping failed (replace the GPU: NVIDIA takes it back)",
    ),
    "the driver wants a restart": (
        FakeGpu(uuid="GPU-b", fields={230: 2}), 1, "reset",
        "the driver asks for recovery action 2 (restart the machine)",
    ),
    "lost": (
        FakeGpu(uuid="GPU-b", errors={"nvmlDeviceGetTemperatureV": "GPU_IS_LOST"}), 1, "reset",
        "Xid 79: GPU has fallen off the bus (restart the machine; check power, seating and cooling)",
    ),
    "a driver that says nothing of it": (
        FakeGpu(uuid="GPU-b", errors={"field:230": "NOT_SUPPORTED"}), 0, "healthy", "-",
    ),
    "links that may never have been up": (
        FakeGpu(uuid="GPU-b", fields={"165 scope=3": 0, "165 scope=4": 0}), 0, "healthy",
        "16 active, 2 inactive  -",
    ),
}  # fmt: skip


def health(*arguments: str, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return run_to_end("health", *arguments, env=env)


def asked(tmp_path: Path, *gpus: FakeGpu, form: str = "json") -> "subprocess.CompletedProcess[str]":
    world = Scenario(gpus=gpus).write(tmp_path / "world")
    return health("--format", form, env=os.environ | driver(world))


@pytest.mark.parametrize(("gpu", "status", "level", "why"), CASES.values(), ids=CASES)
def test_each_gpu_has_its_verdict(tmp_path: Path, gpu: FakeGpu, status: int, level: str, why: str) -> None:
    table = asked(tmp_path, GOOD, gpu, form="table")
    lines = [line.split(None, 2) for line in table.stdout.splitlines()]
    assert (table.returncode, lines[1][:2], lines[2][:2]) == (status, ["0", "healthy"], ["1", level])
    assert lines[2][2].rstrip().endswith(why), table.stdout
    assert "18 active" in lines[1][2]
    assert ("no fault if it was never up" in table.stdout) == ("inactive  " in why)
    plain = asked(tmp_path, GOOD, gpu)
    assert plain.returncode == status
    assert [one["level"] for one in json.loads(plain.stdout)] == ["healthy", level]


def test_a_machine_without_a_gpu_says_why(tmp_path: Path) -> None:
    done = health(env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert "no GPU can be read here: libnvidia-ml.so.1 cannot be loaded" in done.stderr
