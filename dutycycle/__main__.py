"""``python -m dutycycle``."""

import sys

from dutycycle.cli import main

if __name__ == "__main__":
    sys.exit(main())
