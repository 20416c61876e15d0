"""Makes a report on disk of traces."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.progress import Progress
from dutycycle.report.charts.chart import POINTS
from dutycycle.report.charts.choice import charts_of
from dutycycle.report.charts.cycles import cycles_of
from dutycycle.report.charts.pictures import write_pictures
from dutycycle.report.facts import facts_of
from dutycycle.report.gather import Gathered
from dutycycle.report.page import Report, html_of
from dutycycle.report.phases import phases_of
from dutycycle.report.profiled import Profile
from dutycycle.report.tables import write_tables
from dutycycle.report.view import View, insights_of, view_of
from dutycycle.telemetry.events import SAMPLE_LATE
from dutycycle.traces.samples import TraceSamples, late_words, no_samples
from dutycycle.traces.subject import qualified, the_one
from dutycycle.whole_file import whole_file
from streams.local import LocalPipeline
from streams.topology import stages

_FOLDER_SUFFIX = ".files"
_READ = (*SAMPLE_TOPICS, "profiles")


def gather(traces: list[str], settings: Settings) -> Gathered:
    """Read the traces through the stages, and show how far that is. Raises ``DutycycleError``."""
    read = TraceSamples(traces, settings.topic_prefix, _READ)
    with Progress("samples") as progress:
        gathered = gather_records(progress.track(read), settings)
    if gathered.first_ms is None:
        raise no_samples(traces)
    return gathered


def gather_records(records: Iterable[ConsumerRecord], settings: Settings) -> Gathered:
    """Return the same of samples and pods from elsewhere, in order of time."""
    pipeline, gathered = LocalPipeline(stages(settings), settings.topic_prefix), Gathered()
    for record in records:
        gathered.sample(record)
        if record.topic in SAMPLE_TOPICS:
            gathered.derived(pipeline.feed(record))
    gathered.derived(pipeline.close())
    gathered.late = pipeline.happened[SAMPLE_LATE.name]
    return gathered


def report_of(
    gathered: Gathered, settings: Settings, source: str, *, job: str | None = None, pod: str | None = None,
    profiles: Sequence[Profile] = (), title: str | None = None, ended: str | None = None,
) -> Report:  # fmt: skip
    """Return what the report says, with what ``profiles`` saw from inside, and what was told of others.

    ``title``: in place of the subject's name; ``ended``: how the run did.

    Raises ``DutycycleError`` for a job or pod that is not there.
    """
    view = view_of(gathered, job=job, pod=pod)
    insights = insights_of(gathered, view)
    cycles = cycles_of(gathered, view, "gpu_util_pct")[:1]
    periods = [period.period_s for cycle in cycles for period in cycle.periods]
    phases = phases_of(view, next(iter(insights.values()), []), min(periods, default=None))
    facts = facts_of(gathered, view, settings)
    # What was published of the pods' profiles, but for those that were read themselves
    read = {profile.source for profile in profiles}
    published = [
        Profile.told(record, f"{source} of {qualified(record.pod, record.pod.name)}")
        for (uid, source), record in sorted(gathered.profiles.items())
        if f"pod/{uid}" in view.subjects and source not in read
    ]
    return Report(
        view=view,
        facts=facts,
        charts=charts_of(gathered, view, facts.processes),
        phases=phases,
        source=source,
        notes=list(_notes(gathered, view, settings)),
        profiles=[*profiles, *published],
        title=title,
        ended=ended,
    )


def report_of_pods(
    trace: str, settings: Settings, pods: Collection[str] | None = None, **more: Any
) -> Report:
    """Return the report of a trace: of the one job or pod that ``pods`` (uids) are, None for all that are in
    it; of everything where they are several. ``more``: as ``report_of`` takes it. Raises ``DutycycleError``.
    """
    gathered = gather([trace], settings)
    known = gathered.identities
    job, pod = the_one([known[uid] for uid in (known if pods is None else pods) if uid in known])
    return report_of(gathered, settings, **{"source": trace, "job": job, "pod": pod, **more})


def _notes(gathered: Gathered, view: View, settings: Settings) -> Iterator[str]:
    step_s = (view.last_ms - view.first_ms) / POINTS / 1000
    tick_s = max((part.ticks.step_ms for part in view.parts), default=0) / 1000
    if step_s > tick_s:
        yield (
            f"Measured every {tick_s:g} s. A point of a chart is the mean of about {step_s:.0f} s. Its "
            "largest value is shown when you point at it; where there are few lines, a band has all values."
        )
    elif tick_s:
        yield f"Measured every {tick_s:g} s; the charts show every tick."
    if view.others:
        yield f"Others used these GPUs too, and their use is in the figures: {', '.join(view.others)}."
    if not view.gpus:
        yield "No GPU was measured."
    gaps = sum(
        int((np.diff(ticks.times) > 2.5 * ticks.step_ms).sum())
        for gpu in view.gpus
        if (ticks := gpu.traced.frame.between(int(gpu.ticks.times[0]), int(gpu.ticks.times[-1]))).step_ms
    )
    if gaps:
        yield f"{gaps} gaps of more than two ticks in the samples of the GPUs; charts leave them open."
    if words := late_words(gathered.late, gathered.ticks):
        yield f"{words}: kinds, bottlenecks, phases and forecasts are made without them."
    if gathered.dead_letters:
        yield f"{gathered.dead_letters} records could not be used."
    yield (
        "Phases: while the GPUs are used by 5 % or more, the job does what the insights say of that time. "
        "While they are not, it is a checkpoint if much is written, loading if much is read or computed, "
        "and idle otherwise."
    )
    if settings.price_gpu_hour is not None or settings.price_kwh is not None:
        prices = {"a GPU hour": settings.price_gpu_hour, "a kWh of its energy": settings.price_kwh}
        yield (
            "Cost: "
            + ", ".join(f"{price:g} for {what}" for what, price in prices.items() if price is not None)
            + "."
        )


def folder_of(out: Path) -> Path:
    """Tell where the pictures and tables of a page are, and the trace that was recorded for it."""
    return out.with_name(out.stem + _FOLDER_SUFFIX)


def write_report(report: Report, out: Path) -> Path:
    """Write ``out`` and beside it the folder of pictures and tables; that folder's path.

    The page comes last: where it is, all is. Raises ``DutycycleError``; then a folder that was not there
    before is gone again, so that a full disk does not stay full.
    """
    folder = folder_of(out)
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_pictures(report.charts, report.phases, folder)
        write_tables(report, folder)
        with whole_file(out) as path:
            path.write_text(html_of(report), encoding="utf-8")
    except (OSError, DutycycleError) as error:
        if is_new:
            rmtree(folder, ignore_errors=True)
        if isinstance(error, DutycycleError):
            raise
        raise DutycycleError(f"{error.filename or folder}: {error.strerror or error}") from error
    return folder
