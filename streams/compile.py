"""Compiles the loops (ADR 22), once for an installation: ``python -m streams.compile``, or its first import.

Two processes share the work. The second is a fork of the first one, once that has imported numba and compiled
what nearly every loop needs of it.
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
"""The modules with loops: the detector of cycles, trends, and all else. None imports what others compile."""
COMPILING = "compiling the loops of the streams, once"
"""Begins the warning of who waits for this."""
PART_VARIABLE = "DUTYCYCLE_COMPILES_PART"
"""Set for the processes that compile a part: what they import compiles nothing else."""


def compile_all() -> None:
    """Compile what is not compiled yet. The processes that do end with this one, however it ends."""
    compiler = subprocess.Popen(
        [sys.executable, "-c", "from streams.compile import compile_parts; compile_parts()"],
        stdin=subprocess.PIPE, env={**os.environ, PART_VARIABLE: "1"},
    )  # fmt: skip
    try:
        compiler.wait()
    finally:
        compiler.kill()
        compiler.wait()
        if compiler.stdin:
            compiler.stdin.close()


def compile_parts() -> None:
    """Compile the last of ``PARTS``, then the others side by side, in a fork and in this process. Both end
    when stdin is closed, which the end of the parent does."""
    gc.disable()  # a tenth of the time would go into looking at what numba keeps
    cycles, trends, first = PARTS
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for module in first:
        import_module(module)
    fork = os.fork()
    if not fork:
        threading.Thread(target=_end_with_parent, daemon=True).start()  # the fork of a process has no threads
    for module in trends if fork else cycles:
        import_module(module)
    if fork:
        os.waitpid(fork, 0)
    os._exit(0)  # nothing is left to do, and taking apart what numba keeps takes a second


def _end_with_parent() -> None:
    os.read(0, 1)  # not by sys.stdin, whose lock the fork would begin with
    os._exit(1)


def main() -> None:
    """Compile all; a loop that cannot be compiled fails as an import."""
    compile_all()
    import_module("streams.topology")


if __name__ == "__main__":
    main()
