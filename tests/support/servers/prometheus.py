"""A real Prometheus that scrapes what a test tells it to."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.missing import program
from tests.support.servers.ports import free_port
from tests.support.servers.process import ServerProcess

_START_S = 60

# Debian's package moves the web pages to /usr/share, and its own defaults point there; none are needed here.
_OPTIONS = ["--log.level=warn", "--storage.tsdb.retention.time=1d"]


class Prometheus:
    """One running Prometheus with its data in ``folder``."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        server = program("prometheus")
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        check("config", file)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        where = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        command = [server, *where, f"--web.listen-address=127.0.0.1:{port}", *_OPTIONS]
        self._process = ServerProcess(command, folder / "prometheus.log")
        self._process.wait_until(self._ready, _START_S)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of ``expression`` now: a list of ``{"metric": …, "value": [time, text]}``."""
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - our own loopback address
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def wait_for(self, expression: str, deadline_s: float = 60) -> list[dict[str, Any]]:
        """``query``, repeated until it is not empty: a scrape takes its time."""
        self._process.wait_until(lambda: bool(self.query(expression)), deadline_s)
        return self.query(expression)

    def stop(self) -> None:
        self._process.stop()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:  # noqa: S310 - as above
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def scrape(targets: Sequence[str], interval_s: float = 1) -> dict[str, Any]:
    """A configuration that scrapes ``host:port`` targets as the job ``test``."""
    return {
        "global": {"scrape_interval": f"{round(interval_s * 1000)}ms"},
        "scrape_configs": [{"job_name": "test", "static_configs": [{"targets": list(targets)}]}],
    }


def check(kind: str, file: Path, *more: Path) -> None:
    """``promtool check <kind>``: kind is ``config``, ``rules`` or ``metrics`` (read from the file).

    Raises ``AssertionError`` with what promtool says, ``ServerMissingError`` without promtool.
    """
    arguments = [] if kind == "metrics" else [file, *more]
    promtool = program("promtool")
    with file.open("rb") as text:
        done = subprocess.run(
            [promtool, "check", kind, *arguments], stdin=text, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise AssertionError(f"promtool check {kind} {file.name}: {done.stdout}{done.stderr}")
