"""Keeps how far a back-fill is, in a file beside its trace: a run that was interrupted goes on there."""

from pathlib import Path

import msgspec

from collectors.prometheus.history import HistoryState
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.base import RecordBase, written

_VERSION = 2


class Reached(RecordBase, frozen=True, kw_only=True):
    """Says how far a back-fill has come. ``size_bytes`` of the file hold all up to ``next_ms``, of which
    answers for ``incomplete_ms`` lacked samples. ``given``: the range in the user's words; ``source``: whose
    answers they are."""

    v: int = written(lambda: _VERSION)
    given: tuple[str, ...]
    source: str = written(str)
    start_ms: int
    end_ms: int
    next_ms: int
    chunk_ms: int
    size_bytes: int = written(int)
    counts: dict[str, int] = written(dict)
    incomplete_ms: int = written(int)
    history: HistoryState = written(HistoryState)


class ResumeFile:
    """Reads and writes ``<out>.progress``; with ``out`` ``-`` there is none."""

    def __init__(self, out: str) -> None:
        self._out = out
        self._file = None if out == "-" else Path(f"{out}.progress")
        self._partial = Path(f"{out}.partial")

    def read(self, given: tuple[str, ...], source: str) -> Reached | None:
        """Return what an earlier run of the same range reached; None if there was none.

        Raises ``DutycycleError`` if it was another range or source, or its trace is not there any more.
        """
        if self._file is None or not self._file.exists() or Path(self._out).exists():
            return None
        try:
            reached = msgspec.json.decode(self._file.read_bytes(), type=Reached)
        except (OSError, msgspec.MsgspecError) as error:
            raise DutycycleError(f"{self._file}: cannot be read ({error}): --force begins anew") from error
        if (reached.v, reached.given) != (_VERSION, given):
            raise DutycycleError(
                f"{self._file} is of another range ({' '.join(reached.given)}): give the same, another "
                "--out, or --force to begin anew"
            )
        if reached.source != source:
            raise DutycycleError(
                f"{self._file} is of another Prometheus, or of another tenant, cluster or mapping of names: "
                "give the same, another --out, or --force to begin anew"
            )
        size = self._partial.stat().st_size if self._partial.exists() else -1
        if size < reached.size_bytes:
            raise DutycycleError(f"{self._partial} is not what {self._file} says: --force begins anew")
        return reached

    def write(self, reached: Reached) -> None:
        """Replace the file at once: a run that is killed here leaves the one before."""
        if self._file is not None:
            new = self._file.with_name(f"{self._file.name}.new")
            new.write_bytes(msgspec.json.encode(reached))
            new.replace(self._file)

    def remove(self, *, trace: bool = False) -> None:
        """Remove the file, as there is nothing to resume any more; with ``trace`` what was written of the
        trace, too."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            if trace:
                self._partial.unlink(missing_ok=True)
