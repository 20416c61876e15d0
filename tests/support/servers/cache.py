"""The folder for what the tests download once, shared by all clones of this user."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/dutycycle``, else ``~/.cache/dutycycle``. It is made if it is missing."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "dutycycle"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock ``name``, so that parallel test workers download a thing once."""
    with (cache_folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, also by a crash
        yield
