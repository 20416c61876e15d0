"""Knows where each kind of process answers over HTTP, and how to ask it."""

import http.client
import ssl
from typing import NamedTuple

from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.parsers import listen as checked

_LOOPBACK = "127.0.0.1"
NEARBY = frozenset({_LOOPBACK, "::1", "localhost"})
"""The hosts that only who is on the same machine reaches."""
PORTS = {
    "collect": 19470, "stream": 19471, "sink": 19472, "metrics": 19473, "adapter": 19474, "extender": 19475,
    "webhook": 19476, "trial": 19477, "cull": 19478, "serve": 19479, "web": 19480,
}  # fmt: skip
"""By the name of the sub-command; ``metrics`` is ``sink --metrics``, ``trial`` is ``trial --watch``. Nobody
is registered for these ports, and no kernel hands them out."""
OFF = "off"
ANSWER_S = 5.0
_EVERYWHERE = {"0.0.0.0": _LOOPBACK, "::": "::1"}  # noqa: S104 - compared with, not bound to


class Address(NamedTuple):
    """Names a host and a port; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def near(self) -> "Address":
        """Return how it is reached from this machine, where it stands for every address."""
        return Address(_EVERYWHERE.get(self.host, self.host), self.port)


def parse(text: str) -> Address:
    """Parse ``host:port`` or ``[host]:port``, as the setting ``listen`` has checked it."""
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def address_of(listen: str | None, process: str) -> Address | None:
    """Tell where ``process`` answers by the setting ``listen``; None if it is off."""
    if listen is None:
        return Address(_LOOPBACK, PORTS[process])
    return None if listen == OFF else parse(listen)


class AskError(DutycycleError):
    """Says why a process is not well, or that it does not answer."""


def where(whom: str, listen: str | None) -> Address:
    """Return the address of ``whom``: a kind of process, which is where ``listen`` says, or ``host:port``.

    Raises ``SettingError``.
    """
    if whom in PORTS:
        address = address_of(listen, whom)
        if address is None or not address.port:
            raise SettingError(f"DUTYCYCLE_LISTEN={listen} does not say where {whom} is: give host:port")
        return address.near
    try:
        address = parse(checked(whom))
    except ValueError:
        address = Address("", 0)
    if not address.port:
        raise SettingError(f"{whom!r}: expected {', '.join(PORTS)}, or host:port")
    return address.near


def ask(address: Address, path: str, *, tls: bool = False, token: str | None = None) -> tuple[int, str]:
    """Return HTTP status and text of a page. Raises ``AskError`` if there is no answer.

    ``tls``: whoever answers is taken for it, as the kubelet does: one asks for the health of what runs here.
    """
    connection: http.client.HTTPConnection
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(*address, timeout=ANSWER_S, context=context)
    else:
        connection = http.client.HTTPConnection(*address, timeout=ANSWER_S)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    except TimeoutError as error:
        raise AskError(f"{address} does not answer within {ANSWER_S:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise AskError(f"{address} does not answer: {getattr(error, 'strerror', None) or error}") from error
    finally:
        connection.close()
