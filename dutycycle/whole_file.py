"""Writes files that are there as a whole, or not at all."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dutycycle.contract.errors import DutycycleError, SettingError

PAGES = (".html", ".htm")


def check_out(out: Path, endings: Sequence[str], *, overwrite: bool) -> None:
    """Check, before anything is read, that ``--out`` can be written. Raises ``SettingError``."""
    if out.suffix not in endings:
        raise SettingError(f"--out {out}: expected a name that ends with {' or '.join(endings)}")
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise SettingError(f"--out {out}: expected a file in a folder that is there")
    if out.exists() and not overwrite:
        raise SettingError(f"--out {out}: is there already; --force replaces it")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path beside ``path`` to write to, which gets its name at the end.

    After an error nothing of it stays, so that a full disk does not stay full. Raises ``DutycycleError`` that
    names the file, where it cannot be written.
    """
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        of_ours = error.filename in (None, str(partial))  # a name that nobody knows
        raise DutycycleError(f"{path if of_ours else error.filename}: {error.strerror or error}") from error
    finally:
        try:
            partial.unlink(missing_ok=True)
        except OSError:  # its folder cannot be written: then there is nothing either
            if partial.exists():
                raise


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows below a line with all of their names, in the order in which these come; what a row lacks is
    empty. Raises ``DutycycleError``."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with whole_file(path) as whole, whole.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
