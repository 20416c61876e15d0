"""A folder for a while: SIGTERM deletes it and ends the process, at whatever moment it comes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys, time
from dutycycle.process import temporary_folder

class Forgotten:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)  # an exception that is raised here is ignored

with temporary_folder() as folder:
    print(folder)
    try:
        if sys.argv[1] == "ignored":
            Forgotten()
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(600)
    finally:
        time.sleep(1.2)
        print("cleaned up")
"""


@pytest.mark.parametrize("how", ["ignored", "heard"])
def test_sigterm_ends_it_once_and_is_heard(how: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    folder, *lines = done.stdout.splitlines()
    assert lines == ["cleaned up"]
    assert not Path(folder).exists()
