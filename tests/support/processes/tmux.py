"""A terminal that a test can look at and type into: a tmux server of its own, with one window."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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
