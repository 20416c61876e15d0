"""Writes what a Prometheus kept to a trace: chunk after chunk, in order of time, so that memory is bounded.

After each chunk the file is whole, and ``<out>.progress`` says how far it is. The same command, given again
after an interruption, goes on there, and the file has the same bytes in the end.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.history import Chunk, History, HistoryState
from collectors.prometheus.query import AwayError, Prometheus, QueryError, TooMuchError
from collectors.prometheus.series import ScrapedSeries
from collectors.prometheus.steps import COUNTERS, StepAnswers, names_of, of_steps
from dutycycle.contract.backoff import Backoff
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.base import RecordBase, written
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.secret import headers_now
from dutycycle.contract.trace import TraceWriter, trace_line
from dutycycle.process import print_remark
from dutycycle.progress import Progress
from dutycycle.words import counts_text

_VERSION = 2
"""Of the file that says how far it is."""
_FIRST_CHUNK_MS = 120_000
_LEAST_CHUNK_MS = 30_000
_MOST_CHUNK_MS = 6 * 3_600_000
_WANTED_POINTS = 150_000
"""Points of a chunk, which the next ones are made to have: 200 to 300 MB while they are read."""
_LOOK_BACK_MS = 300_000
"""Points before a chunk that give its first rates; over a longer gap none is taken."""
_ANSWER_S, _HELP_S = 120, 10
_INTERVAL_MS = 15_000


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Says what is wanted: ``(start_ms, end_ms]``, every sample, or one each ``step_s`` seconds.

    ``given`` is how the user named it: a later run goes on only with the same.
    """

    start_ms: int
    end_ms: int
    step_s: int | None
    given: tuple[str, ...]


class HistoryApi(Protocol):
    """Answers what a back-fill asks; raises ``QueryError``. See ``Prometheus``."""

    place: str

    def history(
        self, selector: str, start_ms: int, end_ms: int, step_s: int | None, timeout_s: int
    ) -> list[ScrapedSeries]: ...

    def by_step(
        self, function: str, name: str, selector: str, start_ms: int, end_ms: int, step_s: int, timeout_s: int
    ) -> list[ScrapedSeries]: ...

    def help_texts(self, names: Iterable[str], timeout_s: int) -> dict[str, list[str]]: ...

    def incomplete(self) -> list[str]: ...


def backfill(
    out: str, wanted: Range, settings: Settings, *, overwrite: bool, patience_s: float, partial: bool = False
) -> int:
    """Record; 0 when the trace is whole, or may be ``partial``, 1 when answers lacked something.

    A Prometheus that is away is asked again for ``patience_s``.
    """
    prometheus = Prometheus(settings)
    try:
        run = Backfill(prometheus, out, wanted, settings, overwrite=overwrite, patience_s=patience_s)
        counts = run.run()
    except KeyboardInterrupt as error:
        raise DutycycleError("interrupted: the same command goes on from here") from error
    finally:
        prometheus.close()
    print_remark(f"recorded: {counts_text(counts)}")
    if run.incomplete_s and not partial:
        print_remark(
            f"not whole: {run.incomplete_s} s of it are of answers that lack samples, as said above; record "
            "it again with --force when all stores answer, or take it as it is with --partial"
        )
        return 1
    return 0


class Backfill:
    """Executes one run, or the rest of one that was interrupted. Raises ``DutycycleError``."""

    def __init__(
        self,
        prometheus: HistoryApi,
        out: str,
        wanted: Range,
        settings: Settings,
        *,
        overwrite: bool,
        patience_s: float,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._prometheus = prometheus
        self._out = out
        self._overwrite = overwrite
        self._prefix = settings.topic_prefix
        self._patience_s = patience_s
        self._sleep = sleep
        self._step_s = wanted.step_s
        step_ms = 1000 * (wanted.step_s or 0)
        self._look_back_ms = self._whole_steps(max(_LOOK_BACK_MS, 2 * step_ms) + step_ms)
        self._least_ms = max(_LEAST_CHUNK_MS, step_ms)
        self._file = ResumeFile(out)
        source = _source_of(settings)
        earlier = None if overwrite else self._file.read(wanted.given, source)
        self._resume_at = None if earlier is None else earlier.size_bytes
        self._reached = earlier or Reached(
            given=wanted.given, source=source, start_ms=wanted.start_ms, end_ms=wanted.end_ms,
            next_ms=wanted.start_ms, chunk_ms=self._whole_steps(max(_FIRST_CHUNK_MS, self._least_ms)),
        )  # fmt: skip
        self._counts = Counter(self._reached.counts)
        self._reader = AnswerReader(settings)
        self._history = History(
            f"prometheus-{self._reached.start_ms}", step_ms or _INTERVAL_MS, settings.retire, self._reader
        )
        self._history.restore(self._reached.history)
        self._shown: set[str] = set()
        self._progress = Progress("records", self._reached.end_ms - self._reached.start_ms)

    @property
    def incomplete_s(self) -> int:
        """Return of how long a time the answers lacked something, in seconds."""
        return self._reached.incomplete_ms // 1000

    def run(self) -> Mapping[str, int]:
        """Record; how many records there are of each topic."""
        end_ms = self._reached.end_ms
        if self._resume_at is not None:
            self._progress.print_line(f"goes on with {self._out}.partial")
        with (
            self._progress,
            TraceWriter(self._out, overwrite=self._overwrite, resume_at=self._resume_at) as trace,
        ):
            if self._resume_at is None:
                self._store(trace, self._reached)
            while self._reached.next_ms < end_ms:
                reached = datetime.fromtimestamp(self._reached.next_ms / 1000, UTC)
                done_ms = self._reached.next_ms - self._reached.start_ms
                self._progress.show(done_ms, self._counts.total(), f"up to {reached:%Y-%m-%d %H:%M} UTC")
                self._store(trace, self._take(trace))
            if not self._counts:
                self._file.remove(trace=True)
                why = [left_out.detail for left_out in self._reader.left_out()] or [
                    "see its page /targets, and --since and --until; names of another exporter are told by "
                    "DUTYCYCLE_PROMETHEUS_NAMES"
                ]
                raise DutycycleError(
                    f"{self._prometheus.place} has no samples of dcgm-exporter, cAdvisor or node_exporter of "
                    f"this time that can be recorded: {'; '.join(why)}"
                )
        self._file.remove()
        for left_out in self._reader.left_out():
            self._progress.print_line(f"left out: {left_out.detail}")
        return self._counts

    def _take(self, trace: TraceWriter) -> Reached:
        """Write the next chunk. The one after it is made to fit, by what this one held."""
        chunk, asked_ms = self._asked()
        incomplete = self._prometheus.incomplete()
        for text in incomplete:
            if text not in self._shown:
                self._progress.print_line(f"{self._prometheus.place} did not answer with all it has: {text}")
            self._shown.add(text)
        for record in self._history.records(chunk):
            trace.write(trace_line(record, self._prefix))
            self._counts[record.topic] += 1
        points = sum(len(series.points) for of in chunk.series.values() for series in of)
        fitting_ms = asked_ms * min(4.0, _WANTED_POINTS / max(points, 1))
        chunk_ms = self._whole_steps(min(max(fitting_ms, self._least_ms), _MOST_CHUNK_MS))
        missing_ms = self._reached.incomplete_ms + (chunk.end_ms - chunk.start_ms if incomplete else 0)
        return replace(self._reached, next_ms=chunk.end_ms, chunk_ms=chunk_ms, incomplete_ms=missing_ms)

    def _whole_steps(self, length_ms: float) -> int:
        step_ms = 1000 * (self._step_s or 1)
        return max(1, int(length_ms // step_ms)) * step_ms

    def _asked(self) -> tuple[Chunk, int]:
        """Return the next chunk, and its length. What is too much is asked for in smaller pieces."""
        waits, waited_s, chunk_ms = Backoff(0.5, 15.0), 0.0, self._reached.chunk_ms
        while True:
            try:
                return self._chunk(min(self._reached.next_ms + chunk_ms, self._reached.end_ms)), chunk_ms
            except (TooMuchError, AwayError) as error:
                if isinstance(error, TooMuchError) and chunk_ms > self._least_ms:
                    chunk_ms = self._whole_steps(max(self._least_ms, chunk_ms / 2))
                    self._progress.print_line(f"{error}; asking for {chunk_ms // 1000} s at a time")
                    continue
                if waited_s >= self._patience_s:
                    raise DutycycleError(f"{error}; the same command goes on from here") from error
                pause_s = waits.next_s()
                waited_s += pause_s
                self._progress.print_line(f"{error}; again in {pause_s:.1f} s")
                self._sleep(pause_s)
            except QueryError as error:
                raise DutycycleError(f"{error}; the same command goes on from here") from error

    def _chunk(self, end_ms: int) -> Chunk:
        start_ms = self._reached.next_ms
        since_ms = start_ms - self._look_back_ms
        series = {
            what: self._prometheus.history(selector, since_ms, end_ms, self._step_s, _ANSWER_S)
            for what, selector in self._history.selectors.items()
        }
        if self._step_s is not None:
            answers = self._step_answers(series, since_ms, end_ms, self._step_s)
            series = of_steps(series, answers, self._step_s, self._reader.vocabulary)
        if names := self._reader.vocabulary.without_help(series["gpus"]):
            self._reader.vocabulary.learn_help(self._prometheus.help_texts(names, _HELP_S))
        return Chunk(start_ms, end_ms, self._look_back_ms, series)

    def _step_answers(
        self, newest: Mapping[str, list[ScrapedSeries]], start_ms: int, end_ms: int, step_s: int
    ) -> StepAnswers:
        """Return what Prometheus computes of each step of the metrics that there are."""

        def ask(function: str, what: str, name: str) -> list[ScrapedSeries]:
            selector = self._history.selectors[what]
            return self._prometheus.by_step(function, name, selector, start_ms, end_ms, step_s, _ANSWER_S)

        answers = StepAnswers()
        for name, is_utilization in self._reader.vocabulary.averaged(newest["gpus"]).items():
            answers.means[name] = ask("avg_over_time", "gpus", name)
            if is_utilization:
                answers.highs[name] = ask("max_over_time", "gpus", name)
                answers.counts[name] = ask("count_over_time", "gpus", name)
        for what, counters in COUNTERS.items():
            for name in names_of(newest[what], counters):
                answers.increases[what, name] = ask("increase", what, name)
        return answers

    def _store(self, trace: TraceWriter, reached: Reached) -> None:
        """Make what was written whole, and say so in the file beside it."""
        self._reached = replace(
            reached,
            size_bytes=trace.checkpoint(),
            counts=dict(self._counts),
            history=self._history.snapshot(),
        )
        self._file.write(self._reached)


def _source_of(settings: Settings) -> str:
    """Tell sources apart that hold different samples: a digest, for a URL and headers may hold secrets.

    Credentials do not count: they may have changed since.
    """
    url = urlsplit(settings.prometheus or "")
    headers = {name.lower(): text for name, text in headers_now(settings.prometheus_headers).items()}
    headers.pop("authorization", None)
    source = (
        url.scheme, url.hostname, url.port, url.path.rstrip("/"), url.query, sorted(headers.items()),
        settings.prometheus_cluster, sorted(settings.prometheus_names),
    )  # fmt: skip
    return sha256(repr(source).encode()).hexdigest()[:16]
