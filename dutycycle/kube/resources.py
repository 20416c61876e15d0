"""Counts CPU, memory and GPUs of a pod, from its specification and annotations, as Kubernetes counts them,
and reads and writes its quantities. Pure.

What counts are the containers that run together: the regular ones, and those init containers that go on
running (``restartPolicy: Always``). What is stated of the pod as a whole counts instead of their sum.

Quantities, such as ``500m`` cores, ``2Gi`` bytes, ``1e3``, are those of
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from dutycycle.contract.units import MAX_AMOUNT

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII)
_DECIMAL = dict(zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True))
_BINARY = "KMGTPE"
_MILLIS = (
    ("", 10**3),
    *((suffix, 10 ** (power + 3)) for suffix, power in _DECIMAL.items() if power >= -3),
    *((f"{suffix}i", 1024**power * 10**3) for power, suffix in enumerate(_BINARY, 1)),
)
"""A unit's size, by its suffix; of texts of one length the first one counts."""
Spec = Mapping[str, Any]
is_gpu = re.compile(
    r"nvidia[._]com[/_](?:[pv]?gpu(?:[._]shared)?|mig[-_].+|(?!(?i:.*(?:rdma|sriov|vf)))(?:[A-Z]\w*_.+"
    r"|(?i:(?:rtx|gtx|tesla|quadro|titan)\w*"
    r"|(?:a2|[lpt]4)[a-z]*|(?:[abhlptv]|g[abhpv])[1-9]\d+\w*)(?:[-._].+)?))"
    r"|amd[._]com[/_](?:gpu|[sdtqc]px_nps\d)|gpu[._]intel[._]com[/_](?:i915|xe)"
    r"|deviceclass\.resource\.kubernetes\.io/(?:(?:(?:vfio\.)?gpu|mig)\.nvidia|gpu\.(?:amd|intel))\.com"
).fullmatch
"""Matches a resource that counts GPUs or parts of them, as Kubernetes or kube-state-metrics writes it, with
``_`` for what a label may not hold. ``nvidia.com/GP102GL_Tesla_P40`` and ``nvidia.com/NVIDIA_A10-12Q`` are a
whole GPU and a virtual one for KubeVirt, ``nvidia.com/a100`` one that a cluster calls by its model,
``amd.com/cpx_nps4`` a partition. NVIDIA's network cards are of the same domain, by names that clusters give
them, such as ``nvidia.com/p0_sriov``, and are none."""
is_like_gpu = re.compile(r".*(?:gpu|cuda).*", re.IGNORECASE).fullmatch
"""Matches what asks for GPUs, or for a part of one without their number."""
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FRACTION, _FRACTION_DEVICES, _GPU_MEMORY = "gpu-fraction", "gpu-fraction-num-devices", "gpu-memory"
"""Annotations of the KAI scheduler, and of Run:ai."""
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def parse_quantity(text: object) -> Decimal | None:
    """Return the amount in units: cores, bytes, devices. None for what is no quantity."""
    match = _QUANTITY.fullmatch(str(text).strip(" "))  # as the API server reads it
    if match is None:
        return None
    number, suffix, exponent = match.groups()
    if suffix is None:
        return Decimal(number).scaleb(int(exponent or 0))
    if suffix.endswith("i"):
        return Decimal(number) * Decimal(1024) ** (_BINARY.index(suffix[0]) + 1)
    return Decimal(number).scaleb(_DECIMAL[suffix])


def quantity_text(value: object) -> str:
    """Return one text for each amount, however it is written: ``8`` for 8, ``"8"`` and ``8000m``.

    The shortest there is, which is the API server's own for what is whole in the unit it was written in.
    What is no quantity stays as it is.
    """
    amount = parse_quantity(value)
    if amount is None:
        return str(value)
    # Finer ones the API server rounds up, too.
    millis = int(amount.scaleb(3).to_integral_value(ROUND_CEILING))
    return min((f"{millis // unit}{suffix}" for suffix, unit in _MILLIS if millis % unit == 0), key=len)


def request(spec: Spec, resource: str) -> float | None:
    """Return ``cpu`` (cores) or ``memory`` (bytes) that is kept free for the pod; None where nothing is
    stated."""
    whole = _stated(spec, "requests", resource)
    each = [_asked(container, resource) for container in _running(spec)] if whole is None else [whole]
    known = [amount for amount in each if amount is not None]
    if not known:  # the API server's own rule
        whole = _stated(spec, "limits", resource)
    return float(sum(known)) if known else None if whole is None else float(whole)


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
    has no known size, such as ``aliyun.com/gpu-mem``, or an amount that is none, such as one that is filled
    in later. ``annotations``: those of the pod, by which schedulers such as KAI give a part of a GPU to a pod
    whose containers ask for none; None for no annotations. Other init containers run one by one before the
    rest, and count only where one asks for more.
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
        amounts = {**(stated.get("requests") or {}), **(stated.get("limits") or {})}
        for name, text in amounts.items():
            if is_gpu(name):
                is_unknown = text is not None and parse_quantity(text) is None
            else:
                is_unknown = is_like_gpu(name) is not None and bool(_asked(container, name))
            if is_unknown:
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
    return {name: float(_asked(container, name) or 0) for name in sorted(names) if is_gpu(name)}


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
