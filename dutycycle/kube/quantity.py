"""Kubernetes quantities: ``500m`` cores, ``2Gi`` bytes, ``1e3``. Pure.

ConfigSource: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII)
_DECIMAL = dict(zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True))
_BINARY = "KMGTPE"


def parse_quantity(text: object) -> Decimal | None:
    """The amount in units: cores, bytes, devices. None for what is no quantity."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        return None
    number, suffix, exponent = match.groups()
    if suffix is None:
        return Decimal(number).scaleb(int(exponent or 0))
    if suffix.endswith("i"):
        return Decimal(number) * Decimal(1024) ** (_BINARY.index(suffix[0]) + 1)
    return Decimal(number).scaleb(_DECIMAL[suffix])
