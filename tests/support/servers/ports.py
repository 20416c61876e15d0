"""Loopback ports for servers that must be told theirs before they start."""

import random
import socket

# Below the range from which kernels take the ports of outgoing connections (32768 on Linux). A client that
# keeps reconnecting to a stopped server's port would sooner or later be given that very port as its own,
# connect to itself, and keep the server from starting again.
_RANGE = range(15_000, 32_000)
_choice = random.SystemRandom()


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    for _ in range(200):
        port = _choice.choice(_RANGE)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port on 127.0.0.1 in {_RANGE}")
