"""Tells who asks: the API server, by its client certificate, and for whom, by its headers.

https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/#authentication-flow
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

import orjson

from sinks.reviews import User

_CA = "requestheader-client-ca-file"
_ANONYMOUS = "system:anonymous"
_AUTHENTICATED = "system:authenticated"
"""The group of everybody who is known. The headers leave it out; roles are bound to it, as for discovery."""


class Headers(Protocol):
    """Declares the headers of a request: a name may be there several times, in any case."""

    def getall(self, name: str, default: list[str]) -> list[str]: ...

    def keys(self) -> Any: ...


class NoFrontProxyError(Exception):
    """Says that the API server does not say how to recognise it, or not in words that can be read."""


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """Says how the API server is recognised: the ConfigMap ``extension-apiserver-authentication``.

    ``authority``: certificates (PEM) that sign its own. ``names``: its common names; empty for any.
    """

    authority: str
    names: tuple[str, ...]
    user_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    @classmethod
    def of(cls, data: Mapping[str, str]) -> "FrontProxy":
        """Read the ConfigMap's data. Raises ``NoFrontProxyError``."""
        if not data.get(_CA):
            raise NoFrontProxyError(f"{_CA} is not set: the API server's aggregation layer is not configured")
        return cls(
            data[_CA],
            names=_names(data, "requestheader-allowed-names"),
            user_headers=_names(data, "requestheader-username-headers"),
            group_headers=_names(data, "requestheader-group-headers"),
            extra_prefixes=_names(data, "requestheader-extra-headers-prefix"),
        )

    def admits(self, certificate: Mapping[str, Any]) -> bool:
        """Tell whether the certificate, which ``authority`` has signed, is the API server's."""
        names = {
            value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"
        }
        return not self.names or not names.isdisjoint(self.names)

    def user(self, headers: Headers) -> User | None:
        """Return for whom it asks; None where it does not say."""
        names = [value for header in self.user_headers for value in headers.getall(header, [])]
        if not names:
            return None
        groups = [value for header in self.group_headers for value in headers.getall(header, [])]
        extra = {
            unquote(header[len(prefix) :]).lower(): tuple(headers.getall(header, []))
            for prefix in self.extra_prefixes
            for header in headers.keys()  # noqa: SIM118 - a header that is there twice has two keys
            if header.lower().startswith(prefix.lower())
        }
        if names[0] != _ANONYMOUS and _AUTHENTICATED not in groups:
            groups.append(_AUTHENTICATED)
        return User(names[0], tuple(groups), extra)


def _names(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return a list of the ConfigMap; empty where there is none. Raises ``NoFrontProxyError`` for what is no
    list of texts: of allowed names an empty one would admit any."""
    text = data.get(key) or "[]"
    try:
        names = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NoFrontProxyError(f"{key} is no JSON ({error}): {text[:200]!r}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise NoFrontProxyError(f"{key} is {text[:200]!r}: expected a list of texts")
    return tuple(names)
