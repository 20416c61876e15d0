"""Goal: by what ``dutycycle completion`` prints, shells complete commands, flags, their values and files."""

import os
import subprocess
from pathlib import Path

import pytest

from dutycycle.cli.main import main
from tests.support.processes.terminal import on_a_terminal
from tests.support.servers.missing import program

LINES = [
    ("dutycycle complet", "completion"),
    ("dutycycle replay --keep-", "--keep-open"),
    ("dutycycle replay --format parq", "parquet"),
    ("dutycycle collect --kubernetes aut", "auto"),
    ("dutycycle import nvid", "nvidia-smi"),
    ("dutycycle replay --force nigh", "night.jsonl.zst"),
]
SHELLS = {
    "bash": (("--norc", "--noprofile", "-i"), ".bash", "source .bash"),
    "zsh": (("-f", "-i"), "_dutycycle", "fpath+=$PWD; autoload -Uz compinit; compinit -u -D"),
}
"""How each begins, where the script is, and how it is read."""
TO_BEGIN_OF_LINE, TAB = "\x01", "\t"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "night.jsonl.zst").touch()
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tab_completes(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is typed with a TAB, and then shown by a command put in front of it, in capital letters: so
    what is typed is not taken for what is shown."""
    begin, script, read = SHELLS[shell]
    (folder / script).write_text(printed(shell, capsys))
    typed = f'{read}; shown() {{ echo "<$*>" | tr a-z A-Z; }}\n'
    for line, _ in LINES:
        typed += f"{line}{TAB}{TO_BEGIN_OF_LINE}shown \n"
    environ = {"PATH": os.defpath, "HOME": str(folder), "TERM": "dumb", "COLUMNS": "200"}
    said = on_a_terminal([program(shell), *begin], folder, typed=typed + "exit\n", environ=environ)
    for line, completed in LINES:
        assert f"<{line.rpartition(' ')[0]} {completed}>".upper() in said, said


def test_fish_completes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = "; ".join(f"complete -C '{line}' | string split -f 1 \\t" for line, _ in LINES)
    done = subprocess.run(
        [program("fish"), "--no-config", "-c", f"source; {asked}"], input=printed("fish", capsys),
        capture_output=True, text=True, cwd=folder, env=os.environ | {"HOME": str(folder)}, check=False,
        timeout=240,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == ([completed for _, completed in LINES], "")


def printed(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out
