"""What a process takes to import, in CPU and memory; and to compile its loops, once for an installation."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from bench.speed.bench import Bench
from bench.speed.figures import ROOT

MODULES = ("numpy", "numba", "streams.compiled", "streams.topology", "streams.service", "dutycycle.live.up",
           "sinks.service", "collectors.service")  # fmt: skip
"""Each needs some of those before it."""
_COPIED = ("streams", "dutycycle")
_RESIDENT = """
from pathlib import Path
print(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line).split()[1])
"""


def imports(bench: Bench) -> None:
    """The least of several: what else runs only ever adds."""
    for module in MODULES:
        found = [_import(module, ROOT) for _ in range(4)]  # the first one may compile
        bench.add(f"imports.cpu_s.{module}", min(cpu_s for cpu_s, _ in found), "s of CPU")
        bench.add(f"imports.memory_mb.{module}", min(mb for _, mb in found), "MB")
    if bench.size.compiles:
        copy = bench.folder / "copy"
        for package in _COPIED:
            shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        bench.add("imports.compile_s", _import("streams.topology", copy)[0], "s of CPU, the first time")


def _import(module: str, folder: Path) -> tuple[float, float]:
    """CPU seconds and resident megabytes of a process that imports a module as it is in a folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-P", "-c", f"import {module}{_RESIDENT}"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, int(done.stdout) / 1024
