"""The screen on a real terminal, tmux: at three sizes, with keys, and what is left behind."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario, Signal, square
from tests.support.processes.commands import environ
from tests.support.processes.tmux import tmux
from tests.support.waiting import wait_until

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
