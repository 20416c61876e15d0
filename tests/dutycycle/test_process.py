"""Signals before there is anything to end in good order."""

import subprocess
import sys

WHERE_EXCEPTIONS_ARE_IGNORED = """
import os, signal, weakref
from dutycycle.process import end_on_sigterm

class Lock:
    pass

def forgotten(_):
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):  # Python runs the handler between two of its instructions
        pass

end_on_sigterm()
lock = Lock()
watched = weakref.ref(lock, forgotten)  # as the locks of imports are
del lock
print("goes on")
"""


def test_sigterm_ends_a_process_wherever_it_is_in_its_imports() -> None:
    command = [sys.executable, "-c", WHERE_EXCEPTIONS_ARE_IGNORED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
