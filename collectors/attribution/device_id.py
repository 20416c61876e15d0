"""Finds the GPU or MIG slice that is meant by the id that the kubelet gave a container. Pure text work.

The forms, as NVIDIA's device plugin, its older versions and GKE's plugin write them:

    GPU-<uuid>                    a whole GPU
    GPU-<uuid>::3                 the third share of one (time slicing or MPS)
    MIG-<uuid>[::3]               a slice, by its own uuid
    MIG-GPU-<uuid>/<gi>/<ci>      a slice, by its GPU, GPU instance and compute instance
    nvidia0[/gi1][/vgpu2]         GKE: a GPU by its index, a slice of it, a share of that
"""

import re
from dataclasses import dataclass

_HEX = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_BY_UUID = re.compile(rf"(?P<uuid>(?:GPU|MIG)-{_HEX})(?P<share>::\d+)?")
_BY_INSTANCE = re.compile(rf"MIG-(?P<uuid>GPU-{_HEX})/(?P<gi>\d+)/(?P<ci>\d+)(?P<share>::\d+)?")
_GKE = re.compile(r"nvidia(?P<index>\d+)(?:/gi(?P<gi>\d+))?(?P<share>/vgpu\d+)?")


@dataclass(frozen=True, slots=True)
class DeviceId:
    """Says what an id means.

    ``uuid``: of the GPU, or of the slice where it begins with ``MIG-``; absent for GKE's form, which has the
    GPU's ``index`` instead. ``instance``: the GPU instance of a slice that is named by it. ``shared``: others
    may have been given the same device.
    """

    uuid: str | None = None
    index: int | None = None
    instance: int | None = None
    shared: bool = False


def parse_device_id(text: str) -> DeviceId | None:
    """Return what ``text`` means; None for a form that is not known."""
    if match := _BY_UUID.fullmatch(text):
        return DeviceId(uuid=match["uuid"], shared=match["share"] is not None)
    if match := _BY_INSTANCE.fullmatch(text):
        return DeviceId(uuid=match["uuid"], instance=int(match["gi"]), shared=match["share"] is not None)
    if match := _GKE.fullmatch(text):
        instance = None if match["gi"] is None else int(match["gi"])
        return DeviceId(index=int(match["index"]), instance=instance, shared=match["share"] is not None)
    return None
