"""Kafka's classes as Java has read and checked them, in one file: a start takes two thirds of the CPU.

Made once for each Java and each set of jars, by a broker that starts and ends.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.process import ServerProcess

_END_S = 120
"""It writes the file when it ends."""


def archive(class_path: str, start: Callable[[list[str]], ServerProcess]) -> list[str]:
    """Java's options that use the file. ``start`` runs a broker until it serves, with options of Java's."""
    java = Path(shutil.which("java") or "java").resolve()
    made = hashlib.sha256(f"{java} {java.stat().st_mtime_ns} {class_path}".encode()).hexdigest()[:16]
    name = f"kafka-classes-{made}"
    file = cache_folder() / f"{name}.jsa"
    with locked(name):
        if not file.exists():
            _make(file, start)
    return [f"-XX:SharedArchiveFile={file}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def _make(file: Path, start: Callable[[list[str]], ServerProcess]) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=file.stem) as temporary:
        unfinished = Path(temporary) / file.name
        start([f"-XX:ArchiveClassesAtExit={unfinished}"]).stop(_END_S)
        if unfinished.exists():
            unfinished.rename(file)  # only a complete one gets the name
