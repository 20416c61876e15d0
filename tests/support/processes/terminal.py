"""A program that believes a person looks: its input and output are a terminal."""

import errno
import os
import pty
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_LONGEST_S = 120


def read_to_end(ours: int) -> bytes:
    """Read all that is left in a terminal whose other side is closed, and close it.

    A single read may give only a part: the kernel hands over what was written a little later.
    """
    text = b""
    try:
        while data := os.read(ours, 1 << 16):
            text += data
    except OSError as error:
        if error.errno != errno.EIO:  # Linux has this for the end of a terminal
            raise
    finally:
        os.close(ours)
    return text


def on_a_terminal(
    command: Sequence[str], folder: Path, *, typed: str = "", environ: Mapping[str, str] | None = None
) -> str:
    """What the program shows until it ends; ``typed`` waits for it to read."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environ, start_new_session=True
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        said, deadline = b"", time.monotonic() + _LONGEST_S
        try:
            while time.monotonic() < deadline:
                if select.select([ours], [], [], 1)[0]:
                    said += os.read(ours, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:  # it has ended, and its terminal with it
                raise
        finally:
            os.close(ours)
            process.kill()
    return said.decode("utf-8", "replace")
