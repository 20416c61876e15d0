"""Asks a process how it is."""

import http.client

from contract.errors import DutycycleError, SettingError
from contract.settings.parsers import listen as checked
from telemetry.address import PORTS, Address, address_of, parse

ANSWER_S = 5.0


class AskError(DutycycleError):
    """The process is not well, or does not answer. Says why."""


def where(whom: str, listen: str | None) -> Address:
    """The address of ``whom``: a kind of process, which is where ``listen`` says, or ``host:port``.

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


def ask(address: Address, path: str) -> tuple[int, str]:
    """HTTP status and text of a page. Raises ``AskError`` if there is no answer."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=ANSWER_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    except TimeoutError as error:
        raise AskError(f"{address} does not answer within {ANSWER_S:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise AskError(f"{address} does not answer: {getattr(error, 'strerror', None) or error}") from error
    finally:
        connection.close()
