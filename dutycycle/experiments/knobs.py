"""Names the settings that an experiment varies, by dotted name: ``cycles.window`` is
DUTYCYCLE_CYCLES_WINDOW."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from dutycycle.contract.errors import SettingError, did_you_mean
from dutycycle.contract.settings.groups import OperatorSettings, Settings, StreamSettings

_GROUPS = ("cycles", "trends", "models")
_OF_WORKERS = frozenset({"snapshot_interval", "session_timeout"})
_FIELDS = {
    field.name: field
    for group in (StreamSettings, OperatorSettings)
    for field in fields(group)
    if field.name not in _OF_WORKERS
}


def dotted(field: str) -> str:
    """Return the name of a field in an experiment."""
    group, _, rest = field.partition("_")
    return f"{group}.{rest}" if rest and group in _GROUPS else field


KNOBS = {dotted(name): name for name in _FIELDS}
"""Every setting of an experiment by its dotted name: its field."""


def assignment(text: str, flag: str = "--set") -> tuple[str, str]:
    """Return the dotted name and the value of ``NAME=VALUE``. Raises ``SettingError``."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals:
        raise SettingError(f"{flag} {text}: expected NAME=VALUE, such as cycles.window=1200")
    if name not in KNOBS:
        meant = did_you_mean(name.replace("_", "."), KNOBS) or f": expected one of {', '.join(KNOBS)}"
        raise SettingError(f"{flag} {text}: there is no setting {name}{meant}")
    _parsed(name, value, flag)
    return name, value


def grid(texts: Iterable[str]) -> list[dict[str, str]]:
    """Return every combination of ``NAME=VALUE,VALUE``, each once: two would write to one folder. Where a
    value holds commas, ``;`` stands between values."""
    axes: list[list[tuple[str, str]]] = []
    for text in texts:
        name, equals, values = text.partition("=")
        parts = values.split(";" if ";" in values else ",") if equals else [""]
        values_of_axis = (assignment(f"{name}={part}" if equals else text, "--grid") for part in parts)
        axes.append(list(dict.fromkeys(values_of_axis)))
    names = [axis[0][0] for axis in axes]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SettingError(f"--grid: {min(twice)} is there twice")
    return [dict(chosen) for chosen in itertools.product(*axes)]


def with_values(settings: Settings, values: dict[str, str]) -> Settings:
    """Return the settings with these, by dotted name."""
    return replace(settings, **{KNOBS[name]: _parsed(name, text, "--set") for name, text in values.items()})


def values_of(settings: Settings) -> dict[str, Any]:
    """Return everything that an experiment can vary, as it is in ``settings``, by dotted name."""
    return {name: getattr(settings, field) for name, field in KNOBS.items()}


def help_lines() -> Sequence[str]:
    """Return a line of help for each, for ``--help``."""
    return [f"{name:<24}{_FIELDS[field].metadata['help']}" for name, field in KNOBS.items()]


def _parsed(name: str, text: str, flag: str) -> Any:
    try:
        return _FIELDS[KNOBS[name]].metadata["parse"](text)
    except ValueError as error:
        raise SettingError(f"{flag} {name}={text}: {error}") from error
