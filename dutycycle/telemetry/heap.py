"""Gives the system back what a process has freed, which the C library keeps else."""

import asyncio
import ctypes

TRIM_S = 2.0
"""So often a worker gives it back."""
_C = ctypes.CDLL(None)  # the C library of this process


async def trim_heap(every_s: float | None = None) -> None:
    """Give the system back what is free, steadily, also while a worker's commit is under way: glibc's malloc
    keeps it else, a third of a worker after a backlog, and a seventh of what shows pages of 10,000 GPUs.

    ``every_s``: None for ``TRIM_S``. It takes some milliseconds with a thousand nodes. Other C libraries than
    glibc have no such function.
    """
    trim = getattr(_C, "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(every_s or TRIM_S)
        trim(0)
