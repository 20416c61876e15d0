"""The screen on a real terminal, tmux: at three sizes, with keys, and what is left behind."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario, Signal, square
from tests.support.processes.commands import environ
from tests.support.servers.missing import program
from tests.support.waiting import wait_until


class Tmux:
    """One window with a shell. Lines are texts; ``colours`` keeps the terminal's codes in them."""

    def __init__(self, socket: Path) -> None:
        self._tmux = [program("tmux"), "-S", str(socket), "-f", "/dev/null"]

    def start(self, width: int, height: int, environ: Mapping[str, str]) -> None:
        """Open the window, with a shell that says ``$`` and nothing more."""
        shell = ["env", "PS1=$ ", "bash", "--norc", "--noprofile"]
        size = ["-x", str(width), "-y", str(height)]
        self._do("new-session", "-d", *size, *shell, environ=environ)
        self.wait_for(lambda lines: lines[0].startswith("$"))

    def stop(self) -> None:
        """End all of it."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def resize(self, width: int, height: int) -> None:
        """As if a person had pulled at its corner."""
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def type(self, *keys: str) -> None:
        """Keys by tmux's names, such as ``Enter``; any other text letter by letter."""
        self._do("send-keys", *keys)

    def lines(self, *, colours: bool = False, scrollback: bool = False) -> list[str]:
        """What is seen; with ``scrollback`` what was pushed out above, too."""
        more = [*(["-e"] if colours else []), *(["-S", "-"] if scrollback else [])]
        return self._do("capture-pane", "-p", *more).split("\n")[:-1]

    @property
    def is_alternate(self) -> bool:
        """Whether the terminal's other screen is shown."""
        return self._do("display-message", "-p", "#{alternate_on}").strip() == "1"

    def wait_for(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """Wait until what is seen is as wanted; what is seen then."""
        wait_until(lambda: seen(self.lines()), lambda: "\n".join(self.lines()))
        return self.lines()

    def _do(self, *command: str, environ: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._tmux, *command], capture_output=True, text=True, check=True, env=environ
        )
        return done.stdout


@contextmanager
def tmux(folder: Path, width: int, height: int, environ: Mapping[str, str]) -> Iterator[Tmux]:
    """A window until the end of the block."""
    terminal = Tmux(folder / "tmux")
    try:
        terminal.start(width, height, environ)
        yield terminal
    finally:
        terminal.stop()


SIZES = [(120, 40), (80, 24), (200, 50)]
COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;[0-9;]*)m")
REVERSE = re.compile(r"\x1b\[([0-9]+;)*7m")
ROOT = Path(__file__).parents[3]
_SIZE = ("COLUMNS", "LINES")
"""Who is told a size looks at no other: pytest tells its workers one."""
OURS = {key: value for key, value in os.environ.items() if key not in _SIZE} | {
    "PYTHONPATH": str(ROOT), "TERM": "xterm-256color",
}  # fmt: skip


@pytest.mark.parametrize("gpus", [8, 40])
def test_a_fleet_at_three_sizes(gpus: int, tmp_path: Path) -> None:
    with tmux(tmp_path, 120, 40, OURS) as terminal:
        terminal.type(f"{sys.executable} -m tests.support.show_fleet {gpus}", "Enter")
        for width, height in SIZES:
            terminal.resize(width, height)
            rows = min(gpus, height - 5)
            lines = terminal.wait_for(
                lambda lines, height=height, rows=rows: (  # type: ignore[misc]
                    len(lines) == height
                    and "quit" in lines[-1]
                    and lines[-2].startswith("! GPU gpu-a:2: memory full in 14m")
                    and sum("/141G" in one for one in lines) == rows
                )
            )
            assert max(map(len, lines)) <= width
        terminal.type("q")
        wait_until(lambda: not terminal.is_alternate, lambda: "\n".join(terminal.lines()))


@pytest.mark.parametrize("wanted", [True, False])
def test_colours_and_none_where_nobody_wants_them(wanted: bool, tmp_path: Path) -> None:
    with tmux(tmp_path, 120, 40, OURS | ({} if wanted else {"NO_COLOR": "1"})) as terminal:
        terminal.type(f"{sys.executable} -m tests.support.show_fleet 8", "Enter")
        terminal.wait_for(lambda lines: "quit" in lines[-1] and "training" in lines[4])
        text = "\n".join(terminal.lines(colours=True))
        assert bool(COLOUR.search(text)) is wanted
        assert REVERSE.search(text), "the cursor is seen all the same"


def test_up_leaves_the_terminal_as_it_was_and_no_key_reaches_the_shell(tmp_path: Path) -> None:
    values: dict[str, Signal] = {"util": square(10, 0.5, 5, 95), "mem_used": 9e9}
    scenario = Scenario(gpus=[FakeGpu(uuid=f"GPU-{n}", values=values) for n in range(8)])
    seen = driver(scenario.write(tmp_path / "scenario"))
    settings = environ(kubernetes="off", containers="pods", node="me") | {"XDG_STATE_HOME": str(tmp_path)}
    inside = {key: value for key, value in (settings | seen).items() if key not in _SIZE}
    with tmux(tmp_path, 120, 40, OURS | inside) as terminal:
        terminal.type("echo before", "Enter")
        terminal.wait_for(lambda lines: "before" in lines[1])
        terminal.type(f"{sys.executable} -m dutycycle up", "Enter")
        lines = terminal.wait_for(lambda lines: "8 GPUs" in lines[0] and lines[10].startswith("7 "))
        assert terminal.is_alternate
        assert [line.split(" ")[0] for line in lines[3:11]] == list("01234567")
        terminal.type("4")
        terminal.wait_for(lambda lines: any(line.startswith("me ") for line in lines))
        # All at once: how long it takes to stop, and says so, is its own affair.
        terminal.type("q", "echo leaked", "Enter", "x")
        terminal.wait_for(lambda lines: lines[0] == "$ echo before" and "$" in lines)
        assert not terminal.is_alternate
        left = [line for line in terminal.lines(scrollback=True) if line]
        assert left[:3] == ["$ echo before", "before", f"$ {sys.executable} -m dutycycle up"]
        # Its last line says where the records are, if there were any by then.
        assert not left[3:-1] or " ".join(left[3:-1]).startswith(f"peak records are in {tmp_path}/")
        assert left[-1] == "$"
