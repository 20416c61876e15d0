"""The report of a run on a cluster, from the trace that it has left, and its summary."""

import sys
from collections.abc import Collection
from pathlib import Path

from contract.errors import DutycycleError
from contract.settings.groups import Settings
from dutycycle.run.folder import PAGE, TRACE
from dutycycle.traces.subject import the_one


def say(line: str) -> None:
    """For people, beside what the job itself says."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def write_report_of(folder: Path, settings: Settings, pods: Collection[str]) -> None:
    """The report of these pods (uids). Why there is none is said, and is no failure of the job."""
    trace = folder / TRACE
    try:
        # Here, not above: they take a second to import, and the job need not wait for it.
        from dutycycle.report.build import gather, report_of, write_report
        from dutycycle.run.summary import figures_of

        gathered = gather([str(trace)], settings, lambda _: None)
        job, pod = the_one([gathered.identities[uid] for uid in pods if uid in gathered.identities])
        report = report_of(gathered, settings, TRACE, job=job, pod=pod)
        for line in figures_of(report):
            say(line)
        write_report(report, folder / PAGE)
    except ModuleNotFoundError as error:
        missing = f"the package {error.name} is not installed: pip install 'dutycycle[report]'"
        say(f"dutycycle: no report: {missing}")
    except (DutycycleError, OSError) as error:
        say(f"dutycycle: no report: {error}")
    for name, path in (("Report", folder / PAGE), ("Trace", trace)):
        if path.exists():
            say(f"  {name:<22} {path}")
