"""Loopback ports for servers that must be told theirs before they start."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Below the range from which kernels take the ports of outgoing connections (32768 on Linux). A client that
# keeps reconnecting to a stopped server's port would sooner or later be given that very port as its own,
# connect to itself, and keep the server from starting again.
_RANGE = range(15_000, 32_000)
_choice = random.SystemRandom()
_claims = (Path(tempfile.gettempdir()) / f"dutycycle-test-ports-{os.getuid()}").open("ab")
"""A byte for each port, locked by the process that took the port, until that ends: a server binds its port
seconds after it was chosen, and keeps it while it is stopped and started."""
_taken: set[int] = set()


def free_port() -> int:
    """A port that nothing listens on, and that no test of any process on this machine has taken."""
    for _ in range(200):
        port = _choice.choice(_RANGE)
        if port in _taken:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            _taken.add(port)
            return port
    raise RuntimeError(f"no free port on 127.0.0.1 in {_RANGE}")
