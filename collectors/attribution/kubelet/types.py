"""What the kubelet answers: which devices it allocated to which container."""

from typing import NamedTuple


class AllocatedDevice(NamedTuple):
    """A device that a container has. ``device_id`` is a device plugin's, or the last part of a CDI name."""

    namespace: str
    pod: str
    container: str
    device_id: str


class KubeletError(Exception):
    """The kubelet does not answer, or not as it should. Names the socket and why."""
