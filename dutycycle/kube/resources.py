"""Counts CPU, memory and GPUs of a pod, from its specification and annotations, as Kubernetes counts them.
Pure.

What counts are the containers that run together: the regular ones, and those init containers that go on
running (``restartPolicy: Always``). What is stated of the pod as a whole counts instead of their sum.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from dutycycle.contract.units import MAX_AMOUNT
from dutycycle.kube.quantity import parse_quantity

Spec = Mapping[str, Any]

_GPU_RESOURCE = re.compile(
    r"nvidia\.com/(?:[pv]?gpu|gpu\.shared|mig-.+|[A-Z]\w*_.+)|amd\.com/(?:gpu|[sdtqc]px_nps\d)|gpu\.intel\.com/(?:i915|xe)"
    r"|deviceclass\.resource\.kubernetes\.io/(?:(?:(?:vfio\.)?gpu|mig)\.nvidia|gpu\.(?:amd|intel))\.com"
)
"""``nvidia.com/GP102GL_Tesla_P40`` and ``nvidia.com/NVIDIA_A10-12Q`` are a whole GPU and a virtual one for
KubeVirt, ``amd.com/cpx_nps4`` a partition."""
_LIKE_GPU = re.compile(r".*(?:gpu|cuda).*", re.IGNORECASE)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FRACTION, _FRACTION_DEVICES, _GPU_MEMORY = "gpu-fraction", "gpu-fraction-num-devices", "gpu-memory"
"""Annotations of the KAI scheduler, and of Run:ai."""
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def request(spec: Spec, resource: str) -> float | None:
    """Return ``cpu`` (cores) or ``memory`` (bytes) that is kept free for the pod; None where nothing is
    stated."""
    whole = _stated(spec, "requests", resource)
    each = [_asked(container, resource) for container in _running(spec)] if whole is None else [whole]
    known = [amount for amount in each if amount is not None]
    return float(sum(known)) if known else None


def limit(spec: Spec, resource: str) -> float | None:
    """Return what the pod can use at most; None where one of its containers has no limit, or a limit of 0."""
    whole = _stated(spec, "limits", resource)
    each = [whole] if whole else [_stated(container, "limits", resource) for container in _running(spec)]
    known = [amount for amount in each if amount]
    return float(sum(known)) if known and len(known) == len(each) else None


def gpu_request(
    spec: Spec, annotations: Mapping[str, str] | None, claimed: float | None = None
) -> float | None:
    """Return GPUs (or slices, or shares) that the pod asks for at one time; 0 for none.

    ``claimed``: those that its claims of Dynamic Resource Allocation hold, whose size is not in the pod. None
    where a claim may hold GPUs and it is absent, and where all that is asked for is a resource of a GPU that
    has no known size, such as ``aliyun.com/gpu-mem``. ``annotations``: those of the pod, by which
    schedulers such as KAI give a part of a GPU to a pod whose containers ask for none; None for no
    annotations. Other init containers run one by one before the rest, and count only where one asks for more.
    """
    if spec.get("resourceClaims") and claimed is None:
        return None
    starting = spec.get("initContainers") or ()
    beside = sum(_gpus(container) for container in starting if _goes_on(container))
    together = beside + sum(_gpus(container) for container in spec.get("containers") or ())
    most = max([together, *(beside + _gpus(container) for container in starting if not _goes_on(container))])
    for container in (*starting, *(spec.get("containers") or ())) if not most else ():
        # Does it ask for something of GPUs that is no number of them?
        stated = container.get("resources") or {}
        for name in {*(stated.get("limits") or ()), *(stated.get("requests") or ())}:
            if _LIKE_GPU.fullmatch(name) and not _GPU_RESOURCE.fullmatch(name) and _asked(container, name):
                return None
    if most or claimed:
        return most + (claimed or 0)
    annotations = annotations or {}
    fraction, memory = annotations.get(_FRACTION), annotations.get(_GPU_MEMORY)
    if not fraction:
        return None if memory else 0
    part, devices = parse_quantity(fraction), parse_quantity(annotations.get(_FRACTION_DEVICES, "1"))
    if part is None or devices is None or not 0 <= part * devices <= MAX_AMOUNT:
        return None
    return float(part * devices)


def gpu_resources(container: Spec) -> dict[str, float]:
    """Return the GPUs that a container asks for, by resource, such as ``nvidia.com/gpu``."""
    stated = container.get("resources") or {}
    names = {*(stated.get("limits") or ()), *(stated.get("requests") or ())}
    return {
        name: float(_asked(container, name) or 0) for name in sorted(names) if _GPU_RESOURCE.fullmatch(name)
    }


def gpu_uuids(spec: Spec, annotations: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return GPUs that an annotation about GPUs or ``NVIDIA_VISIBLE_DEVICES`` names; None where none does."""
    texts = [value for key, value in annotations.items() if "gpu" in key.rpartition("/")[2]]
    for container in spec.get("containers") or ():
        variables = container.get("env") or ()
        texts += [variable.get("value") or "" for variable in variables if variable.get("name") == _VISIBLE]
    uuids = dict.fromkeys(uuid for text in texts for uuid in _UUID.findall(text))
    return tuple(uuids) or None


def _running(spec: Spec) -> Iterator[Spec]:
    yield from spec.get("containers") or ()
    yield from filter(_goes_on, spec.get("initContainers") or ())


def _goes_on(init_container: Spec) -> bool:
    return init_container.get("restartPolicy") == "Always"


def _asked(container: Spec, resource: str) -> Decimal | None:
    """Return what a container asks for; of a resource that is only limited the limit, which is the API
    server's own rule."""
    asked = _stated(container, "requests", resource)
    return _stated(container, "limits", resource) if asked is None else asked


def _gpus(container: Spec) -> float:
    return sum(gpu_resources(container).values())


def _stated(part: Spec, what: str, resource: str) -> Decimal | None:
    """Return an amount, of a container or of the whole pod; None for none, or for what is no amount."""
    text = ((part.get("resources") or {}).get(what) or {}).get(resource)
    amount = None if text is None else parse_quantity(text)
    return amount if amount is not None and 0 <= amount <= MAX_AMOUNT else None
