"""``dutycycle collect`` with a wall clock that a file moves: its number of milliseconds is added to the time.

As after ``date --set``: the monotonic clock goes on as it was. A program, with the file as its argument.
"""

import sys
import time
from pathlib import Path

from dutycycle.process import end_on_signals


def shift_clock(file: Path) -> None:
    """Let the collector's wall clock be off by what ``file`` says."""
    from collectors.runner import (
        MachineClock,  # here, not above: a signal may come meanwhile, as in ``dutycycle``
    )

    def wall_ms(self: MachineClock) -> int:
        return time.time_ns() // 1_000_000 + int(file.read_text() or 0)

    MachineClock.wall_ms = wall_ms  # type: ignore[method-assign]


if __name__ == "__main__":
    end_on_signals(["collect"])
    shift_clock(Path(sys.argv[1]))
    from dutycycle.cli.main import main

    sys.exit(main(["collect"]))
