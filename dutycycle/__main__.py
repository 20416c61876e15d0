"""Runs ``dutycycle``, and ``python -m dutycycle``."""

import sys

from dutycycle.process import end_on_signals


def main() -> int:
    """Run the command; returns the exit status."""
    end_on_signals(sys.argv[1:])
    from dutycycle.cli.main import main as run  # here, not above: its imports can be cut short as well

    return run()


if __name__ == "__main__":
    sys.exit(main())
