"""Finds the GPU or MIG slice that is meant by the id that the kubelet gave a container. Pure text work.

The forms, as NVIDIA's device plugin, its older versions and GKE's plugin write them:

    GPU-<uuid>                    a whole GPU
    GPU-<uuid>::3                 the third share of one (time slicing or MPS)
    MIG-<uuid>[::3]               a slice, by its own uuid
    MIG-GPU-<uuid>/<gi>/<ci>      a slice, by its GPU, GPU instance and compute instance
    nvidia0[/gi1][/vgpu2]         GKE: a GPU by its number, a slice of it, a share of that
    [<claim>-]gpu-0[-mig-9-4-4]   NVIDIA's DRA driver: a GPU by its number, a slice by profile and place

The number is that of the GPU's device file, ``/dev/nvidia0``.
"""

import re
from dataclasses import dataclass

_HEX = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_BY_UUID = re.compile(rf"(?P<uuid>(?:GPU|MIG)-{_HEX})(?P<share>::\d+)?")
_BY_INSTANCE = re.compile(rf"MIG-(?P<uuid>GPU-{_HEX})/(?P<gi>\d+)/(?P<ci>\d+)(?P<share>::\d+)?")
_GKE = re.compile(r"nvidia(?P<minor>\d+)(?:/gi(?P<gi>\d+))?(?P<share>/vgpu\d+)?")
_CLAIMED = re.compile(rf"(?:{_HEX}-)?gpu-(?P<minor>\d+)(?P<slice>-mig-[\w-]+)?")


@dataclass(frozen=True, slots=True)
class DeviceId:
    """Says what an id means.

    ``uuid``: of the GPU, or of the slice where it begins with ``MIG-``; absent for forms that have the GPU's
    ``minor`` number instead. ``instance``: the GPU instance of a slice that is named by it. ``shared``:
    others may have been given the same device. ``some_slice``: the id does not tell the instance.
    """

    uuid: str | None = None
    minor: int | None = None
    instance: int | None = None
    shared: bool = False
    some_slice: bool = False


def parse_device_id(text: str) -> DeviceId | None:
    """Return what ``text`` means; None for a form that is not known."""
    if match := _BY_UUID.fullmatch(text):
        return DeviceId(uuid=match["uuid"], shared=match["share"] is not None)
    if match := _BY_INSTANCE.fullmatch(text):
        return DeviceId(uuid=match["uuid"], instance=int(match["gi"]), shared=match["share"] is not None)
    if match := _GKE.fullmatch(text):
        instance = None if match["gi"] is None else int(match["gi"])
        return DeviceId(minor=int(match["minor"]), instance=instance, shared=match["share"] is not None)
    if match := _CLAIMED.fullmatch(text):
        return DeviceId(minor=int(match["minor"]), some_slice=match["slice"] is not None)
    return None
