"""Reads and writes Kubernetes quantities: ``500m`` cores, ``2Gi`` bytes, ``1e3``. Pure.

ConfigSource: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from decimal import ROUND_CEILING, Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII)
_DECIMAL = dict(zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True))
_BINARY = "KMGTPE"
_NANOS = (
    ("", 10**9),
    *((suffix, 10 ** (power + 9)) for suffix, power in _DECIMAL.items()),
    *((f"{suffix}i", 1024**power * 10**9) for power, suffix in enumerate(_BINARY, 1)),
)
"""A unit's size, by its suffix; of texts of one length the first one counts."""


def parse_quantity(text: object) -> Decimal | None:
    """Return the amount in units: cores, bytes, devices. None for what is no quantity."""
    match = _QUANTITY.fullmatch(str(text))
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
    nanos = int(amount.scaleb(9).to_integral_value(ROUND_CEILING))  # finer ones the API server rounds up, too
    return min((f"{nanos // unit}{suffix}" for suffix, unit in _NANOS if nanos % unit == 0), key=len)
