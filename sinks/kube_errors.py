"""What the API server's refusals mean for a write: try again, give it up, or forget the object. Pure."""

import orjson

_BUSY_STATUS = frozenset({401, 408, 409, 425, 429})
_EVERYTHING = frozenset({401, 429, 503})
_LENGTH = 300


class KubeError(Exception):
    """A request that did not succeed. ``reason`` is a status or one of a few words: a metric's label."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class GoneError(KubeError):
    """The object is not there, or another one of the same name."""

    def __init__(self, message: str) -> None:
        super().__init__("404", message)


class BusyError(KubeError):
    """To be tried again, after ``retry_after_s`` if that is given.

    ``everything``: no other request would fare better now. Otherwise it may be this object alone.
    """

    def __init__(
        self, reason: str, message: str, *, retry_after_s: float | None = None, everything: bool = False
    ) -> None:
        super().__init__(reason, message)
        self.retry_after_s = retry_after_s
        self.everything = everything


class RefusedError(KubeError):
    """The API server will not take this, however often it is asked."""


def error_of(status: int, retry_after: str | None, body: bytes) -> KubeError:
    """The error of an answer that is no success. 401 is busy: a token that rotated is read anew."""
    message = f"{status}: {_message(body)}"
    if status == 404:
        return GoneError(message)
    if status in _BUSY_STATUS or status >= 500:
        return BusyError(
            str(status), message, retry_after_s=_seconds(retry_after), everything=status in _EVERYTHING
        )
    return RefusedError(str(status), message)


def _seconds(retry_after: str | None) -> float | None:
    """The API server gives whole seconds, never a date."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None


def _message(body: bytes) -> str:
    """What the server's ``Status`` object says, else the beginning of the answer."""
    try:
        found = str(orjson.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        found = body.decode("utf-8", "replace")
    return " ".join(found.split())[:_LENGTH]
