"""Where each kind of process answers, unless it was told otherwise: loopback, on a port of its own."""

from typing import NamedTuple

LOOPBACK = "127.0.0.1"
PORTS = {"collect": 19470, "stream": 19471, "sink": 19472}
"""By the name of the sub-command. Nobody is registered for these ports, and no kernel hands them out."""
OFF = "off"
_EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - compared with, not bound to


class Address(NamedTuple):
    """A host and a port; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def near(self) -> "Address":
        """How it is reached from this machine, where it stands for every address."""
        return Address(_EVERYWHERE.get(self.host, self.host), self.port)


def parse(text: str) -> Address:
    """``host:port`` or ``[host]:port``, as the setting ``listen`` has checked it."""
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def address_of(listen: str | None, process: str) -> Address | None:
    """Where ``process`` answers by the setting ``listen``; None if it is off."""
    if listen is None:
        return Address(LOOPBACK, PORTS[process])
    return None if listen == OFF else parse(listen)
