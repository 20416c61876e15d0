"""Goal: steps arrive, each once; and a training never waits, never fails and needs nothing installed."""

import copy
import gc
import importlib
import json
import math
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dutycycle.callbacks.pytorch import steps
from dutycycle.callbacks.reporter import EVERY_S, SCALE_EVERY_S, SOCKET, StepReporter, samples_in
from dutycycle.contract.codec import decode
from dutycycle.contract.records.processes import StepReport
from tests.support.waiting import Clock

ROOT = Path(__file__).resolve().parents[3]


class Listener:
    """A collector's socket, without a collector."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(str(path))

    def heard(self) -> list[StepReport]:
        found = []
        while True:
            try:
                found.append(decode(StepReport, self.socket.recv(65536), "steps"))
            except BlockingIOError:
                return found


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    found = Listener(tmp_path / "s")
    yield found
    found.socket.close()


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


def steps_of(reporter: StepReporter, clock: Clock, *seconds: float, **facts: Any) -> None:
    for one in seconds:
        clock.now_s += one
        reporter.step(**facts)


def test_steps_are_summed_up_and_sent_at_most_twice_a_second(listener: Listener, clock: Clock) -> None:
    reporter = StepReporter("pytorch", str(listener.path), clock)
    reporter.describe(model=None, dtype="bfloat16", batch_size=8)
    steps_of(reporter, clock, 0.5, *[0.125] * 8, samples=8, number=7)
    first, *rest = listener.heard()
    assert (first.loop, first.steps, first.seconds, first.samples) == ("pytorch", 1, 0.5, 8)
    assert (first.dtype, first.batch_size, first.step, first.unsent) == ("bfloat16", 8, 7, None)
    assert [(one.steps, one.seconds) for one in rest] == [(4, 0.5), (4, 0.5)]
    steps_of(reporter, clock, 0.25, 0.125)
    assert listener.heard() == []
    reporter.close()
    assert [(one.steps, one.longest_s) for one in listener.heard()] == [(2, 0.25)]


def test_while_nobody_listens_steps_are_kept(tmp_path: Path, clock: Clock) -> None:
    reporter = StepReporter("pytorch", str(tmp_path / "s"), clock)
    steps_of(reporter, clock, *[1.0] * 50)
    assert reporter.unsent == 50
    listener = Listener(tmp_path / "s")
    steps_of(reporter, clock, 1.0)
    assert [(one.steps, one.seconds, one.unsent) for one in listener.heard()] == [(51, 51.0, 50)]
    listener.socket.close()  # killed: its socket stays there
    steps_of(reporter, clock, 1.0)
    (tmp_path / "s").unlink()
    again = Listener(tmp_path / "s")
    steps_of(reporter, clock, 1.0)
    assert [one.steps for one in again.heard()] == [2]
    again.socket.close()


def test_a_collector_that_does_not_read_holds_nobody_up(listener: Listener, clock: Clock) -> None:
    reporter = StepReporter("pytorch", str(listener.path), clock)
    begun = time.monotonic()
    steps_of(reporter, clock, *[1.0] * 20_000)
    assert time.monotonic() - begun < 30
    assert reporter.unsent > 10_000
    heard = listener.heard()
    steps_of(reporter, clock, 1.0)
    assert sum(one.steps for one in [*heard, *listener.heard()]) == 20_001


def test_a_path_that_cannot_be(clock: Clock) -> None:
    for path in ("/" + "x" * 300, "/dev/null", "/proc/self/nothing", "/"):
        reporter = StepReporter("pytorch", path, clock)
        steps_of(reporter, clock, 1.0)
        reporter.close()
        assert reporter.unsent == 2, path


def test_a_forked_child_does_not_tell_its_parents_steps_again(listener: Listener, clock: Clock) -> None:
    reporter = StepReporter("pytorch", str(listener.path), clock)
    steps_of(reporter, clock, 1.0, 0.1)
    child = os.fork()
    if child == 0:
        reporter.close()
        os._exit(0)
    os.waitpid(child, 0)
    reporter.close()
    assert [one.steps for one in listener.heard()] == [1, 1]


def test_a_reporter_that_was_made_before_the_fork_tells_of_the_child_that_trains(
    listener: Listener, clock: Clock
) -> None:
    """As launchers do it that fork: of a notebook, or of Lightning's ``ddp_fork``."""
    reporter = StepReporter("lightning", str(listener.path), clock)
    steps_of(reporter, clock, 1.0, 0.1)
    child = os.fork()
    if child == 0:
        reporter.begin()
        steps_of(reporter, clock, 0.1, 0.1)
        reporter.close()
        os._exit(0)
    os.waitpid(child, 0)
    reporter.close()
    assert [one.steps for one in listener.heard()] == [1, 2, 1]


@pytest.mark.parametrize("steps_before", [0, 1])
def test_a_reporter_is_carried_to_the_process_that_trains(
    listener: Listener, clock: Clock, steps_before: int
) -> None:
    """As launchers do it that spawn, and Ray."""
    made = StepReporter("huggingface", str(listener.path), clock)
    steps_of(made, clock, *[1.0] * steps_before)
    listener.heard()
    script = "import pickle, sys; r = pickle.load(sys.stdin.buffer); r.begin(); r.step(); r.close()"
    subprocess.run([sys.executable, "-c", script], input=pickle.dumps(made), check=True, cwd=ROOT)
    assert [(one.loop, one.steps) for one in listener.heard()] == [("huggingface", 1)]


def test_a_batch_size_may_be_a_number_of_numpy(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET, str(listener.path))
    assert list(steps("ab", batch_size=np.int64(32))) == ["a", "b"]  # type: ignore[arg-type]
    assert {one.batch_size for one in listener.heard()} == {32}


class Broken:
    """A model, a scaler and a batch of which everything raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_a_model_a_scaler_and_a_batch_that_raise(
    listener: Listener, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "dutycycle.callbacks")
    reporter = StepReporter("pytorch", str(listener.path), clock)
    reporter.describe(Broken())
    steps_of(reporter, clock, 1.0, scaler=Broken(), samples=samples_in(Broken()))
    assert [one.steps for one in listener.heard()] == [1]
    reasons = (
        "of the model only this is known",
        "the size of a batch is not known",
        "the loss scale is not known",
    )
    assert [any(reason in line for line in caplog.messages) for reason in reasons] == [True] * 3


def test_the_loss_scale_is_read_seldom_and_never_sent_as_infinite(listener: Listener, clock: Clock) -> None:
    read = []

    def scale() -> float:
        read.append(clock.now_s)
        return 65536.0 if len(read) == 1 else math.inf

    reporter = StepReporter("pytorch", str(listener.path), clock)
    steps_of(reporter, clock, *[EVERY_S] * int(SCALE_EVERY_S / EVERY_S + 1), scaler=scale)
    assert len(read) == 2
    assert {one.loss_scale for one in listener.heard()} == {65536.0}


def test_names_are_cut_and_printable(listener: Listener, clock: Clock) -> None:
    reporter = StepReporter("pytorch", str(listener.path), clock)
    reporter.describe(type("N" * 300, (), {})(), dtype="\x1b[2J")
    steps_of(reporter, clock, 1.0)
    assert [(one.model, one.dtype) for one in listener.heard()] == [("N" * 200, "?[2J")]


class Tensor:
    def __init__(self, *shape: int) -> None:
        self.shape = shape


BATCHES: list[tuple[object, int | None]] = [
    (Tensor(32, 3, 8), 32),
    ([Tensor(16, 2), Tensor(16)], 16),
    ({"input_ids": Tensor(4, 128), "labels": Tensor(4)}, 4),
    (([Tensor(5)], Tensor(9)), 5),
    ([Tensor(3, 480, 640), Tensor(3, 480, 640)], None),
    ([Tensor(3, 480, 640), Tensor(3, 333, 500)], None),
    ([Tensor(1, 28, 28)], None),
    (((Tensor(3, 480, 640), Tensor(3, 333, 500)), ({"boxes": Tensor(2, 4)}, {"boxes": Tensor(1, 4)})), None),
    ({"images": [Tensor(3, 480, 640)] * 2}, None),
    ([{"image": Tensor(3, 480, 640)}] * 2, None),
    ([Tensor(120), Tensor(97)], None),
    ((Tensor(4, 96, 7), Tensor(4, 96, 7)), 4),
    ([Tensor(32, 96, 7), Tensor(32, 96, 7)], 32),
    ([Tensor(8, 3, 64, 64), Tensor(8, 1, 64, 64)], 8),
    ([Tensor(4, 128), Tensor(4, 128), Tensor(4, 128)], 4),
    (((Tensor(16, 8), Tensor(16, 8)), Tensor(16)), 16),
    ((Tensor(16, 80, 200), Tensor(341), Tensor(16), Tensor(16)), 16),
    (Tensor(), None), ([], None), ({}, None), (7, None), (None, None), ("text", None),
]  # fmt: skip


@pytest.mark.parametrize(("batch", "size"), BATCHES)
def test_the_size_of_a_batch(batch: object, size: int | None) -> None:
    assert samples_in(batch) == size


def test_the_loop_gives_the_same_batches_and_tells_the_rest_at_its_end(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUTYCYCLE_SOCKET", str(listener.path))
    batches = [Tensor(2), Tensor(2), Tensor(1)]
    assert list(steps(batches)) == batches
    heard = listener.heard()
    assert (sum(one.steps for one in heard), sum(one.samples or 0 for one in heard)) == (3, 5)


def test_a_loop_that_is_left_early_tells_its_steps(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUTYCYCLE_SOCKET", str(listener.path))
    for number, _ in enumerate(steps(range(100), batch_size=4)):
        if number == 10:
            break
    gc.collect()
    assert sum(one.steps for one in listener.heard()) == 10  # the one that was left did not end


ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import dutycycle.callbacks.pytorch
names = {name.partition(".")[0] for name in sys.modules}
print(*sorted(names - set(sys.stdlib_module_names) - {"__main__"}))
"""


def test_it_needs_the_standard_library_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ALONE, ROOT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["dutycycle"]


def test_what_is_sent_is_small_enough_for_the_collector(listener: Listener, clock: Clock) -> None:
    reporter = StepReporter("lightning", str(listener.path), clock)
    reporter.describe(model="ü" * 300, dtype="ü" * 300, parameters=2**62, batch_size=2**62, loss_scale=1e300)
    clock.now_s += 1 / 3
    reporter.step(samples=2**62, number=2**62)
    data = listener.socket.recv(65536)
    assert len(data) < 4096
    assert json.loads(data)["steps"] == 1


def test_a_step_of_hugging_face_has_the_samples_of_all_gpus_of_its_process(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the Trainer's DataParallel has them: it is what several GPUs without a launcher get."""
    transformers = ModuleType("transformers")
    transformers.TrainerCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setenv(SOCKET, str(listener.path))
    callback: Any = importlib.import_module("dutycycle.callbacks.huggingface").StepTimes()
    monkeypatch.delitem(sys.modules, "dutycycle.callbacks.huggingface")
    arguments = SimpleNamespace(
        per_device_train_batch_size=4, train_batch_size=32, gradient_accumulation_steps=2
    )
    callback.on_train_begin(arguments, None, None)
    callback.on_step_end(arguments, SimpleNamespace(global_step=1), None)
    (report,) = listener.heard()
    assert (report.samples, report.batch_size) == (64, 64)
    smaller = SimpleNamespace(global_step=1, train_batch_size=8)  # after ``auto_find_batch_size``
    again: Any = type(callback)()
    again.on_train_begin(arguments, smaller, None)
    again.on_step_end(arguments, smaller, None)
    (report,) = listener.heard()
    assert (report.samples, report.batch_size) == (16, 16)


def test_a_callback_of_keras_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """As scikit-learn's ``clone`` does it with the callbacks of a wrapped model."""
    callbacks = ModuleType("keras.callbacks")
    callbacks.Callback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keras", ModuleType("keras"))
    monkeypatch.setitem(sys.modules, "keras.callbacks", callbacks)
    made: Any = importlib.import_module("dutycycle.callbacks.keras").StepTimes(batch_size=8)
    monkeypatch.delitem(sys.modules, "dutycycle.callbacks.keras")
    assert copy.deepcopy(made)._batch_size == 8
