"""A process that has its imports already is to its user like one that has not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.processes.warm import command, install

WAITS = "import os, time; print(os.getpid(), os.getcwd(), os.environ['ONE'], flush=True); time.sleep(60)"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "arguments", [["replay", "nowhere"], ["report"], ["--help"], ["usage", "--nonsense"]]
)
def test_status_and_output_are_the_same(arguments: list[str], tmp_path: Path) -> None:
    said = [
        subprocess.run([*start, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        for start in ([sys.executable, "-m", "dutycycle"], command())
    ]
    assert said[0].stdout + said[0].stderr
    assert [(one.returncode, one.stdout, one.stderr) for one in said[1:]] == [
        (said[0].returncode, said[0].stdout, said[0].stderr)
    ]


def test_input_is_read_and_the_program_is_found_by_path(tmp_path: Path) -> None:
    install(tmp_path)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    line = "dutycycle replay - --out - | wc -c"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], input="no trace\n", env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("dutycycle: -:1: not JSON")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_both(number: signal.Signals, tmp_path: Path) -> None:
    if number == signal.SIGINT and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        pytest.skip("SIGINT is ignored here, as in the background of a shell: run it in the foreground")
    with subprocess.Popen(
        [*command("timeit"), "-n1", "-r1", WAITS], cwd=tmp_path, env=os.environ | {"ONE": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        pid, *where = process.stdout.readline().split()
        assert where == [str(tmp_path), "1"]
        assert alive(int(pid))
        process.send_signal(number)
        _, said = process.communicate(timeout=240)
    deadline = time.monotonic() + 120
    while alive(int(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (process.returncode, "KeyboardInterrupt" in said) == (
        (-number, False) if number != signal.SIGINT else (1, True)
    )
