"""A real Prometheus that scrapes what a test tells it to."""

import base64
import json
import os
import signal
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.kafka.certificates import Certificates
from tests.support.servers.missing import program
from tests.support.servers.ports import free_port
from tests.support.servers.process import ServerProcess

_START_S = 240

# Debian's package moves the web pages to /usr/share, and its own defaults point there; none are needed here.
_OPTIONS = ["--log.level=warn", "--storage.tsdb.retention.time=10y"]
USER, PASSWORD = "reader", "hunter2"
_PASSWORD_HASH = "$2b$10$WJ70T.g95AAzyVuYuI.ntuspg1Mag5vKx8uZxHYwW3bolhB2GEvla"
"""bcrypt of the password."""


class Prometheus:
    """One running Prometheus with its data in ``folder``.

    ``history``: samples in the OpenMetrics text format that it has from the start. ``certificates``: it
    speaks TLS, and answers ``USER`` with ``PASSWORD`` alone. ``options``: more for its command line.
    """

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        *,
        history: str | None = None,
        certificates: Certificates | None = None,
        options: Sequence[str] = (),
    ) -> None:
        server = program("prometheus")
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        check("config", file)
        if history is not None:
            text = folder / "history.txt"
            text.write_text(history)
            command = [
                program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text),
                str(folder / "data"),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        self._folder, self._config = folder, file
        self._port = free_port()
        self.url = f"{'https' if certificates else 'http'}://127.0.0.1:{self._port}"
        self._tls, self._headers, web = None, {}, []
        if certificates is not None:
            self._tls = ssl.create_default_context(cafile=str(certificates.authority))
            token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            self._headers = {"Authorization": f"Basic {token}"}
            web = [f"--web.config.file={_secured(folder, certificates)}"]
        where = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        self._command = [
            server, *where, f"--web.listen-address=127.0.0.1:{self._port}", *web, *_OPTIONS, *options
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start it, or start it again where it was stopped, with the data that it has."""
        self._process = ServerProcess(self._command, self._folder / "prometheus.log")
        self._process.wait_until(self._ready, _START_S)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of ``expression`` now: a list of ``{"metric": …, "value": [time, text]}``."""
        with self._open(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}") as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def _open(self, path: str) -> Any:
        request = urllib.request.Request(self.url + path, headers=self._headers)  # noqa: S310 - loopback
        return urllib.request.urlopen(request, timeout=60, context=self._tls)  # noqa: S310 - as above

    def wait_for(self, expression: str, deadline_s: float = 240) -> list[dict[str, Any]]:
        """``query``, repeated until it is not empty: a scrape takes its time."""
        self._process.wait_until(lambda: bool(self.query(expression)), deadline_s)
        return self.query(expression)

    def reload(self) -> None:
        """Read the configuration and the rules again."""
        os.kill(self._process.pid, signal.SIGHUP)

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def _ready(self) -> bool:
        try:
            with self._open("/-/ready") as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _secured(folder: Path, certificates: Certificates) -> Path:
    file = folder / "web.yml"
    tls = {"cert_file": str(certificates.server), "key_file": str(certificates.server)}
    file.write_text(yaml.safe_dump({"tls_server_config": tls, "basic_auth_users": {USER: _PASSWORD_HASH}}))
    return file


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
