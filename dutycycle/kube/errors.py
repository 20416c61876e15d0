"""Says what a request that failed means to whoever asked: ask again, give it up, or forget the object.
Pure."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import orjson

_BUSY_STATUS = frozenset({401, 408, 409, 410, 425, 429})
_EVERYTHING = frozenset({401, 429, 503})
_LENGTH = 300
_LONGEST_WAIT_S = 600.0


class KubeError(Exception):
    """Says why a request did not succeed.

    ``reason`` is an HTTP status, or one of ``timeout``, ``certificate``, ``connection``, ``answer``: a label
    of metrics. ``retry_after_s`` is what the server asked to wait, None where it did not.
    """

    def __init__(self, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def detail(self) -> str:
        """Return the message without the status before it."""
        return str(self).removeprefix(f"{self.reason}: ")


class GoneError(KubeError):
    """Says that the object is not there, or another one of the same name."""

    def __init__(self, message: str, reason: str = "404") -> None:
        super().__init__(reason, message)


class NotServedError(GoneError):
    """Says that nothing is served at this path: the kind is gone since it was asked for, or this version of
    it."""


class NoKindError(GoneError):
    """Says that the API server serves no such kind: its definition is not installed. Asked again after a
    while."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "no_kind")


class BusyError(KubeError):
    """Says that a request is to be tried again, after ``retry_after_s`` if that is given.

    ``everything``: no other request would succeed now. Otherwise it may be this object alone.
    """

    def __init__(
        self, reason: str, message: str, *, retry_after_s: float | None = None, everything: bool = False
    ) -> None:
        super().__init__(reason, message, retry_after_s)
        self.everything = everything


class RefusedError(KubeError):
    """Says that the API server will not take this, however often it is asked."""


def explain(error: KubeError, what: str, address: str) -> str:
    """Say to a user that ``what`` was wanted of the API server at ``address``, and this came instead."""
    if error.reason == "401":
        return f"{address} does not accept your credentials (401): log in again, or check --context"
    if error.reason.isdecimal():
        return f"cannot {what}: {error.detail or error}"
    return f"{error}; check the cluster and --context"


def error_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """Return the error of an answer that is no success. 401 is busy: a token that rotated is read anew.

    Of an object that is not there the server tells the name; of a path that it does not serve it cannot.
    """
    name = None
    try:
        answer = orjson.loads(body)  # the server's ``Status`` object
        text, name = str(answer["message"]), (answer.get("details") or {}).get("name")
    except (ValueError, KeyError, TypeError):
        text = body.decode("utf-8", "replace")
    message = f"{status}: {' '.join(text.split())[:_LENGTH]}"
    if status == 404:
        return GoneError(message) if name else NotServedError(message)
    if status in _BUSY_STATUS or status >= 500:
        wait_s = retry_after_s(headers)
        return BusyError(str(status), message, retry_after_s=wait_s, everything=status in _EVERYTHING)
    return RefusedError(str(status), message)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return seconds that the answer asks to wait, 600 at most; None where it does not say.

    The API server gives whole seconds. A proxy before it may give a date, which is taken against the answer's
    own ``Date``: our clock may differ.
    """
    given = (headers.get("Retry-After") or "").strip()
    if given.isascii() and given.isdecimal():
        return min(float(given), _LONGEST_WAIT_S)
    try:
        until, now = parsedate_to_datetime(given), parsedate_to_datetime(headers.get("Date") or "")
        return min(max((until - now).total_seconds(), 0.0), _LONGEST_WAIT_S)
    except (ValueError, TypeError):  # no date, or one with a zone and one without
        return None
