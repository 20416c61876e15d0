"""``dutycycle run`` with files: what is typed wrongly is one line, and the last line of a terminal."""

import fcntl
import os
import struct
import sys
import termios
from pathlib import Path

import pytest

from dutycycle.cli.main import main
from dutycycle.submit.view import JobStatusLine
from tests.support.processes.terminal import read_to_end

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: main, image: x}]}\n"
ENDLESS = POD.replace("Pod", "Deployment")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["pod.yaml", "extra"], 2, "run: 'extra' after pod.yaml: expected a file that ends with .yaml"),
        (["no.yaml"], 2, "no.yaml: No such file or directory"),
        (["endless.yaml"], 2, "deployment/a never ends by itself: give --for 10m"),
        (["--keep", "--", "true"], 2, "--keep is for a job on a cluster"),
        (["--for", "3m", "--", "true"], 2, "--for is for a job on a cluster"),
        (["pod.yaml", "--kubeconfig", "none"], 125, "no access to a cluster: none: no such file"),
        (["--interval", "0", "pod.yaml"], 2, "--interval='0': expected a duration"),
        (["pod.yaml", "--topic-prefix", " "], 2, "--topic-prefix=' ': "),
        (["pod.yaml", "--out", "full", "--broker", "kafka://127.0.0.1:9"], 125, "--out full: is not empty"),
    ],
)
def test_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], status: int, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("pod.yaml").write_text(POD)
    Path("endless.yaml").write_text(ENDLESS)
    Path("full").mkdir()
    Path("full/mine").touch()
    assert main(["run", *arguments]) == status
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert message in said
    assert sorted(one.name for one in tmp_path.iterdir()) == ["endless.yaml", "full", "pod.yaml"]


def test_on_a_terminal_the_last_line_is_written_over_and_never_longer_than_it_is_wide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        view = JobStatusLine()
        view.status("x" * 500)
        view.print_line("news")
    assert read_to_end(ours).decode() == f"\r{'x' * 39}\x1b[K\r\x1b[Knews\r\n"
