"""What happens when a server's program is not on this machine."""

import os
from typing import NoReturn

import pytest


class ServerMissingError(Exception):
    """A test server cannot be had here. The message says what is missing and how to get it."""


def skip_or_fail(reason: ServerMissingError) -> NoReturn:
    """Skip the test; fail it under ``CI=true``, where .ci/run has brought every server."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI needs every test server: {reason}", pytrace=False)
    pytest.skip(str(reason))
