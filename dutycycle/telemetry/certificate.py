"""Holds a certificate for TLS that may be renewed where it lies."""

import ssl
from pathlib import Path


class Certificate:
    """Holds a certificate and its key, in a ``context`` that servers listen with. Used by all that answer."""

    def __init__(self, cert: str, key: str, context: ssl.SSLContext | None = None) -> None:
        """Load the files ``cert`` and ``key``, in PEM. Raises ``OSError`` where they are not a pair."""
        self._files = cert, key
        self.context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._loaded = self._read()
        self.context.load_cert_chain(cert, key)

    def renew(self) -> str | None:
        """Give connections to come what is in the files now. Say why, where that cannot be used, such as a
        key that is not that of the certificate yet: then what was there before stays."""
        try:
            content = self._read()
            if content != self._loaded:
                # Tried elsewhere first: a certificate without its key would leave the context with neither.
                for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
                    context.load_cert_chain(*self._files)
                self._loaded = content
        except OSError as error:  # an SSLError is one
            return f"{self._files[0]}: {error}"
        return None

    def _read(self) -> list[bytes]:
        return [Path(file).read_bytes() for file in self._files]
