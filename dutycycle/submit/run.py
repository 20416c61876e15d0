"""Runs ``dutycycle run job.yaml``: make, follow, delete, say."""

import asyncio
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.reachability import StoppedError, run_until
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import KubeObject
from dutycycle.process import print_remark, stopped_within
from dutycycle.run.folder import TRACE, conclude, run_folder, say_where
from dutycycle.submit.documents import ManifestDocument, read_documents
from dutycycle.submit.follow import JobFollower
from dutycycle.submit.objects import Entry, Objects, cluster_of
from dutycycle.submit.outcome import NOT_RUN, OF_A_SIGNAL, Outcome
from dutycycle.submit.progress import JobProgress
from dutycycle.submit.records import Records
from dutycycle.submit.view import JobStatusLine, Logs, status_of

_LOOK_S = 0.3
_LAST_RECORDS_S = 10.0
_LAST_LINES_S = 5.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Holds what the command line asks for."""

    files: Sequence[str]
    namespace: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    keep: bool = False
    update: bool = False
    timeout_s: float | None = None
    for_s: float | None = None
    held_s: float | None = None
    """End this long after its first pod has got a node."""
    out: Path | None = None
    title: str | None = None
    logs: bool = False


def run_job(options: RunOptions, settings: Settings) -> int:
    """Run it to its end; its exit status, as ``outcome`` lists them. Raises ``SettingError``."""
    documents = read_documents(options.files)
    endless = [document for document in documents if document.has_pods and document.never_ends]
    if options.for_s is None and all(document in endless for document in documents if document.has_pods):
        raise SettingError(f"{endless[0]} never ends by itself: give --for 10m, and it is deleted after that")
    for document in documents:
        if document.runs_in is not None:
            print_remark(
                f"dutycycle: {document} runs in the pods of {document.runs_in}: they are not in its report"
            )
    folder: Path | None = None
    try:
        if settings.broker is not None:
            folder = run_folder(
                next(document.name for document in documents if document.has_pods), options.out
            )
        run = JobRun(options, settings, folder, JobStatusLine())
        outcome = asyncio.run(_on_cluster(run, options, documents))
        print_remark(f"dutycycle: {outcome.words}")
        _report(run, options, settings, folder, outcome)
    except SettingError:
        raise
    except DutycycleError as error:
        print_remark(f"dutycycle: {error}")
        return NOT_RUN
    else:
        return outcome.status
    finally:
        if folder is not None and not any(folder.iterdir()):
            folder.rmdir()


def _report(
    run: "JobRun", options: RunOptions, settings: Settings, folder: Path | None, outcome: Outcome
) -> None:
    if folder is None:
        print_remark("dutycycle: no report: give --broker or DUTYCYCLE_BROKER, where the samples are")
    elif (folder / TRACE).exists():  # else a signal came before anything began
        ended = f"status {outcome.status}: {outcome.words}"
        write_report_of(folder, settings, set(run.pods), title=options.title, ended=ended)


async def _on_cluster(run: "JobRun", options: RunOptions, documents: Sequence[ManifestDocument]) -> Outcome:
    signals = Signals()
    server = await cluster_of(options.kubeconfig, options.context, "dutycycle-run")
    try:
        return await run.on(server, signals, documents)
    finally:
        await server.close()


class JobRun:
    """Runs one job. ``folder``: of its trace, None for none. ``pods``: what it had, by uid.

    ``entries``: its objects; ``held_s``: how long it has held nodes, once it is over.
    """

    def __init__(
        self, options: RunOptions, settings: Settings, folder: Path | None, view: JobStatusLine
    ) -> None:
        self._options = options
        self._follower: JobFollower | None = None
        self._settings = settings
        self._records = Records(settings, folder / TRACE, lambda: self.pods) if folder is not None else None
        self._view = view
        self.entries: Sequence[Entry] = ()
        self.held_s = 0.0

    @property
    def pods(self) -> Mapping[str, KubeObject]:
        """Return the pods as the API server has shown them last, by uid."""
        return self._follower.pods if self._follower is not None else {}

    async def on(
        self, server: ApiServer, signals: "Signals", documents: Sequence[ManifestDocument]
    ) -> Outcome:
        """Run the job on a cluster until all that was made is deleted again. Raises ``DutycycleError``."""
        objects = Objects(server, signals.stop, self._view.print_line)
        find = objects.find(documents, self._options.namespace, update=self._options.update)
        try:
            await run_until(signals.stop, find)
            self.entries = objects.entries
            if self._records is not None:
                await run_until(signals.stop, self._records.start())
        except StoppedError:  # nothing was made
            if self._records is not None:
                await self._records.stop(0)
            return signals.outcome()
        # Whatever happens, what was made is deleted, unless it is to be kept.
        made = False
        try:
            await objects.make()
            made = True
            return await self._follow(objects, signals)
        finally:
            if self._options.keep and made:
                objects.keep()
            else:
                await objects.delete(signals.hurry)
            if self._records is not None:
                await self._records.stop(0 if signals.hurry.is_set() else _LAST_RECORDS_S)

    async def _follow(self, objects: Objects, signals: "Signals") -> Outcome:
        if signals.stop.is_set():
            return signals.outcome()
        follower = self._follower = JobFollower(objects.server, objects.entries)
        progress = JobProgress(follower, self._options.for_s, self._options.timeout_s, self._options.held_s)
        logs = Logs(objects.server, follower, self._view.clear) if self._options.logs else None
        past_s = await asyncio.to_thread(self._past_s, follower)
        following, begun = asyncio.create_task(follower.run()), time.monotonic()
        try:
            while True:
                now_s = time.monotonic() - begun
                outcome = progress.look(now_s)
                away = self._records.away if self._records is not None else ""
                for line in (*progress.changes(away), *(logs.look() if logs is not None else ())):
                    self._view.print_line(line)
                running_s = now_s - progress.began_s if progress.began_s is not None else None
                periods_s = self._records.periods_s.values() if self._records is not None else ()
                self._view.status(status_of(progress.follower, now_s, running_s, periods_s, past_s))
                if outcome is not None:
                    if logs is not None:
                        await logs.finish(_LAST_LINES_S)
                    return outcome
                if following.done():
                    await following  # raises what ended it
                if await stopped_within(signals.stop, _LOOK_S):
                    return signals.outcome()
        finally:
            if progress.bound_s is not None:
                self.held_s = time.monotonic() - begun - progress.bound_s
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            if logs is not None:
                await logs.finish(0)
            self._view.clear()

    def _past_s(self, follower: JobFollower) -> float | None:
        """Return how long the run before took; a database that cannot be read is said, and is no reason to
        stop."""
        if self._settings.records is None:
            return None
        try:
            return past_run_s(self._settings.records, follower.entries)
        except DutycycleError as error:
            self._view.print_line(f"no past run is known: {error}")
            return None


class Signals:
    """Listens to Ctrl-C and SIGTERM: the first one ends the run, the second one does not wait for what is
    deleted."""

    def __init__(self) -> None:
        self.stop, self.hurry = asyncio.Event(), asyncio.Event()
        self._first: signal.Signals | None = None

        def take_signal(number: signal.Signals) -> None:
            if self._first is None:
                self._first = number
                self.stop.set()
            else:
                self.hurry.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, take_signal, number)

    def outcome(self) -> Outcome:
        """Return the outcome of a run that a signal has ended."""
        first = self._first or signal.SIGTERM
        return Outcome(OF_A_SIGNAL + first, f"ended by {first.name}")


def past_run_s(records: str, entries: Sequence[Entry]) -> float | None:
    """Return how many seconds the last run of a job or pod of this name took, by the peak records at the URL
    ``records``.

    Raises ``DutycycleError``.
    """
    from sinks.records.query import Which, job_peaks, pod_peaks  # here: SQLAlchemy takes a third of a second

    for entry in entries:
        if entry.kind.name == "Pod":
            spans = [
                (pod.last_ms, pod.first_ms)
                for pod in pod_peaks(records, Which(namespace=entry.namespace, name=entry.document.name))
                if pod.final and pod.pod.uid != entry.uid
            ]
        else:
            spans = [
                (job.last_ms, job.first_ms)
                for job in job_peaks(records, Which(namespace=entry.namespace, job=entry.document.name))
                if job.final and job.job.uid != entry.uid and job.job.kind == entry.kind.name
            ]
        if spans:
            last_ms, first_ms = max(spans)
            return (last_ms - first_ms) / 1000
    return None


if TYPE_CHECKING:
    from dutycycle.report.page import Report


def write_report_of(
    folder: Path,
    settings: Settings,
    pods: Collection[str],
    *,
    title: str | None = None,
    ended: str | None = None,
) -> None:
    """Write the report of these pods (uids). Why there is none is said, and is no failure of the job.

    ``title``: one that a person chose; ``ended``: how the job did.
    """

    def make() -> "Report":
        from dutycycle.report.build import report_of_pods  # here, not above: the job need not wait for it

        trace = str(folder / TRACE)
        return report_of_pods(trace, settings, pods, source=TRACE, title=title, ended=ended)

    if failure := conclude(make, folder):
        print_remark(f"dutycycle: {failure}")
    say_where(folder)
