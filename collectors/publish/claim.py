"""One collector a node: a second one on this machine is refused while the first one runs.

Two would double every figure that is summed over time and fight for the node's cycle. On another machine one
with the same node's name cannot be seen from here: the streams notice it (``rival_collectors``).
"""

import fcntl
import hashlib
import os
from collections.abc import Mapping

from collectors.publish.spool_location import EMBEDDED, default_folder
from contract.errors import DutycycleError
from contract.settings.settings import Settings


class NodeClaimedError(DutycycleError):
    """Another collector reports this node to topics of the same names."""


class Claim:
    """Held until ``release``, or until the process is gone, however it ended."""

    def __init__(self, lock: int | None) -> None:
        self._lock = lock

    def release(self) -> None:
        """Let others report the node."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def claim_node(settings: Settings, environ: Mapping[str, str]) -> Claim:
    """Claim the node for its topics. Raises ``NodeClaimedError``.

    Where there is no folder to write in, as in a container with a read-only root, nothing is claimed: the
    container's own spool keeps a second one out.
    """
    # Not by the broker: one has many spellings. An embedded one has a single spelling, and topics of its own.
    broker = settings.broker if EMBEDDED in environ else ""
    topics = f"{broker}\n{settings.topic_prefix}\n{settings.node}"
    folder = default_folder(environ).with_name("nodes")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = hashlib.sha256(topics.encode()).hexdigest()[:32]
        lock = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return Claim(None)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise NodeClaimedError(
            f"another collector on this machine reports node {settings.node} to topics of these names: "
            "stop it, or give this one a DUTYCYCLE_NODE of its own (or, if its broker is another, a "
            "DUTYCYCLE_TOPIC_PREFIX)"
        ) from error
    return Claim(lock)
