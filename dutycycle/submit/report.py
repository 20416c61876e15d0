"""Writes the report of a run on a cluster, from the trace that it has left, and its summary."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from dutycycle.contract.settings.groups import Settings
from dutycycle.run.folder import TRACE, say, say_where
from dutycycle.run.report import conclude
from dutycycle.traces.subject import the_one

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
        from dutycycle.report.build import gather, report_of  # here, not above: the job need not wait for it

        gathered = gather([str(folder / TRACE)], settings)
        job, pod = the_one([gathered.identities[uid] for uid in pods if uid in gathered.identities])
        return report_of(gathered, settings, TRACE, job=job, pod=pod, title=title, ended=ended)

    if failure := conclude(make, folder):
        say(f"dutycycle: {failure}")
    say_where(folder)
