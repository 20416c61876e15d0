"""Errors that a user is meant to read: one line that names the thing and the fix."""


class DutycycleError(Exception):
    """The command cannot go on. ``str(error)`` is one clear line; the command exits with 1."""


class SettingError(DutycycleError):
    """A setting has a wrong value. Names the setting, the value and what would be right."""
