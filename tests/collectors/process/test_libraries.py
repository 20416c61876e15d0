"""Goal: frameworks, CUDA, NCCL and Python of a process, by the names of the files that it maps."""

import pytest

from collectors.process.libraries import Libraries, libraries_of
from dutycycle.contract.records.processes import Package

SITE = "/app/site-packages"
PYTHON = "/usr/bin/python3.11"


def maps(*paths: str) -> str:
    """As the kernel writes them, each file twice, among what is no file."""
    line = "7f2c8a000000-7f2c8a100000 r-xp 00001000 fe:00 1311 "
    files = "".join(f"{line}{path}\n{line}{path}\n" for path in paths)
    return f"{line}\n{files}{line}[stack]\n{line}/dev/zero (deleted)\n"


def frameworks(**versions: str | None) -> tuple[Package, ...]:
    return tuple(Package(name=name, version=version) for name, version in versions.items())


TORCH = f"{SITE}/torch/lib/libtorch_cpu.so"
CASES = {
    "nothing but Python": ([PYTHON], [], Libraries("3.11", (), None, None)),
    "a wheel, with its local version": (
        [PYTHON, TORCH], ["torch-2.1.0+cu121.dist-info", "torchvision-0.16.0.dist-info"],
        Libraries("3.11", frameworks(torch="2.1.0+cu121"), None, None),
    ),
    "CUDA and NCCL, whose wheels say more than their names": (
        [TORCH, f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12", f"{SITE}/nvidia/nccl/lib/libnccl.so.2"],
        ["torch-2.4.0.dist-info", "nvidia_cuda_runtime_cu12-12.1.105.dist-info",
         "nvidia_nccl_cu12-2.20.5.dist-info"],
        Libraries(None, frameworks(torch="2.4.0"), "12.1.105", "2.20.5"),
    ),
    "the wheels of CUDA 13": (
        [f"{SITE}/nvidia/cu13/lib/libcudart.so.13"], ["nvidia_cuda_runtime-13.2.86.dist-info"],
        Libraries(None, (), "13.2.86", None),
    ),
    "a wheel of another major version is none of it": (
        [f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12"], ["nvidia_cuda_runtime_cu11-11.8.89.dist-info"],
        Libraries(None, (), "12", None),
    ),
    "libraries of the system, with whole versions": (
        ["/usr/local/cuda/lib64/libcudart.so.12.4.127", "/usr/lib/libnccl.so.2.21.5"], [],
        Libraries(None, (), "12.4.127", "2.21.5"),
    ),
    "a CUDA runtime that a wheel renamed": (
        [f"{SITE}/torch/lib/libcudart-d0da41ae.so.11.0"], [],
        Libraries(None, frameworks(torch=None), "11.0", None),
    ),
    "Debian's PyTorch": (
        ["/usr/lib/python3/dist-packages/torch/_C.so", "/usr/lib/x86_64-linux-gnu/libtorch.so.1.13"], [],
        Libraries(None, frameworks(torch="1.13"), None, None),
    ),
    "a program in C++": (
        ["/opt/server/lib/libtorch.so.2.3"], [], Libraries(None, frameworks(torch="2.3"), None, None)
    ),
    "two frameworks": (
        [TORCH, f"{SITE}/tensorflow/libtensorflow_cc.so.2"],
        ["torch-2.4.0.dist-info", "tensorflow_cpu-2.16.1.dist-info"],
        Libraries(None, frameworks(tensorflow="2.16.1", torch="2.4.0"), None, None),
    ),
    "JAX": (
        [f"{SITE}/jaxlib/libjax_common.so"], ["jax-0.4.30.dist-info", "jaxlib-0.4.30.dist-info"],
        Libraries(None, frameworks(jax="0.4.30"), None, None),
    ),
    "an egg": ([TORCH], ["torch-1.13.1.egg-info"], Libraries(None, frameworks(torch="1.13.1"), None, None)),
    "a library that was replaced while it ran": (
        [f"{TORCH} (deleted)"], [], Libraries(None, frameworks(torch=None), None, None)
    ),
    "names that would break a line": (
        [TORCH], ["torch-2.0\x1b[31m.dist-info", "torch-.dist-info", f"torch-{'9' * 99}.dist-info"],
        Libraries(None, frameworks(torch=None), None, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_loaded(case: str) -> None:
    paths, names, expected = CASES[case]
    assert libraries_of(maps(*paths), lambda folder: names if folder == SITE else []) == expected
