"""Compiles the loops (ADR 22), once for an installation: ``python -m streams.compile``, or its first import.

Three processes share the work. Each imports hardly anything that another one compiles.
"""

import gc
import os
import subprocess
import sys
import threading
from importlib import import_module

PARTS = (
    ("streams.operators.cycles.bank",),
    ("streams.operators.trends.bank", "streams.operators.trends.changes"),
    (
        "streams.operators.columns.cgroup",
        "streams.operators.columns.nvml",
        "streams.operators.columns.template",
        "streams.operators.node.figures",
        "streams.operators.node.frozen",
        "streams.operators.node.window_records",
        "streams.operators.peaks.node",
        "streams.operators.peaks.tally",
        "streams.operators.usage.gpus",
        "streams.operators.usage.pods",
        "streams.operators.workload.channels",
        "streams.operators.workload.kinds.features",
        "streams.operators.workload.kinds.gpu_features",
        "streams.operators.workload.kinds.history",
        "streams.operators.workload.loops",
        "streams.operators.workload.rules.stats",
    ),
)
"""The modules with loops, by process: the detector of cycles, trends, and all else."""
COMPILING = "compiling the loops of the streams, once"
"""Begins the warning of who waits for this."""
PART_VARIABLE = "DUTYCYCLE_COMPILES_PART"
"""Set for the processes that compile a part: what they import compiles nothing else."""


def compile_all() -> None:
    """Compile what is not compiled yet. Its processes end with this one, however it ends."""
    script = "from streams.compile import compile_part; compile_part({})"
    parts = [
        subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-c", script.format(number)],
            stdin=subprocess.PIPE, env={**os.environ, PART_VARIABLE: "1"},
        )
        for number in range(len(PARTS))
    ]  # fmt: skip
    try:
        for part in parts:
            part.wait()
    finally:
        for part in parts:
            part.kill()
            part.wait()
            if part.stdin:
                part.stdin.close()


def compile_part(number: int) -> None:
    """Compile one of ``PARTS``, until stdin is closed, which the end of the parent does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.disable()  # a tenth of the time would go into looking at what numba keeps
    for module in PARTS[number]:
        import_module(module)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Compile all; a loop that cannot be compiled fails as an import."""
    compile_all()
    import_module("streams.topology")


if __name__ == "__main__":
    main()
