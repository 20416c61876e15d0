"""Finds the frameworks and CUDA libraries that a process has loaded, by the files that it maps. Pure.

A version is looked for in three places, the most precise first: the folder ``<package>-<version>.dist-info``
beside the package, the name of the mapped file, and nothing.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dutycycle.contract.records.processes import Package

Listing = Callable[[str], Iterable[str]]
"""The names in a folder, as the process sees it; empty where it cannot be read."""

_FRAMEWORKS = {
    "torch": ("torch", ("torch",)),
    "tensorflow": ("tensorflow", ("tensorflow", "tensorflow_cpu", "tensorflow_gpu", "tf_nightly")),
    "jaxlib": ("jax", ("jax", "jaxlib")),
    "paddle": ("paddle", ("paddlepaddle", "paddlepaddle_gpu")),
    "mxnet": ("mxnet", ("mxnet",)),
    "cupy": ("cupy", ("cupy", "cupy_cuda11x", "cupy_cuda12x", "cupy_cuda13x")),
    "onnxruntime": ("onnxruntime", ("onnxruntime", "onnxruntime_gpu")),
    "tensorrt": ("tensorrt", ("tensorrt", "tensorrt_libs")),
    "vllm": ("vllm", ("vllm",)),
}
"""By the package's folder: what people call it, and the distributions that bring it."""
_BY_LIBRARY = {"libtorch": "torch", "libtensorflow_cc": "tensorflow", "libonnxruntime": "onnxruntime"}
"""Of programs that are not Python."""
_CUDA, _NCCL = "libcudart", "libnccl"
_NVIDIA = {
    _CUDA: re.compile(r"nvidia_cuda_runtime(_cu\d+)?"),
    _NCCL: re.compile(r"nvidia_nccl(_cu\d+)?"),
}
"""Distributions that bring a library whose own name has the major version alone."""
_PACKAGES = re.compile(r"(?P<folder>.*/(?:site|dist)-packages)/(?P<package>[^/]+)/")
_SHARED = re.compile(r"(?P<name>lib[A-Za-z_]+)(?:-[0-9a-f]{6,})?\.so(?:\.(?P<version>\d+(?:\.\d+)*))?")
_PYTHON = re.compile(r"/(?:lib)?python(3\.\d+)(?:/|\.so|$)")
_INFO = re.compile(
    r"(?P<name>[A-Za-z0-9_.]{1,64})-(?P<version>[A-Za-z0-9_.+!]{1,64})(?:-.*)?\.(?:dist|egg)-info"
)


@dataclass(frozen=True, slots=True)
class Libraries:
    """Says what is loaded; None or empty for what is not, or is not known."""

    python: str | None
    frameworks: tuple[Package, ...]
    cuda: str | None
    nccl: str | None


def libraries_of(maps: str, listing: Listing) -> Libraries:
    """Return the libraries of a process with these ``/proc/<pid>/maps``."""
    # Lines are: address permissions offset device inode path
    lines = (line.split(maxsplit=5) for line in maps.splitlines())
    files = {fields[5] for fields in lines if len(fields) == 6 and fields[5].startswith("/")}
    paths = sorted({file.removesuffix(" (deleted)") for file in files})
    versions: dict[str, str] = {}
    for folder in sorted({match["folder"] for path in paths if (match := _PACKAGES.match(path))}):
        for name in listing(folder):
            if match := _INFO.fullmatch(name):
                versions[match["name"].lower().replace(".", "_")] = match["version"]
    python = next((match[1] for path in paths if (match := _PYTHON.search(path))), None)
    loaded: dict[str, str | None] = {}
    for path in paths:
        in_package = _PACKAGES.match(path)
        if in_package and in_package["package"] in _FRAMEWORKS:
            name, brought_by = _FRAMEWORKS[in_package["package"]]
            loaded[name] = next((versions[package] for package in brought_by if package in versions), None)
    for path in paths:
        shared = _SHARED.fullmatch(path.rpartition("/")[2])
        if shared and (known := _BY_LIBRARY.get(shared["name"])) is not None:
            loaded[known] = loaded.get(known) or shared["version"]
    return Libraries(
        python=python,
        frameworks=tuple(Package(name=name, version=version) for name, version in sorted(loaded.items())),
        cuda=_version_of(_CUDA, paths, versions),
        nccl=_version_of(_NCCL, paths, versions),
    )


def _version_of(library: str, paths: Iterable[str], versions: dict[str, str]) -> str | None:
    matching = [
        shared["version"] or ""
        for path in paths
        if (shared := _SHARED.fullmatch(path.rpartition("/")[2])) and shared["name"] == library
    ]
    if not matching:
        return None
    named = max(matching, key=lambda version: version.count(".") + bool(version))
    installed = (version for name, version in versions.items() if _NVIDIA[library].fullmatch(name))
    fitting = [version for version in installed if not named or version.split(".")[0] == named.split(".")[0]]
    return next(iter(fitting), None) if named.count(".") == 0 and fitting else named or None
