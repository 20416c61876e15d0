"""Says the report at the end of a run in figures, and writes it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dutycycle.contract.errors import DutycycleError, NotInstalledError
from dutycycle.run.folder import PAGE, say

if TYPE_CHECKING:
    from dutycycle.report.page import Report


def conclude(make: Callable[[], "Report"], folder: Path) -> str | None:
    """Make it, say its figures and write it into ``folder``. Why there is none is no failure of the run."""
    try:
        # Here, not above: they take a second to import, and the run need not wait for it.
        from dutycycle.report.build import write_report
        from dutycycle.run.summary import figures_of

        report = make()
        for line in figures_of(report):
            say(line)
        write_report(report, folder / PAGE)
    except ModuleNotFoundError as error:
        return f"no report: {NotInstalledError(error.name or str(error))}"
    except (DutycycleError, OSError) as error:
        return f"no report: {error}"
    return None
