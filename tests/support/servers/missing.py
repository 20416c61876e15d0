"""What happens when a server or a tool is not on this machine."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

_PACKAGES = {
    "amtool": "prometheus-alertmanager", "cc": "gcc libc6-dev", "chromium": "chromium", "etcd": "etcd-server",
    "fish": "fish", "java": "default-jre-headless", "jq": "jq", "kcat": "kcat", "mvn": "maven",
    "openssl": "openssl", "prometheus": "prometheus", "prometheus-alertmanager": "prometheus-alertmanager",
    "promtool": "prometheus", "psql": "postgresql-client", "tmux": "tmux", "zsh": "zsh",
}  # fmt: skip
"""Programs that tests run, and the Debian package of each."""


class ServerMissingError(Exception):
    """A test server cannot be had here. The message says what is missing and how to get it.

    Raise it from a test or a fixture: the plugin skips the test, or fails it in CI.
    """


def program(name: str) -> str:
    """The path of a program that not every machine has. Raises ``ServerMissingError``."""
    if found := shutil.which(name):
        return found
    raise ServerMissingError(f"{name} is not installed (Debian: apt-get install {_PACKAGES[name]})")


def run_or_miss(
    command: Sequence[str | Path],
    what: str,
    seconds: int,
    *,
    folder: Path,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run what brings a server; its output. Raises ``ServerMissingError`` if it fails, or takes so long."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=seconds,
            cwd=folder, env=env,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ServerMissingError(f"{what} was not done after {seconds} s") from error
    if done.returncode:
        raise ServerMissingError(f"{what} failed: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def skip_or_fail(reason: ServerMissingError) -> NoReturn:
    """Skip the test; fail it under ``CI=true``, where .ci/run has brought every server."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI needs every test server: {reason}", pytrace=False)
    pytest.skip(str(reason))
