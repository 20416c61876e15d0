"""Holds a certificate for TLS that may be renewed where it lies."""

import ssl
from pathlib import Path


class Certificate:
    """Holds a certificate and its key in a ``context`` of TLS: of all that answer, and of clients of Kafka.
    A client may have authorities ``ca``, and no certificate."""

    def __init__(
        self, cert: str | None, key: str | None, context: ssl.SSLContext | None = None, ca: str | None = None
    ) -> None:
        """Load the files, in PEM, None for none. Raises ``OSError`` where ``cert`` and ``key`` are not a
        pair."""
        self._ca, self._cert, self._key = ca, cert, key
        self.context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._loaded = self._read()
        self._load(self.context)

    def renew(self) -> str | None:
        """Give connections to come what is in the files now. Say why, where that cannot be used, such as a
        key that is not that of the certificate yet: then what was there before stays."""
        try:
            content = self._read()
            if content != self._loaded:
                # Tried elsewhere first: a certificate without its key would leave the context with neither.
                for context in (ssl.SSLContext(self.context.protocol), self.context):
                    self._load(context)
                self._loaded = content
        except OSError as error:  # an SSLError is one
            return f"{self._cert}: {error}"
        return None

    def _read(self) -> list[bytes]:
        return [Path(file).read_bytes() for file in (self._ca, self._cert, self._key) if file is not None]

    def _load(self, context: ssl.SSLContext) -> None:
        if self._ca is not None:
            context.load_verify_locations(self._ca)
        if self._cert is not None:
            context.load_cert_chain(self._cert, self._key)
