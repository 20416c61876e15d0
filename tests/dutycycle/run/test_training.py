"""A training that reports, run as a user types it: steps on the screen, in the trace and on the page."""

import os
import re
import sys
from pathlib import Path

import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.records.processes import ProcessSample
from tests.support.data.torch_site import torch_site
from tests.support.data.traces import read_trace
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.one_used import one_used
from tests.support.frameworks import PYTORCH, python_with
from tests.support.processes.commands import environ, run_to_end

STEPS = 25
_ROOT = Path(__file__).resolve().parents[3]
_TRAINS = """
import ctypes, os, sys, time
from pathlib import Path
from dutycycle.callbacks.pytorch import steps
from tests.support.fakes.nvml.one_used import one_used

for path in sys.argv[1:]:
    ctypes.CDLL(path)
one_used(os.getpid()).write(Path(os.environ["FAKE_NVML_SCENARIO"]))

class Net:
    pass

for batch in steps(range(25), model=Net(), batch_size=4):
    time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run of five seconds, and what was said."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "train.py").write_text(_TRAINS)
    libraries = sorted(torch_site(folder).rglob("*.so*"))
    seen = environ() | driver(one_used(None).write(folder / "world"))
    seen |= {"RANK": "0", "WORLD_SIZE": "1", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    seen["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = run_to_end(
        "run", "--interval", "250ms", "--out", folder / "out", "--",
        sys.executable, folder / "train.py", *libraries, env=seen,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stderr


def test_the_screen_has_the_steps_and_the_software(ran: tuple[Path, str]) -> None:
    _, said = ran
    steps = re.search(r"Steps +25, ([\d.]+) a minute, as the training reports", said)
    assert steps is not None, said
    assert 20 < float(steps[1]) <= 300
    step_s = re.search(r"Time of a step +([\d.]+) s in the median", said)
    assert step_s is not None
    assert 0.2 <= float(step_s[1]) < 3
    assert re.search(r"Samples +[\d.]+ a second", said)
    assert re.search(r"Model +Net, batches of 4", said)
    assert re.search(r"Software +torch 2\.4\.0, CUDA 12\.4\.127, NCCL 2\.20\.5, Python 3\.\d+", said), said
    assert re.search(r"Started by +rank 0 of 1", said)


def test_the_page_has_them(ran: tuple[Path, str]) -> None:
    page = (ran[0] / "report.html").read_text()
    assert "Training loops, from inside" in page
    assert "torch 2.4.0" in page
    assert '"steps"' in page


def test_the_records_have_each_step_once_and_no_secret(ran: tuple[Path, str]) -> None:
    payloads = [
        one.payload or b""
        for one in read_trace(str(ran[0] / "trace.jsonl.zst"))
        if one.topic.endswith("processes")
    ]
    found = [one for data in payloads for one in decode(ProcessSample, data, "processes").processes]
    assert sum(one.loop.steps for one in found if one.loop) == STEPS
    assert len({(one.pid, one.pod_uid) for one in found}) == 1
    assert not any(b"hunter2" in data for data in payloads)


def test_nothing_is_left_of_the_socket(ran: tuple[Path, str], tmp_path: Path) -> None:
    done = run_to_end(
        "run", "--out", tmp_path / "out", "--", sys.executable, "-c",
        "import os; print(os.environ['DUTYCYCLE_SOCKET'])",
    )  # fmt: skip
    path = Path(done.stdout.strip())
    assert path.name == "steps.sock"
    assert not path.parent.exists()


def test_a_training_by_real_pytorch(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PYTORCH)
    done = run_to_end(
        "run", "--interval", "200ms", "--out", tmp_path / "out", "--", python_with(), tmp_path / "train.py",
        env=environ() | {"PYTHONPATH": str(_ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"Steps +20, ", done.stderr), done.stderr
    assert re.search(r"Model +Net, 5 parameters, float32, batches of 8", done.stderr)
    assert re.search(r"Software +torch \d+\.\d+\.?\S*, .*Python 3", done.stderr)
