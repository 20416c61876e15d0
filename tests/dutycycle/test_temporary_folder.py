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
        if sys.argv[1] == "heard":
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            Forgotten()
        if sys.argv[1] != "ignored at the end":
            time.sleep(600)
    finally:
        if sys.argv[1] != "ignored at the end":
            time.sleep(1.2)
        print("cleaned up")
"""
TIMER = """
import signal
from dutycycle.process import temporary_folder

signal.setitimer(signal.ITIMER_REAL, 100)
with temporary_folder():
    pass
print(signal.getitimer(signal.ITIMER_REAL)[0] > 0)
"""


@pytest.mark.parametrize("how", ["ignored", "ignored at the end", "heard"])
def test_sigterm_ends_it_once_and_is_heard(how: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    folder, *lines = done.stdout.splitlines()
    assert lines == ["cleaned up"]
    assert not Path(folder).exists()


def test_the_timer_of_another_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", TIMER], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
