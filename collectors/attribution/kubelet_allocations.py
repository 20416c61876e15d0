"""Tells which containers each GPU is allocated to, by the kubelet's pod-resources socket."""

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from collectors.attribution.device_id import DeviceId, parse_device_id
from collectors.attribution.kubelet.types import AllocatedDevice, KubeletError
from dutycycle.contract.records.samples import Allocation
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import KUBELET_UNREACHABLE, NOT_MEASURED, Telemetry

_WHAT = "pod-resources"
_EVERY_S = 10.0
SOCKET = "var/lib/kubelet/pod-resources/kubelet.sock"
"""Below the host's root."""
_GPUS = "proc/driver/nvidia/gpus"
"""Below it, too: a folder for each GPU."""
_INFORMATION = re.compile(r"^(Device Minor|GPU UUID):\s*(\S+)", re.MULTILINE)

UidOf = Callable[[str, str], str | None]
"""The uid of the pod of a namespace and a name, None if it is not known: the kubelet gives only names."""


class Lister(Protocol):
    """Lists what is allocated; ``KubeletClient`` is one."""

    def devices(self) -> list[AllocatedDevice]:
        """Return every device of every container. Raises ``KubeletError``."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Allocations:
    """Asks the kubelet every ten seconds, in a thread of its own, so that no tick waits for it."""

    def __init__(
        self, lister: Lister, uid_of: UidOf, telemetry: Telemetry, every_s: float = _EVERY_S,
        host_root: str = "/",
    ) -> None:  # fmt: skip
        self._lister = lister
        self._host_root = host_root
        self._uuids: Mapping[int, str] = {}
        """Names each GPU by the number of its device file, as far as the driver tells."""
        self._uid_of = uid_of
        self._telemetry = telemetry
        self._every_s = every_s
        self._devices: list[tuple[AllocatedDevice, DeviceId]] | None = None
        self._unknown: set[str] = set()
        self._asking = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-resources", daemon=True)
        self._thread.start()

    def of(self, uuid: str, index: int, slices: Mapping[str, int]) -> tuple[Allocation, ...] | None:
        """Tell who holds the GPU or one of its slices; None while that is not known, which is not "nobody".

        ``slices`` are the GPU instances of the GPU's MIG slices by uuid, where it has any. It is not known
        either which slice a container has whose id fits several: a claim tells only the profile, other ids
        the GPU instance, which slices may share.
        """
        given = self._devices
        if given is None:
            return None
        holders: dict[Allocation, None] = {}
        for allocated, device in given:
            if device.minor is not None:  # mostly the index
                of_minor = self._uuids.get(device.minor)
                is_on = device.minor == index if of_minor is None else of_minor == uuid
            else:
                is_on = device.uuid == uuid or device.uuid in slices
            if not is_on:
                continue
            # The slices that the id may mean; None alone for the whole GPU
            meant: list[str | None] = [device.uuid if device.uuid in slices else None]
            if device.some_slice:
                meant = [*slices]
            elif device.instance is not None:
                meant = [uuid for uuid, instance in slices.items() if instance == device.instance]
            if len(meant) != 1:
                return None
            holder = Allocation(
                pod_uid=self._uid_of(allocated.namespace, allocated.pod),
                namespace=allocated.namespace,
                pod=allocated.pod,
                container=allocated.container,
                mig=meant[0],
                shared=device.shared or None,
            )
            holders[holder] = None
        return tuple(holders)

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.ask()
            self._stop.wait(self._every_s)
        self._lister.close()

    def ask(self) -> None:
        """Ask once, and keep the answer. Without one, all allocations are unknown.

        Any thread may ask: questions wait for one another, so an older answer never replaces a newer one.
        """
        with self._asking:
            try:
                given = self._lister.devices()
            except KubeletError as error:
                self._devices = None
                detail = f"{error}; what a container was given is unknown"
                self._telemetry.raise_condition(KUBELET_UNREACHABLE, _WHAT, detail)
                return
            self._telemetry.clear_condition(KUBELET_UNREACHABLE, _WHAT, "the kubelet answers")
            self._uuids = uuids_by_minor(self._host_root)
            parsed = [(allocated, parse_device_id(allocated.device_id)) for allocated in given]
            self._devices = [(allocated, device) for allocated, device in parsed if device is not None]
            # Devices of other plugins than NVIDIA's are left out without a word.
            ids = {allocated.device_id for allocated, device in parsed if device is None}
            for device_id in ids - self._unknown:
                if device_id.startswith(("GPU-", "MIG-", "nvidia", "gpu-")):
                    self._unknown.add(device_id)
                    detail = f"a GPU's device id of a form that is not known: {device_id!r:.100}"
                    self._telemetry.emit(NOT_MEASURED, detail, what="allocation", reason="device_id")


def uuids_by_minor(host_root: str) -> dict[int, str]:
    """Return the uuids of GPUs by the numbers of their device files, as the kernel module tells; empty where
    it does not, as in WSL."""
    uuids = {}
    for file in Path(host_root, _GPUS).glob("*/information"):
        try:
            words = dict(_INFORMATION.findall(file.read_text(encoding="utf-8", errors="replace")))
        except OSError:  # the GPU is gone
            continue
        if words.get("Device Minor", "").isdigit() and words.get("GPU UUID", "?").startswith("GPU-"):
            uuids[int(words["Device Minor"])] = words["GPU UUID"]
    return uuids


def allocations(settings: Settings, telemetry: Telemetry, uid_of: UidOf) -> Allocations | None:
    """Return what asks the kubelet of this node; None where there is none to ask.

    The setting ``pod_resources`` is ``auto`` (where the socket is there at the start), ``off``, or the path
    of a socket that will be there.
    """
    if settings.pod_resources == "off":
        return None
    socket = Path(settings.pod_resources)
    if settings.pod_resources == "auto":
        socket = Path(settings.host_root) / SOCKET
        with suppress(PermissionError):  # then the first question reports it, with the socket's name
            if not socket.is_socket():
                return None
    # Only here: loading gRPC takes a tenth of a second, and most machines have no kubelet.
    from collectors.attribution.kubelet.client import KubeletClient

    return Allocations(KubeletClient(socket), uid_of, telemetry, host_root=settings.host_root)
