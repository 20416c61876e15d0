"""Counts the GPUs of a pod's claims of Dynamic Resource Allocation, as far as files say what these ask for.
Pure.

A claim has requests of devices, each of a DeviceClass. Since v1beta2 what a request asks for stands in its
``exactly``, and before that in the request itself. See
https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dutycycle.submit.documents import ManifestDocument

Part = Mapping[str, Any]
_GPUS = re.compile(r"(?:(?:vfio\.)?gpu|mig)\.nvidia\.com|gpu\.(?:amd|intel)\.com").fullmatch
"""Classes and drivers of GPUs and of their slices, as the drivers of their vendors call them."""
_NO_GPUS = re.compile(r"compute-domain-[\w-]+\.nvidia\.com").fullmatch
_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""").search
_SOURCES = {"resourceClaimTemplateName": "ResourceClaimTemplate", "resourceClaimName": "ResourceClaim"}


class UnknownClaimError(ValueError):
    """Says why it is not known how many GPUs a pod's claims hold."""


def claimed_gpus(spec: Part, namespace: str, documents: Sequence[ManifestDocument]) -> float:
    """Return how many GPUs and slices the claims of a pod in ``namespace`` hold; 0 for none.

    Raises ``UnknownClaimError``. Several of its claims may be of one template and hold devices each; a claim
    that is named twice holds its devices once.
    """
    total, counted = 0.0, set[str]()
    for entry in _parts(spec, "resourceClaims"):
        # Until Kubernetes 1.30 it stood in a part of its own.
        source = entry["source"] if isinstance(entry.get("source"), Mapping) else entry
        kind, name = next(
            ((kind, str(source[key])) for key, kind in _SOURCES.items() if source.get(key)), ("", "")
        )
        if not kind:
            which = f"its claim {entry['name']}" if entry.get("name") else "one of its claims"
            raise UnknownClaimError(f"{which} names no {' or '.join(_SOURCES)}")
        if kind == "ResourceClaim":
            if name in counted:
                continue
            counted.add(name)
        if kind == "ResourceClaimTemplate" and any(map(partial(_makes_channel, name), documents)):
            continue
        claim = _find(kind, name, documents, namespace)
        if claim is None:
            raise UnknownClaimError(
                f"how many GPUs it gets stands in {kind} {name}, which is not in these files: kubectl get "
                f"{kind.lower()} {name} -n {namespace} -o yaml > claim.yaml, and give that file too"
            )
        devices = (claim.spec.get("spec") or {}) if kind == "ResourceClaimTemplate" else claim.spec
        try:
            total += sum(_of_request(part, documents) for part in _parts(devices["devices"], "requests"))
        except (AttributeError, KeyError, TypeError) as error:
            raise UnknownClaimError(f"{claim.where}: {kind} {name} has no spec.devices.requests") from error
        except UnknownClaimError as error:
            raise UnknownClaimError(f"how many GPUs it gets is not known: {kind} {name}: {error}") from error
    return total


def _parts(thing: Part, key: str) -> list[Part]:
    parts = thing.get(key)
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        raise UnknownClaimError(f"its {key} are no list of objects")
    return parts


def _of_request(request: Part, documents: Sequence[ManifestDocument]) -> float:
    """Return the GPUs of one request; of a list of choices only where all are of as many."""
    name = request.get("name")
    if request.get("firstAvailable"):
        choices = [_of_exact(choice, documents) for choice in _parts(request, "firstAvailable")]
        if len(set(choices)) > 1:
            counts = " or ".join(f"{count:g}" for count in choices)
            raise UnknownClaimError(f"its request {name} takes the first available of {counts} GPUs")
        return choices[0]
    return _of_exact(request.get("exactly") or request, documents)


def _of_exact(asked: Part, documents: Sequence[ManifestDocument]) -> float:
    class_name, count = str(asked.get("deviceClassName")), asked.get("count", 1)
    if asked.get("adminAccess") is True or _NO_GPUS(class_name):
        return 0.0  # who watches devices takes none
    if not _GPUS(class_name):
        device_class = _find("DeviceClass", class_name, documents)
        selectors = "" if device_class is None else str(device_class.spec.get("selectors"))
        driver = _DRIVER(selectors.replace("\\", ""))
        if driver is None:
            file = "is not in these files" if device_class is None else "names no device.driver"
            raise UnknownClaimError(f"its DeviceClass {class_name} {file}, and may be of GPUs")
        if not _GPUS(driver[1]):
            return 0.0
    if asked.get("allocationMode") == "All":
        raise UnknownClaimError(f"it takes all devices of {class_name} that match on a node")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UnknownClaimError(f"count: {count!r} is no whole number from 1 on")
    return float(count)


def _makes_channel(name: str, document: ManifestDocument) -> bool:
    """Tell whether a ComputeDomain makes the template of this name: it is of channels, and of no GPUs."""
    channel = document.spec.get("channel") if document.kind == "ComputeDomain" else None
    template = channel.get("resourceClaimTemplate") if isinstance(channel, Mapping) else None
    return isinstance(template, Mapping) and template.get("name") == name


def _find(
    kind: str, name: str, documents: Sequence[ManifestDocument], namespace: str | None = None
) -> ManifestDocument | None:
    return next(
        (
            document for document in documents
            if (document.kind, document.name) == (kind, name) and document.namespace in (None, namespace)
        ),
        None,
    )  # fmt: skip
