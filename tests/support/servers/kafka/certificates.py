"""A certificate authority and a server certificate for 127.0.0.1, made by openssl for one test run."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.missing import program

_NEW_KEY = ["-newkey", "rsa:2048", "-noenc", "-days", "2"]
_EXTENSIONS = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext", "basicConstraints=CA:FALSE"]


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority that clients trust, and the server's key with its chain."""

    authority: Path
    server: Path


def make_certificates(folder: Path) -> Certificates:
    """Write the files into ``folder``. Raises ``ServerMissingError`` without openssl."""
    program("openssl")
    _openssl(folder, "ca", ["-subj", "/CN=Dutycycle test authority"])
    _openssl(folder, "server", ["-subj", "/CN=127.0.0.1", *_EXTENSIONS, "-CA", "ca.crt", "-CAkey", "ca.key"])
    server = folder / "server.pem"
    server.write_text("".join((folder / name).read_text() for name in ("server.key", "server.crt", "ca.crt")))
    server.chmod(0o600)
    return Certificates(authority=folder / "ca.crt", server=server)


def make_certificate(folder: Path, name: str, common_name: str, authority: str) -> None:
    """``<name>.crt`` and ``<name>.key`` in ``folder``, for a client or a server of the name.

    They are signed by ``<authority>.crt``, which is made where it is missing.
    """
    program("openssl")
    if not (folder / f"{authority}.crt").exists():
        _openssl(folder, authority, ["-subj", f"/CN={authority}"])
    extensions = ["-addext", f"subjectAltName=DNS:{common_name}", "-addext", "basicConstraints=CA:FALSE"]
    signed = ["-CA", f"{authority}.crt", "-CAkey", f"{authority}.key"]
    _openssl(folder, name, ["-subj", f"/CN={common_name}", *extensions, *signed])


def _openssl(folder: Path, name: str, arguments: list[str]) -> None:
    command = [
        "openssl", "req", "-x509", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.crt", *arguments,
    ]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
