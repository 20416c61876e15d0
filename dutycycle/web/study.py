"""Makes the report of a run, or the comparison of runs, with the code of the commands, in its own process.

Reads what it is asked from its standard input, which is its parent's alone, and answers with JSON: ``page``,
or ``error``, in words for who asked.
"""

import json
import os
import pickle
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import structs

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.live.model.limits import OTHERS
from dutycycle.process import die_with_parent, temporary_folder

if TYPE_CHECKING:
    # Not at run time: what answers takes a question from here, and makes no report.
    from dutycycle.report.gather import Gathered

_WAIT_S = 20.0
"""For so long a broker is waited for."""
_NICE = 10
_NOT_MADE = "no report can be made: the topics have its samples no more, or cannot be read now"


@dataclass(frozen=True, slots=True)
class RunSpan:
    """Names a job, by its uid and by what people call it, in ``[start_ms, end_ms)``."""

    uid: str
    name: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class StudyQuestion:
    """Asks for the report of a run, or the comparison of several. ``links``: to other pages, with their
    names. ``namespaces``: those whose names may be told, None for all."""

    runs: tuple[RunSpan, ...]
    links: tuple[tuple[str, str], ...]
    namespaces: frozenset[str] | None


def page_of(settings: Settings, question: StudyQuestion) -> str:
    """Make the page. Raises ``DutycycleError``."""
    from dutycycle.compare import page as comparison_page
    from dutycycle.compare.comparison import NamedRun
    from dutycycle.measures.figures import measures_of
    from dutycycle.report.build import gather, report_of
    from dutycycle.report.page import html_of
    from dutycycle.traces.extract import ExtractRequest, extract

    reports = []
    with temporary_folder() as folder:
        for at, run in enumerate(question.runs):
            trace = folder / f"{at}.jsonl.zst"
            wanted = ExtractRequest(run.uid, run.start_ms, run.end_ms)
            try:
                extract(trace, wanted, settings, overwrite=False, timeout_s=_WAIT_S)
                gathered = gather([str(trace)], settings)
                if question.namespaces is not None:
                    _hide_others(gathered, question.namespaces)
                report = report_of(gathered, settings, f"what {settings.broker} has", job=run.uid)
            except DutycycleError as error:
                # What is wrong may name others: of a job that the topics have no more, those that they have.
                why = str(error) if question.namespaces is None else _NOT_MADE
                raise DutycycleError(f"{run.name}: {why}") from error
            reports.append(replace(report, title=run.name))
            trace.unlink()
    if len(reports) == 1:
        return html_of(reports[0], question.links)
    names = [f"{at}: {run.name}" for at, run in enumerate(question.runs, 1)]
    return comparison_page.html_of(
        [NamedRun(name, report, measures_of(report)) for name, report in zip(names, reports, strict=True)],
        question.links,
    )


def _hide_others(gathered: "Gathered", namespaces: frozenset[str]) -> None:
    """Take the names of pods of other namespaces, or of none that is known: some used the same GPUs."""
    for uid, pod in gathered.identities.items():
        if pod.namespace not in namespaces:
            hidden = structs.replace(pod, namespace=None, name=OTHERS, job=None, labels=None)
            gathered.identities[uid] = hidden
    for (node, _), gpu in gathered.gpus.items():
        for uid in gpu.users:  # a uid may be made of names
            gathered.identities.setdefault(uid, Pod(uid=uid, name=OTHERS, node=node, phase="Unknown"))


def main() -> None:
    """Answer one question, at low priority, and end with the parent."""
    die_with_parent(os.environ)
    os.nice(_NICE)
    settings, question = pickle.load(sys.stdin.buffer)  # noqa: S301 - what our own parent has written
    with redirect_stdout(sys.stderr):
        try:
            answer = {"page": page_of(settings, question)}
        except DutycycleError as error:
            answer = {"error": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
