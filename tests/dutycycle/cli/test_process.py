"""Signals before there is anything to end in good order."""

import signal
import subprocess
import sys

import pytest

from tests.support.processes.commands import environ

WHERE_EXCEPTIONS_ARE_IGNORED = """
import os, sys, weakref
from dutycycle.process import end_on_signals

class Lock:
    pass

def forgotten(_):
    os.kill(os.getpid(), int(sys.argv[1]))
    for _ in range(1000):  # Python runs the handler between two of its instructions
        pass

end_on_signals(["stream"])
lock = Lock()
watched = weakref.ref(lock, forgotten)  # as the locks of imports are
del lock
print("goes on")
"""


WHILE_IT_IMPORTS = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
module = sys.argv.pop(1)
runpy.run_module("dutycycle", run_name="__main__", alter_sys=False)
"""


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_process_wherever_it_is_in_its_imports(one: signal.Signals) -> None:
    assert ended(WHERE_EXCEPTIONS_ARE_IGNORED, str(int(one))) == (0, "", "")


@pytest.mark.parametrize("module", ["dutycycle.cli.main", "dutycycle.cli.services.stream", "streams.service"])
def test_ctrl_c_ends_a_service_that_is_still_importing(module: str) -> None:
    assert ended(WHILE_IT_IMPORTS, module, "stream", "--broker", "kafka://127.0.0.1:9") == (0, "", "")


def ended(script: str, *arguments: str) -> tuple[int, str, str]:
    """The status of a Python script, and what it said."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environ(), check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr
