"""Says which reader turns the samples of a topic into ticks."""

from collections.abc import Callable
from typing import Any, Protocol

from streams.operators.columns.cgroup import CgroupReader
from streams.operators.columns.cuda import CudaReader
from streams.operators.columns.nvml import NvmlReader
from streams.operators.columns.tick import TickRow


class TickReader(Protocol):
    """Turns the records of one topic and node into ticks."""

    def read(self, sample: Any, data: bytes = b"") -> TickRow:
        """Return the tick in columns; ``data`` is the JSON that the sample was decoded from."""
        ...

    def read_unchanged(self, data: bytes | None) -> TickRow | None:
        """Return the tick of a record that differs from the last one in numbers alone; None of another one,
        which is to be decoded."""
        ...


READERS: dict[str, Callable[[str], TickReader]] = {
    "nvml-samples": NvmlReader,
    "cgroup-samples": lambda _node: CgroupReader(),
    "cuda-samples": lambda _node: CudaReader(),
}
"""By topic, without prefix: what makes the reader of a node."""
