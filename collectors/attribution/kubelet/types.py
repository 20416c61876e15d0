"""Holds what the kubelet answers: which devices it allocated to which container."""

from typing import NamedTuple


class AllocatedDevice(NamedTuple):
    """Names a container's device. ``device_id`` is a device plugin's, or the last part of a CDI name."""

    namespace: str
    pod: str
    container: str
    device_id: str


class KubeletError(Exception):
    """Says that the kubelet does not answer, or not as it should: at which socket, and why."""
