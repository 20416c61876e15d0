"""What a long-lived process gives back."""

import subprocess
import sys

import pytest

from tests.support.processes.commands import environ

MEASURED = r"""
import re
from pathlib import Path
from dutycycle.cli.garbage import release_llvm
import streams.topology
from llvmlite.binding import parse_assembly

def resident_mb():
    mappings = Path("/proc/self/smaps").read_text()
    sizes_kb = re.findall(r"/libllvmlite.*\n(?:\w+:.*\n)*?Rss: +(\d+) kB", mappings)
    return sum(map(int, sizes_kb)) / 1024

before_mb = resident_mb()
release_llvm()
print(before_mb, resident_mb(), parse_assembly("define void @f() { ret void }").get_function("f").name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone says which pages are resident: run it there")
def test_pages_of_llvm_are_given_back_and_come_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], env=environ(), check=True, capture_output=True, text=True
    )
    before_mb, after_mb, name = done.stdout.split()
    assert float(before_mb) > 10
    assert float(after_mb) < float(before_mb) / 4
    assert name == "f"
