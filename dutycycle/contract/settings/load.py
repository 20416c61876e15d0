"""Reads settings from the environment and a command's flags, once, at the start.

The result is passed down; nothing else reads the environment. Any setting may come from a file, and a secret
should: ``DUTYCYCLE_SASL_PASSWORD_FILE``.
"""

import difflib
import socket
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings import parsers
from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.contract.settings.secret import LINE_END, Secret

_FOR_TESTS = "DUTYCYCLE_TEST_"


def load(environ: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Settings:
    """Return settings from flags (by field name) over environment variables, or the files that they name,
    over defaults.

    Raises ``SettingError`` where a variable and its file are both given, and else one that names the flag or
    variable, its value (unless that may hold a password), and what would be right.
    """
    given = flags or {}
    values = {}
    for field in fields(Settings):
        source, text = _source(field.name, field.metadata["flag"] or field.name, environ, given)
        if text is None:
            continue
        shown = "…" if field.metadata["secret"] or "@" in text else repr(text)
        try:
            # A line's end or a space around it is of the Secret or the file that it stood in; alone it is
            # no empty value. A password may begin or end with a space.
            around = LINE_END if field.metadata["parse"] in parsers.PASSWORDS else None
            values[field.name] = value = field.metadata["parse"](text.strip(around) or text)
        except ValueError as error:
            raise SettingError(f"{source}={shown}: {error}") from error
        if isinstance(value, Secret) and source.endswith("_FILE"):
            value.file = environ[source]
    if "node" not in values:
        try:
            values["node"] = parsers.node(socket.gethostname())
        except ValueError as error:
            raise SettingError(f"the host's name is no node name ({error}): give DUTYCYCLE_NODE") from error
    return _checked(Settings(**values))


def _source(
    name: str, flag: str, environ: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[str, str | None]:
    if name in flags:
        return "--" + flag.replace("_", "-"), flags[name]
    variable = PREFIX + name.upper()
    if variable in environ and variable + "_FILE" in environ:
        raise SettingError(
            f"{variable} and {variable}_FILE are both set, and may differ: leave one of them out; a password "
            "is better in a file"
        )
    if variable in environ:
        return variable, environ[variable]
    if (path := environ.get(variable + "_FILE")) is not None:
        try:
            return variable + "_FILE", Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"{variable}_FILE={path!r}: cannot be read: {error}") from error
    return variable, None


def _checked(settings: Settings) -> Settings:
    if settings.sasl_mechanism == "OAUTHBEARER":
        if not settings.sasl_token:
            raise SettingError(
                "DUTYCYCLE_SASL_MECHANISM=OAUTHBEARER: DUTYCYCLE_SASL_TOKEN(_FILE) must be set, too"
            )
    elif settings.sasl_mechanism and not (settings.sasl_username and settings.sasl_password):
        raise SettingError(
            "DUTYCYCLE_SASL_MECHANISM is set: DUTYCYCLE_SASL_USERNAME and DUTYCYCLE_SASL_PASSWORD(_FILE) "
            "must be, too"
        )
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingError("DUTYCYCLE_TLS_CERT and DUTYCYCLE_TLS_KEY go together: one of them is missing")
    for of, whom in (("PROMETHEUS", "Prometheus"), ("REMOTE_WRITE", "the receiver")):
        username, password, token = (
            getattr(settings, f"{of}_{what}".lower()) for what in ("USERNAME", "PASSWORD", "TOKEN")
        )
        if bool(username) != bool(password):
            both = f"DUTYCYCLE_{of}_USERNAME and DUTYCYCLE_{of}_PASSWORD(_FILE)"
            raise SettingError(f"{both} go together: one of them is missing")
        if token and username:
            raise SettingError(
                f"DUTYCYCLE_{of}_TOKEN and DUTYCYCLE_{of}_USERNAME are both set: {whom} takes one"
            )
    return settings


def near_misses(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return variables that look like a mistyped setting, each with the setting that it resembles."""
    known = {PREFIX + field.name.upper() for field in fields(Settings)}
    known |= {name + "_FILE" for name in known}
    misspelled = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and not name.startswith(_FOR_TESTS) and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            misspelled += [(name, match) for match in close]
    return misspelled
