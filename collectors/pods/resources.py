"""How much CPU and memory a pod asks for and may use, from its specification, as Kubernetes counts it. Pure.

What counts are the containers that run together: the regular ones, and those init containers that go on
running (``restartPolicy: Always``). What is stated of the pod as a whole counts instead of their sum.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from contract.units import MOST

Spec = Mapping[str, Any]


def request(spec: Spec, resource: str) -> float | None:
    """``cpu`` (cores) or ``memory`` (bytes) that is kept free for the pod; None where nothing is stated."""
    whole = _stated(spec, "requests", resource)
    each = [_asked(one, resource) for one in _running(spec)] if whole is None else [whole]
    known = [amount for amount in each if amount is not None]
    return float(sum(known)) if known else None


def limit(spec: Spec, resource: str) -> float | None:
    """What the pod can use at most; None where one of its containers has no limit, or one of 0, its like."""
    whole = _stated(spec, "limits", resource)
    each = [whole] if whole else [_stated(one, "limits", resource) for one in _running(spec)]
    known = [amount for amount in each if amount]
    return float(sum(known)) if known and len(known) == len(each) else None


def _running(spec: Spec) -> Iterator[Spec]:
    yield from spec.get("containers") or ()
    yield from (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")


def _asked(container: Spec, resource: str) -> Decimal | None:
    """A resource that is only limited is asked for in the same amount: the API server's own rule."""
    asked = _stated(container, "requests", resource)
    return _stated(container, "limits", resource) if asked is None else asked


def _stated(part: Spec, what: str, resource: str) -> Decimal | None:
    """An amount, of a container or of the whole pod; None for none, or for what is no amount."""
    text = ((part.get("resources") or {}).get(what) or {}).get(resource)
    try:
        amount = None if text is None else _parsed(text)
    except ValueError:
        return None
    return amount if amount is not None and amount.is_finite() and 0 <= amount <= MOST else None


def _parsed(text: object) -> Decimal:
    """Raises ``ValueError`` for what is no quantity."""
    return Decimal(parse_quantity(text))  # type: ignore[no-untyped-call]  # the library's gap
