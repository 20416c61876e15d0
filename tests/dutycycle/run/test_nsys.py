"""``dutycycle run --nsys``, with a program that is called as nsys is."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fakes.nsys import install
from tests.support.processes.commands import environ, run_to_end

_FAILS = "import sys; print('trained'); sys.exit(3)"


def run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = environ() | {"PATH": str(folder / "bin"), "HOME": str(folder)} | more
    return run_to_end("run", *arguments, env=env)


def test_the_summary_and_the_report_say_what_it_saw(tmp_path: Path) -> None:
    install(tmp_path / "bin")
    out = tmp_path / "out"
    done = run(tmp_path, "--nsys", "--out", str(out), "--", sys.executable, "-c", _FAILS)
    assert (done.returncode, done.stdout) == (3, "trained\n"), done.stderr
    assert "From inside            held back by: input (98% sure)" in done.stderr
    assert "pin_memory=True" in done.stderr
    assert f"Profile                {out}/nsys.nsys-rep" in done.stderr
    assert done.stderr.startswith("dutycycle: " + sys.executable), "the command is not called nsys"
    page = (out / "report.html").read_text()
    assert "From inside (nsys.sqlite): held back by: input (98% sure)" in page
    assert "CUDA GPU Kernel Summary" in page


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        ("profile", "Not measured           the profile: nsys has left no "),
        ("export", "nsys.nsys-rep: the report is of a newer version"),
    ],
)
def test_without_its_report_the_rest_is_there(tmp_path: Path, fails: str, message: str) -> None:
    install(tmp_path / "bin")
    arguments = ("--nsys", "--out", str(tmp_path / "out"), "--", sys.executable, "-c", _FAILS)
    done = run(tmp_path, *arguments, FAKE_NSYS_FAILS=fails)
    assert done.returncode == 3
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "out" / "report.html").exists()


def test_where_there_is_no_nsys_nothing_is_run(tmp_path: Path) -> None:
    done = run(tmp_path, "--nsys", "--out", str(tmp_path / "out"), "--", sys.executable, "-c", _FAILS)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "dutycycle: --nsys: nsys is not on PATH: install NVIDIA Nsight Systems, or leave --nsys out\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_command_that_is_not_there_and_a_job_for_a_cluster_are_refused(tmp_path: Path) -> None:
    install(tmp_path / "bin")
    done = run(tmp_path, "--nsys", "--out", str(tmp_path / "out"), "--", "no-such-command")
    assert (done.returncode, done.stderr) == (127, "dutycycle: no-such-command: command not found\n")
    assert not (tmp_path / "out").exists()
    done = run(tmp_path, "--nsys", "job.yaml")
    assert done.returncode == 2
    assert "--nsys is for a command on this machine" in done.stderr
