"""Kafka's jars: resolved once by Maven from pom.xml, kept in the cache folder."""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.missing import ServerMissingError, program

_POM = Path(__file__).with_name("pom.xml")
_DOWNLOAD_S = 900


def class_path() -> str:
    """What ``java -cp`` needs. Raises ``ServerMissingError`` without Java, and once without Maven."""
    program("java")
    name = "kafka-" + hashlib.sha256(_POM.read_bytes()).hexdigest()[:16]
    with locked(name):
        folder = cache_folder() / name
        if not folder.exists():
            _download(folder)
    return f"{folder}/*"


def _download(folder: Path) -> None:
    program("mvn")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=folder.name) as temporary:
        arrived = Path(temporary) / "jars"
        _run_maven(arrived)
        arrived.rename(folder)  # only a complete set gets the name


def _run_maven(folder: Path) -> None:
    command = [
        "mvn",
        "-B",
        "-q",
        "-f",
        str(_POM),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}",
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_DOWNLOAD_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ServerMissingError(f"Maven had not fetched Kafka's jars after {_DOWNLOAD_S} s") from error
    if done.returncode:
        raise ServerMissingError(f"Maven could not fetch Kafka's jars: {done.stdout[-1500:]}")
