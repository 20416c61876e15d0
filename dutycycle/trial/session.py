"""Runs the trials of a plan, one after the other or some at once; measures each, leaves nothing behind."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import rfc3339
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef
from dutycycle.run.folder import TRACE
from dutycycle.submit.documents import ManifestDocument, random_suffix
from dutycycle.submit.outcome import TIMED_OUT
from dutycycle.submit.run import JobRun, Signals
from dutycycle.submit.run import RunOptions as Limits
from dutycycle.submit.view import JobStatusLine
from dutycycle.trial import manifest
from dutycycle.trial.access import room
from dutycycle.trial.leftovers import BEAT_S, JOB
from dutycycle.trial.options import TrialOptions
from dutycycle.trial.plan import Plan, Variant
from dutycycle.trial.results.verdict import TrialFigures, TrialOutcome, figures_of
from dutycycle.trial.template import JobTemplate

_STOPPED = "not begun"


class _Named(JobStatusLine):
    """Prints each line with the name of its trial."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def status(self, text: str) -> None:
        """Show how this trial goes."""
        super().status(f"{self._name}: {text}")

    def print_line(self, text: str) -> None:
        """Print what has changed."""
        super().print_line(text if text.startswith(f"{self._name}: ") else f"{self._name}: {text}")


@dataclass(slots=True)
class TrialSession:
    """Runs the trials of one template. ``folder``: gets a folder of each trial. ``spent``: GPU-minutes so
    far."""

    server: ApiServer
    settings: Settings
    template: JobTemplate
    options: TrialOptions
    folder: Path
    signals: Signals
    spent: float = 0.0
    _reserved: dict[str, Variant] = field(default_factory=dict)
    _outcomes: dict[str, TrialOutcome] = field(default_factory=dict)

    async def run(self, plan: Plan) -> list[TrialOutcome]:
        """Run all trials and return them in the order of the plan, also those that were not begun. Raises
        ``DutycycleError``."""
        size = await room(self.server, self.template, free=False)
        running: set[asyncio.Task[None]] = set()
        try:
            for variant in plan.variants:
                why = size.why_never(variant) if size is not None else None
                if why is None:
                    await self._wait_for_place(running, variant)
                    cost, left = variant.minutes(self.options.for_s), self._left()
                    if self.signals.stop.is_set():
                        why = _STOPPED
                    elif cost > left:
                        why = f"left out: {left:.3g} GPU-minutes are left, and it needs {cost:.3g}"
                if why is not None:
                    self._outcomes[variant.name] = TrialOutcome(variant, why)
                    continue
                self._reserved[variant.name] = variant
                running.add(asyncio.create_task(self._run_trial(variant)))
            for task in running:
                await task
        except BaseException:
            if any(not task.done() for task in running):
                self.signals.stop.set()  # the others delete what they have made
                await asyncio.gather(*running, return_exceptions=True)
            raise
        return [
            self._outcomes.get(variant.name, TrialOutcome(variant, _STOPPED)) for variant in plan.variants
        ]

    async def _wait_for_place(self, running: set[asyncio.Task[None]], variant: Variant) -> None:
        """Wait until a trial may begin, or nothing runs any more."""
        while running:
            if len(running) < self.options.at_once:
                left = await room(self.server, self.template, free=True)
                for other in (*self._reserved.values(), variant):  # pods of the others may not be there yet
                    left = left.take(other) if left is not None else None
                if left is not None:
                    return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            running -= done
            for task in done:
                await task  # raises what ended it

    def _left(self) -> float:
        return self.options.budget - self.spent - sum(
            variant.minutes(self.options.for_s) for variant in self._reserved.values()
        )  # fmt: skip

    async def _run_trial(self, variant: Variant) -> None:
        held_s = (self._left() / variant.total) * 60 + self.options.for_s
        run_id = random_suffix()
        longest_s = self.options.start_s + held_s
        made = manifest.TrialRun(
            run_id, longest_s, rfc3339(time.time_ns() // 1_000_000), self.options.priority_class
        )
        document = ManifestDocument(manifest.job_of(self.template, variant, made), "the trial")
        limits = Limits((), timeout_s=longest_s, for_s=self.options.for_s, held_s=held_s)
        folder = self.folder / variant.name
        folder.mkdir()
        view = _Named(variant.name)
        run = JobRun(limits, self.settings, folder, view)
        beating = asyncio.create_task(self._beat(run, view))
        try:
            outcome = await run.on(self.server, self.signals, [document])
            # However fast it was: what fails is no way to run the Job.
            ended, is_over = outcome.words, outcome.status in (0, TIMED_OUT)
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
            del self._reserved[variant.name]
            minutes = variant.minutes(run.held_s)
            self.spent += minutes
        figures = None
        if is_over and not self.signals.stop.is_set():
            figures = await asyncio.to_thread(self._figures, folder, set(run.pods), view)
        ended = ended.removeprefix(f"job/{document.name}: ")
        self._outcomes[variant.name] = TrialOutcome(variant, ended, minutes, figures)
        view.print_line(ended)

    def _figures(self, folder: Path, pods: set[str], view: JobStatusLine) -> TrialFigures | None:
        from dutycycle.report.build import report_of_pods  # here: it takes a second, and a trial has begun

        try:
            return figures_of(report_of_pods(str(folder / TRACE), self.settings, pods))
        except DutycycleError as error:
            view.print_line(f"nothing was measured: {error}")
            return None

    async def _beat(self, run: JobRun, view: JobStatusLine) -> None:
        """Say on its Job that this program is there."""
        last_error = ""
        while True:
            await asyncio.sleep(BEAT_S)
            for entry in run.entries:
                if entry.uid is None:
                    continue
                ref = ObjectRef(JOB.api_version, JOB.name, entry.document.name, entry.namespace, entry.uid)
                try:
                    await self.server.annotate(ref, {manifest.ALIVE: rfc3339(time.time_ns() // 1_000_000)})
                except KubeError as error:
                    if str(error) != last_error:
                        last_error = str(error)
                        view.print_line(f"cannot say that it is watched: {last_error}")
