"""Moments that a user names: ``2026-11-20T10:00:00Z``, Unix milliseconds, or ``-10m`` before now."""

import argparse
from datetime import UTC, datetime

from contract.settings.parsers import duration
from contract.units import END_OF_TIME_MS


def moment_ms(text: str, now_ms: int) -> int:
    """Unix milliseconds of ``text``; a time without a zone is UTC. Raises ``ValueError``."""
    try:
        found = _read(text, now_ms)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r}: expected 2026-11-20T10:00:00Z, -10m, or Unix milliseconds") from error
    if not 0 <= found <= END_OF_TIME_MS:
        raise ValueError(f"{text!r}: is before 1970 or after 2100")
    return found


def _read(text: str, now_ms: int) -> int:
    if text.isdecimal():
        return int(text)
    if text.startswith("-"):
        return now_ms - round(duration(text[1:]) * 1000)
    found = datetime.fromisoformat(text)
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def duration_s(text: str) -> float:
    """An argparse type: a duration in seconds, from ``20s`` or ``5m``."""
    try:
        return duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
