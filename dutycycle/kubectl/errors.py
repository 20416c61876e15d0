"""What the plugin's user has to know instead of an answer, from what went wrong; each is one line. Pure."""

import re

import orjson

from contract.errors import DutycycleError

_LONGEST = 300
_WRAPPING = re.compile(r"^\[Errno \d+\] |^(?:SSLError )?\S*\] | \(_ssl\.c:\d+\).*$")
"""Around the words of the system and of OpenSSL: ``[Errno 111] …``, ``[SSL] … (_ssl.c:997)``."""
_USER = re.compile(r'User "[^"]*"')


class KubectlError(DutycycleError):
    """What the user has to know instead of an answer; one line."""


class ForbiddenError(KubectlError):
    """The API server does not let this user do that: ``what``, such as ``list pods``.

    ``user`` is whom the server takes the user for: ``User "jane"``; empty where it did not say.
    """

    def __init__(self, what: str, user: str) -> None:
        whom = f", for {user}" if user else ""
        super().__init__(
            f"you may not {what}: ask for that permission, which the ClusterRole dutycycle-reader has{whom}"
        )
        self.user = user


class NotThereError(KubectlError):
    """No such object, or no such kind."""


def refusal(status: int, text: bytes, what: str, address: str) -> KubectlError:
    """Of an HTTP answer that is no success, with its body; ``what`` was wanted."""
    if status == 401:
        return KubectlError(
            f"{address} does not accept your credentials (401): log in anew, or check --context"
        )
    said = _said(text)
    if status == 403:
        user = _USER.search(said)
        return ForbiddenError(what, user[0] if user else "")
    return NotThereError(said) if status == 404 else KubectlError(f"cannot {what}: {status} {said}")


def no_tls(address: str, reason: str) -> KubectlError:
    """Of a TLS connection that did not come about."""
    return KubectlError(
        f"no TLS connection to {address}: {cause(reason)}; check the certificate authority, the "
        "tls-server-name and the client certificate in the kubeconfig"
    )


def cause(error: object) -> str:
    """The innermost words: urllib3 wraps what the system said three times."""
    reason = getattr(error, "reason", None) or error
    words = one_line(str(reason).rpartition(": ")[2])
    return _WRAPPING.sub("", words).rstrip(".") or type(reason).__name__


def one_line(text: str) -> str:
    """Short enough for a line, and without line ends."""
    return " ".join(text.split())[:_LONGEST]


def _said(text: bytes) -> str:
    try:
        return one_line(str(orjson.loads(text)["message"]))
    except (ValueError, KeyError, TypeError):
        return one_line(text.decode("utf-8", "replace"))
