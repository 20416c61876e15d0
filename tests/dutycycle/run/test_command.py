"""The command is run as if we were not there: its status, its signals, its terminal."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.support.processes.terminal import read_to_end

_ROOT = Path(__file__).resolve().parents[3]
_RUN = """
import sys
from dutycycle.run.command import CannotStartError, Command
try:
    ended = Command(sys.argv[1:]).wait()
except CannotStartError as error:
    print(error, file=sys.stderr)
    sys.exit(error.status)
print(f"{ended.cpu_s:.3f} {ended.signal!s}", file=sys.stderr)
sys.exit(ended.status)
"""
_COUNTS = """
import signal, sys
all_ = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, all_)
print("ready", flush=True)
got = [signal.sigwaitinfo(all_)]
while (more := signal.sigtimedwait(all_, 1.0)) is not None:  # were there a second one, it would come now
    got.append(more)
print(*(signal.Signals(one.si_signo).name for one in got), flush=True)
sys.exit(40 + len(got))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", _RUN, *command]
    return subprocess.run(arguments, cwd=_ROOT, capture_output=True, text=True, timeout=240, check=False)


def test_every_status_is_passed_on() -> None:
    loop = _RUN.split("try:")[0] + (
        "print(*[Command(['sh', '-c', f'exit {code}']).wait().status for code in range(256)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", loop], cwd=_ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert list(map(int, done.stdout.split())) == list(range(256)), done.stderr


@pytest.mark.parametrize(("name", "status"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
def test_a_command_that_a_signal_ended_has_the_status_of_a_shell(name: str, status: int) -> None:
    done = run("sh", "-c", f"kill -{name} $$")
    assert done.returncode == status
    assert done.stderr.split()[1] == f"Signals.SIG{name}" or str(status - 128) in done.stderr


def test_what_cannot_be_started_has_the_status_of_a_shell(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    missing, closed = run("no-such-command"), run(str(plain))
    assert (missing.returncode, missing.stderr) == (127, "no-such-command: command not found\n")
    assert (closed.returncode, closed.stderr) == (126, f"{plain}: Permission denied\n")


def test_an_open_file_that_we_were_given_is_the_commands_too() -> None:
    """As of ``run -- cat <(echo x)`` in bash."""
    reading, writing = os.pipe()
    os.write(writing, b"given")
    os.close(writing)
    done = subprocess.run(
        [sys.executable, "-c", _RUN, "cat", f"/dev/fd/{reading}"], cwd=_ROOT, pass_fds=[reading],
        capture_output=True, timeout=240, check=False,
    )  # fmt: skip
    os.close(reading)
    assert done.stdout == b"given", done.stderr


def test_input_and_output_are_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, "sh", "-c", "cat; echo to-stderr >&2"], cwd=_ROOT,
        input=b"\x00\xff bytes", capture_output=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.stdout == b"\x00\xff bytes"
    assert done.stderr.startswith(b"to-stderr\n")


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_a_signal_to_us_alone_reaches_the_command_once(name: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, sys.executable, "-c", _COUNTS],
        cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert process.stdout.readline() == f"SIG{name}\n"
    assert process.wait(240) == 41
    process.stdout.close()


def in_terminal(command: str) -> tuple[int, bytes]:
    """Run it in a terminal, press Ctrl-C when it is ready; its status and what it said."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, sys.executable, "-c", command],
        cwd=_ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while b"ready" not in said:
        said += os.read(ours, 1024)
    os.write(ours, b"\x03")
    status = process.wait(240)
    return status, said + read_to_end(ours)


def test_ctrl_c_reaches_the_command_and_we_wait_for_it() -> None:
    status, said = in_terminal(_COUNTS)
    assert status == 41
    assert b"SIGINT" in said


def test_ctrl_c_is_not_sent_by_us_a_second_time() -> None:
    """A command outside of the terminal's process group sees what we send, and nothing else."""
    alone = "import os; os.setpgid(0, 0)" + _COUNTS.replace("signal.sigwaitinfo(all_)", "")
    status, said = in_terminal(alone)
    assert status == 40, said


def test_the_time_of_orphans_that_ended_is_counted() -> None:
    """The shell starts a process in the background and ends its parent first: it becomes our child."""
    burn = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    inner = (
        f"pid=$({sys.executable} -c '{burn}' >/dev/null & echo $!); while kill -0 $pid; do sleep 0.05; done"
    )
    command = [sys.executable, "-c", _RUN, "bash", "-c", inner]
    process = subprocess.Popen(command, cwd=_ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    said = process.stderr.read()
    assert process.wait(240) == 0
    assert float(said.splitlines()[-1].split()[0]) >= 0.5
    process.stderr.close()
