"""A program that is called as ``nsys`` is, runs the command, and has seen ``waits_for_data``.

``FAKE_NSYS_FAILS``: ``profile`` leaves no report, ``export`` cannot read it.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.data.profiled import waits_for_data, write_export

_ROOT = Path(__file__).resolve().parents[3]


def install(folder: Path) -> Path:
    """Put it into a folder for PATH."""
    folder.mkdir(exist_ok=True)
    program = folder / "nsys"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(_ROOT)!r})\n"
        "from tests.support.fakes.nsys import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    program.chmod(0o755)
    return folder


def main(arguments: list[str]) -> int:
    """As ``nsys profile --output NAME [OPTIONS] COMMAND…`` and ``nsys export``."""
    fails = os.environ.get("FAKE_NSYS_FAILS")
    if arguments[0] == "profile":
        place = arguments.index("--output")
        options, output, command = arguments[1:place], Path(arguments[place + 1]), arguments[place + 2 :]
        assert all(one.startswith("--") and "=" in one for one in options), options
        done = subprocess.run(command, check=False)
        if fails != "profile":
            output.with_suffix(".nsys-rep").write_text("a report")
        return done.returncode
    assert arguments[:4] == ["export", "--type", "sqlite", "--output"], arguments
    report = Path(arguments[5])
    if fails == "export" or report.read_text() != "a report":
        print("Exporting …\nthe report is of a newer version", file=sys.stderr)
        return 1
    write_export(waits_for_data(), Path(arguments[4]))
    return 0
