"""What a pod asks for and was told about GPUs, from its specification and annotations. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Spec = Mapping[str, Any]

_GPU_RESOURCE = re.compile(r"(?:nvidia\.com/(?:gpu(?:\.shared)?|mig-.+)|amd\.com/gpu|gpu\.intel\.com/\w+)")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def gpu_request(spec: Spec) -> float | None:
    """GPUs (or slices, or shares) that the pod asks for at one time; 0 for none.

    None where a claim of Dynamic Resource Allocation may hold GPUs: its size is not in the pod. Init
    containers run before the others and count only where they ask for more; those that go on running
    (``restartPolicy: Always``) count beside the others.
    """
    if spec.get("resourceClaims"):
        return None
    starting = spec.get("initContainers") or ()
    aside = sum(_asked(one) for one in starting if one.get("restartPolicy") == "Always")
    at_start = [_asked(one) for one in starting if one.get("restartPolicy") != "Always"]
    together = aside + sum(_asked(one) for one in spec.get("containers") or ())
    return max([together, *(aside + one for one in at_start)])


def gpu_uuids(spec: Spec, annotations: Mapping[str, str]) -> tuple[str, ...] | None:
    """GPUs that an annotation about GPUs or ``NVIDIA_VISIBLE_DEVICES`` names; None where none does."""
    texts = [value for key, value in annotations.items() if "gpu" in key.rpartition("/")[2]]
    texts += _visible(spec.get("containers") or ())
    found = dict.fromkeys(uuid for text in texts for uuid in _UUID.findall(text))
    return tuple(found) or None


def _visible(containers: Sequence[Spec]) -> Iterator[str]:
    for container in containers:
        for variable in container.get("env") or ():
            if variable.get("name") == _VISIBLE:
                yield variable.get("value") or ""


def _asked(container: Spec) -> float:
    """A resource that is only limited is asked for in the same amount: the API server's own rule."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return sum(_quantity(str(amount)) for name, amount in asked.items() if _GPU_RESOURCE.fullmatch(name))


def _quantity(text: str) -> float:
    """Extended resources are whole numbers; the API server keeps large ones as ``1k``."""
    number, thousands = (text[:-1], 1000) if text.endswith("k") else (text, 1)
    return int(number) * thousands if number.isascii() and number.isdigit() else 0
