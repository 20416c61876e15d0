"""Checks the URL of the peak records, and shows it without its password."""

from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from dutycycle.contract.errors import DutycycleError, NotInstalledError

_SECRET_OPTIONS = ("password", "sslpassword", "passfile")


def parse_records_url(text: str) -> URL:
    """Return the URL with its driver made explicit. Raises ``DutycycleError`` that never shows the text
    itself."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # not told: the message may hold the URL and its password
        url = None
    if url is None or "@" in (url.host or ""):  # what is before that @ is of the password, and would be shown
        raise DutycycleError(
            "DUTYCYCLE_RECORDS is no SQLAlchemy URL: expected sqlite:///path/records.db or "
            "postgresql+psycopg://user:password@host/database (special characters percent-encoded; several "
            "hosts as ?host=a:5432&host=b:5432)"
        )
    backend = url.get_backend_name()
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise DutycycleError(
                "DUTYCYCLE_RECORDS: records in memory could not be read by anyone: give sqlite:///path/records.db"
            )
        if url.database.startswith("~"):
            why = "begins with ~, which only a shell knows: give the whole path"
            raise DutycycleError(f"DUTYCYCLE_RECORDS: {url.database} {why}")
        return url.set(drivername="sqlite+pysqlite")
    if backend == "postgresql":
        if find_spec("psycopg") is None:
            raise NotInstalledError("psycopg")
        return url.set(drivername="postgresql+psycopg")
    raise DutycycleError(f"DUTYCYCLE_RECORDS: {backend} is not supported: give an sqlite or postgresql URL")


def sqlite_path(url: URL) -> Path | None:
    """Return the file of an SQLite URL; None for a server."""
    if url.get_backend_name() != "sqlite" or url.database is None:
        return None
    return Path(url.database.removeprefix("file:"))


def require_folder(text: str) -> None:
    """Raises ``DutycycleError`` where the folder of an SQLite file is not there.

    For a path that was typed for one command: a service makes the folder of its own.
    """
    path = sqlite_path(parse_records_url(text))
    if path is not None and not path.absolute().parent.is_dir():
        raise DutycycleError(f"--records: there is no folder {path.parent}: make it, or correct the path")


def shown(url: URL) -> str:
    """Return the URL for people: without password and options; of SQLite, the file."""
    if path := sqlite_path(url):
        return str(path)
    return url.set(password=None, query={}).render_as_string(hide_password=True)


def redacted(text: str, url: URL) -> str:
    """Return ``text`` with every secret of the URL blotted out, should a driver quote it."""
    secrets = [str(url.password or "")]
    secrets += [str(value) for name, value in url.query.items() if name in _SECRET_OPTIONS]
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    return text
