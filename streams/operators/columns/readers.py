"""Says which reader turns the samples of a topic into ticks."""

from collections.abc import Callable
from typing import Any

from streams.operators.columns.cgroup import CgroupReader
from streams.operators.columns.cuda import CudaReader
from streams.operators.columns.nvml import NvmlReader
from streams.operators.columns.template import TickReader

READERS: dict[str, Callable[[str], TickReader[Any]]] = {
    "nvml-samples": NvmlReader,
    "cgroup-samples": lambda _node: CgroupReader(),
    "cuda-samples": lambda _node: CudaReader(),
}
"""By topic, without prefix: what makes the reader of a node."""
