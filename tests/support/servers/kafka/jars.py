"""Kafka's jars: resolved once by Maven from pom.xml, kept in the cache folder."""

import hashlib
import tempfile
from pathlib import Path

from tests.support.servers.cache import cache_folder, locked
from tests.support.servers.missing import program, run_or_miss

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
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=folder.name) as temporary:
        arrived = Path(temporary) / "jars"
        command: list[str | Path] = [program("mvn"), "-B", "-q", "-f", _POM, "dependency:copy-dependencies"]
        run_or_miss(
            [*command, f"-DoutputDirectory={arrived}"],
            "fetching Kafka's jars",
            _DOWNLOAD_S,
            folder=folder.parent,
        )
        arrived.rename(folder)  # only a complete set gets the name
