"""What a worker says of itself on the pages that it serves, whose address is in its log."""

import re
import urllib.error
import urllib.request
from pathlib import Path


def readiness(log: Path) -> str:
    """What the worker that writes ``log`` says of itself: ``ready``, or why it is not."""
    return read_page(log, "readyz")


def read_page(log: Path, page_name: str) -> str:
    """A page that the worker serves which writes ``log``, as it was started last; or why there is none."""
    addresses = re.findall(r"serves (http://[0-9.:]+)", log.read_text(errors="replace"))
    if not addresses:
        return "starting"
    try:
        with urllib.request.urlopen(f"{addresses[-1]}/{page_name}", timeout=60) as page:  # noqa: S310 - of this machine
            text: bytes = page.read()
    except urllib.error.HTTPError as error:
        text = error.read()
    except OSError as error:
        return str(error)
    return text.decode()
