"""``python -m streams.compile``: compiles the loops (ADR 22) once, so that no worker waits at its start.

Two processes share the work: the detector of cycles takes as long as all that does not use it.
"""

import subprocess
import sys
from importlib import import_module

APART = (
    "streams.operators.columns.cgroup",
    "streams.operators.columns.nvml",
    "streams.operators.columns.template",
    "streams.operators.node.figures",
    "streams.operators.node.window_records",
    "streams.operators.peaks.node",
    "streams.operators.peaks.tally",
    "streams.operators.trends.exhaustion",
    "streams.operators.trends.recent",
    "streams.operators.usage.gpus",
    "streams.operators.usage.pods",
    "streams.operators.workload.channels",
    "streams.operators.workload.kinds.features",
    "streams.operators.workload.loops",
    "streams.operators.workload.rules.stats",
)
"""Modules with loops that do not import the detector of cycles."""
CYCLES = "streams.operators.cycles.bank"


def main() -> int:
    """Compile what is not compiled yet; the exit status."""
    quietly = f"import logging; logging.disable(); import {', '.join(APART)}"  # this process says it
    apart = subprocess.Popen([sys.executable, "-c", quietly])  # noqa: S603 - our own names
    for module in (CYCLES, "streams.topology"):
        import_module(module)
    return apart.wait()


if __name__ == "__main__":
    sys.exit(main())
