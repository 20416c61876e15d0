"""A Python with PyTorch, and maybe Lightning, transformers and Keras: they are too large for the lock files.

``DUTYCYCLE_TEST_TORCH`` names it; the default is Debian's, which has the PyTorch of ``python3-torch``.
"""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.support.servers.missing import ServerMissingError

PYTORCH = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from dutycycle.callbacks.pytorch import steps

class Net(torch.nn.Linear):
    pass

data = TensorDataset(torch.randn(80, 4), torch.randn(80, 1))
net = Net(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
if __name__ == "__main__":
    for epoch in range(2):
        for x, y in steps(DataLoader(data, batch_size=8, num_workers=2), model=net):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
"""
"""Trains in two epochs of ten steps, of eight samples each."""
PYTHON = os.environ.get("DUTYCYCLE_TEST_TORCH", "/usr/bin/python3")


def python_with(*packages: str) -> str:
    """That Python. Raises ``ServerMissingError`` without PyTorch; skips without another package."""
    if _lacks("torch"):
        raise ServerMissingError(
            f"PyTorch is not in {PYTHON} (Debian: apt-get install python3-torch); "
            "or DUTYCYCLE_TEST_TORCH names a Python that has it"
        )
    if any(_lacks(one) for one in packages):
        pytest.skip(
            f"{PYTHON} has not all of Lightning, transformers with accelerate, and Keras: "
            "DUTYCYCLE_TEST_TORCH names a Python that has them"
        )
    return PYTHON


@cache
def _lacks(package: str) -> bool:
    """It is not imported: that takes seconds."""
    script = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return not Path(PYTHON).exists() or subprocess.run([PYTHON, "-c", script], check=False).returncode != 0
