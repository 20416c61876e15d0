"""Real libraries under the names of PyTorch's, and beside them what the real ones have."""

import _struct
import shutil
from pathlib import Path

CUDA = ("nvidia/cu12/lib/libcudart.so.12", "nvidia/nccl/lib/libnccl.so.2")
INFOS = ("torch-2.4.0", "nvidia_cuda_runtime_cu12-12.4.127", "nvidia_nccl_cu12-2.20.5")


def torch_site(folder: Path) -> Path:
    """A folder of packages with PyTorch, its CUDA and its NCCL. Any of the libraries can be loaded."""
    site = folder / "lib/python3.11/site-packages"
    for name in ("torch/lib/libtorch_cpu.so", *CUDA):
        (site / name).parent.mkdir(parents=True)
        shutil.copy(str(_struct.__file__), site / name)
    for name in INFOS:
        (site / f"{name}.dist-info").mkdir()
    return site
