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


WHEN_IT_ENDS = """
import asyncio, atexit, os, sys
from dutycycle.process import end_on_signals, interrupt_on_signals, stop_on_signals

moment, number = sys.argv[1], int(sys.argv[2])
end_on_signals(["stream"])
interrupt_on_signals(["stream"])

def hit():
    os.kill(os.getpid(), number)
    for _ in range(1000):
        pass

class Last:
    def __del__(self, kill=os.kill, pid=os.getpid()):
        if moment == "interpreter":
            kill(pid, number)

sys.modules["last of all"] = Last()

async def main():
    stop = stop_on_signals()
    hit()
    await asyncio.wait_for(stop.wait(), 20)
    if moment == "again":
        hit()
    if moment == "atexit":
        atexit.register(hit)

asyncio.run(main())
if moment == "loop":
    hit()
print("in order", flush=True)
"""


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["again", "loop", "atexit", "interpreter"])
def test_a_signal_changes_nothing_once_the_end_has_begun(moment: str, one: signal.Signals) -> None:
    assert ended(WHEN_IT_ENDS, moment, str(int(one))) == (0, "in order\n", "")


def test_ctrl_c_in_the_imports_of_any_command_is_one_line() -> None:
    status, said, why = ended(WHILE_IT_IMPORTS, "dutycycle.cli.main", "peaks")
    assert (status, said, why) == (1, "", "dutycycle: interrupted\n")


IN_A_LIBRARY = """
import asyncio, os, signal
from dutycycle.process import stop_on_signals

async def main():
    stop_on_signals()

asyncio.run(main())
os.kill(os.getpid(), signal.SIGINT)
for _ in range(1000):
    pass
"""


def test_a_program_that_uses_a_part_of_ours_keeps_its_ctrl_c() -> None:
    assert "KeyboardInterrupt" in ended(IN_A_LIBRARY)[2]


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_process_wherever_it_is_in_its_imports(one: signal.Signals) -> None:
    assert ended(WHERE_EXCEPTIONS_ARE_IGNORED, str(int(one))) == (0, "", "")


@pytest.mark.parametrize("module", ["dutycycle.cli.main", "dutycycle.cli.services.stream", "streams.service"])
def test_ctrl_c_ends_a_service_that_is_still_importing(module: str) -> None:
    assert ended(WHILE_IT_IMPORTS, module, "stream", "--broker", "kafka://127.0.0.1:9") == (0, "", "")


def ended(script: str, *arguments: str) -> tuple[int, str, str]:
    """The status of a Python script, and what it said."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environ(), check=False, timeout=240)
    return done.returncode, done.stdout, done.stderr
