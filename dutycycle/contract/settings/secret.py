"""Passwords and tokens for HTTP. One that lies in a file is read again at each use: it is replaced there."""

from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Secret:
    """A password or token, never shown. ``file``: where it lies; None if it was given itself."""

    text: str = field(repr=False)
    file: str | None = None

    def now(self) -> str:
        """The text. While the file cannot be read, or is empty, the text before is good."""
        if self.file is not None:
            with suppress(OSError, UnicodeDecodeError):
                self.text = Path(self.file).read_text(encoding="utf-8").strip() or self.text
        return self.text


def authorization(username: str | None, password: Secret | None, token: Secret | None) -> str | None:
    """The header ``Authorization`` of a request that is sent now; None without credentials."""
    if token is not None:
        return f"Bearer {token.now()}"
    if username is None or password is None:
        return None
    return "Basic " + b64encode(f"{username}:{password.now()}".encode()).decode()
