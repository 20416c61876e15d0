"""Holds passwords and tokens for HTTP. One that lies in a file is read again at each use: it is replaced
there."""

import re
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\x20-\x7e\t]*)")


LINE_END = "\r\n"


@dataclass(slots=True)
class Secret:
    """Holds a password or token, never shown. ``file``: where it lies; None if it was given itself.
    ``around``: characters at its ends that are the file's; None for all white space."""

    text: str = field(repr=False)
    file: str | None = None
    around: str | None = field(default=None, compare=False)

    def now(self) -> str:
        """Return the text. While the file cannot be read, or is empty, the text before is good."""
        if self.file is not None:
            with suppress(OSError, UnicodeDecodeError):
                self.text = Path(self.file).read_text(encoding="utf-8-sig").strip(self.around) or self.text
        return self.text


def header_lines(text: str) -> dict[str, str]:
    """Parse HTTP headers, one a line, ``Name: value``. Raises ``ValueError``."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    matches = [_HEADER.fullmatch(line) for line in lines]
    if not all(matches):
        raise ValueError("expected headers, one a line, such as X-Scope-OrgID: team-a")
    return {match[1]: match[2] for match in matches if match}


def headers_now(headers: Secret | None) -> dict[str, str]:
    """Return the headers that a request sends now. A file that holds no headers any more is not sent."""
    if headers is None:
        return {}
    known = headers.text
    try:
        return header_lines(headers.now())
    except ValueError:
        headers.text = known
        return header_lines(known)


def authorization(username: str | None, password: Secret | None, token: Secret | None) -> str | None:
    """Return the header ``Authorization`` of a request that is sent now; None without credentials."""
    if token is not None:
        return f"Bearer {token.now()}"
    if username is None or password is None:
        return None
    return "Basic " + b64encode(f"{username}:{password.now()}".encode()).decode()
