"""Where a run leaves its report and its trace."""

import time
from pathlib import Path

from contract.errors import DutycycleError
from sinks.records.location import default_records_path

TRACE, PAGE = "trace.jsonl.zst", "report.html"


def run_folder(name: str, out: Path | None) -> Path:
    """``out``, or one that is named by the time and ``name``; empty. Raises ``DutycycleError``."""
    if out is None:
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
        out = default_records_path().parent / "runs" / f"{stamp}-{name}"
        number = 1
        while out.exists():  # another one within the same second
            number += 1
            out = out.with_name(f"{stamp}-{name}-{number}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise DutycycleError(f"--out {out}: is not empty; give another folder")
    except OSError as error:
        raise DutycycleError(f"--out {out}: {error.strerror}") from error
    return out
