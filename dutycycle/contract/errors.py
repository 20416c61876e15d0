"""Defines errors that a user is meant to read: one line that names the thing and the fix."""

from collections.abc import Iterable
from difflib import get_close_matches

_EXTRAS = {"pyarrow": "parquet", "river": "models"}
"""The extra that brings a package; all others come with ``dutycycle`` itself."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return what to add to "there is no ``word``": the known word that is nearest; "" where none is near."""
    return "".join(f"; did you mean {near}?" for near in get_close_matches(word, list(known), n=1))


class DutycycleError(Exception):
    """Says why the command cannot go on. ``str(error)`` is one clear line; the command exits with 1."""


class NotMeasuredError(DutycycleError):
    """Says that nothing was measured of what was asked for, or that nobody knows it."""


class SettingError(DutycycleError):
    """Says which setting has a wrong value: its name, the value and what would be right."""


class NotInstalledError(DutycycleError):
    """Says that a module cannot be imported: the name of its package, and what installs that."""

    def __init__(self, module: str) -> None:
        package = module.partition(".")[0]
        extra = f"[{_EXTRAS[package]}]" if package in _EXTRAS else ""
        super().__init__(f"the package {package} is not installed: pip install 'dutycycle{extra}'")
