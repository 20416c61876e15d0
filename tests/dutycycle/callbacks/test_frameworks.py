"""Goal: the real frameworks train with the callbacks, and each step is told once.

``tests/support/frameworks.py`` says which ones.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.attribution.cgroup_path import CgroupId, CgroupKind
from collectors.attribution.processes import Attribution
from collectors.process.socket import StepSocket
from dutycycle.telemetry.events import Telemetry
from tests.support.frameworks import PYTORCH, python_with

ROOT = Path(__file__).resolve().parents[3]
LIGHTNING = """
import lightning.pytorch as pl, torch
from torch.utils.data import DataLoader, TensorDataset
from dutycycle.callbacks.lightning import StepTimes

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
    validation_step = training_step
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

data = DataLoader(TensorDataset(torch.randn(80, 4), torch.randn(80, 1)), batch_size=8)
trainer = pl.Trainer(
    max_epochs=2, callbacks=[StepTimes()], accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, precision="bf16-mixed",
)
trainer.fit(Net(), data, data)
"""
HUGGING_FACE = """
import sys, torch, transformers
from dutycycle.callbacks.huggingface import StepTimes

config = transformers.BertConfig(
    vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
)
model = transformers.BertForSequenceClassification(config)
data = [{"input_ids": torch.randint(0, 50, (6,)), "labels": torch.tensor(1)} for _ in range(80)]
arguments = transformers.TrainingArguments(
    sys.argv[1], num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=2,
    use_cpu=True, report_to=[], save_strategy="no", eval_strategy="epoch", disable_tqdm=True,
)
transformers.Trainer(
    model, arguments, train_dataset=data, eval_dataset=data[:8], callbacks=[StepTimes()]
).train()
"""
KERAS = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy
from dutycycle.callbacks.keras import StepTimes

model = keras.Sequential([keras.layers.Dense(1)], name="net")
model.compile("sgd", "mse")
x, y = numpy.zeros((80, 4), "float32"), numpy.zeros((80, 1), "float32")
model.fit(x, y, batch_size=8, epochs=2, verbose=0, validation_split=0, validation_data=(x, y),
          callbacks=[StepTimes(batch_size=8)])
"""
CASES = {
    # What is trained, the packages, and of all steps: how many, samples, model, parameters, dtype, batch.
    "pytorch": (PYTORCH, (), (20, 160, "Net", 5, "float32", 8)),
    "lightning": (LIGHTNING, ("lightning",), (20, 160, "Net", 5, "bf16-mixed", 8)),
    "huggingface": (
        HUGGING_FACE, ("transformers", "accelerate"),
        (20, 160, "BertForSequenceClassification", None, "float32", 8),
    ),
    "keras": (KERAS, ("keras",), (20, 160, "Sequential", 5, "float32", 8)),
}  # fmt: skip


class AllOfOnePod(Attribution):
    """Every process is of one pod."""

    def __init__(self) -> None:
        """It knows nothing."""

    def of_pid(self, pid: int) -> CgroupId | None:
        return CgroupId(kind=CgroupKind.POD, path="/", name="c", pod_uid="pod", container_id="c")


def train(script: str, socket: Path, *arguments: str | Path, python: str) -> None:
    """Run it to its end."""
    done = subprocess.run(
        [python, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DUTYCYCLE_SOCKET": str(socket)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("loop", CASES)
def test_a_small_model_is_trained(loop: str, tmp_path: Path) -> None:
    script, packages, expected = CASES[loop]
    socket = StepSocket(tmp_path / "s", Telemetry("test"), AllOfOnePod())
    train(script, tmp_path / "s", tmp_path, python=python_with(*packages))
    (told,) = socket.take()
    socket.close()
    found = told.loop
    assert found is not None
    model, parameters = found.model, found.parameters if expected[3] is not None else None
    assert (found.steps, found.samples, model, parameters, found.dtype, found.batch_size) == expected
    assert (found.loop, found.unsent) == (loop, None)
    assert found.parameters
    assert found.longest_s is not None
    assert found.seconds / found.steps <= found.longest_s <= found.seconds


def test_a_training_goes_on_where_nobody_listens(tmp_path: Path) -> None:
    script = "from dutycycle.callbacks.pytorch import steps\nfor _ in steps(range(9)): pass"
    train(script, tmp_path / "nobody", python=sys.executable)
