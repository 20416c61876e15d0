"""Makes the report of a run, or the comparison of runs, with the code of the commands, in its own process.

Samples are those of the topics. Of a job that these have no more the records and a Prometheus say what they
know.

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

from dutycycle.contract.errors import DutycycleError, NotMeasuredError
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import GIB
from dutycycle.kafka.errors import BrokerError
from dutycycle.live.model.limits import OTHERS
from dutycycle.process import die_with_parent, temporary_folder

if TYPE_CHECKING:
    # Not at run time: what answers takes a question from here, and makes no report.
    from dutycycle.compare.comparison import NamedRun
    from dutycycle.report.gather import Gathered

_WAIT_S = 20.0
"""For so long a broker is waited for."""
_NICE = 10
_MOST_RECORDS, _MOST_BYTES = 2_000_000, 2 * GIB
"""Samples that are read for a report: a day of a node with eight GPUs is a quarter of that."""
_GONE = "the topics have them no more"
_AWAY = "the topics cannot be read now"
_PODS_UNKNOWN = "which pods it had is not known in whole: it had very many, or a record of one cannot be read"


@dataclass(frozen=True, slots=True)
class RunSpan:
    """Names a job, by its uid and by what people call it, in ``[start_ms, end_ms)``.

    ``pods``: all of it, and others of its nodes that are known; empty where not all of it are.
    """

    uid: str
    name: str
    start_ms: int
    end_ms: int
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class StudyQuestion:
    """Asks for the report of a run, or the comparison of several. ``links``: to other pages, with their
    names. ``namespaces``: those whose names may be told, None for all."""

    runs: tuple[RunSpan, ...]
    links: tuple[tuple[str, str], ...]
    namespaces: frozenset[str] | None


class SamplesGoneError(DutycycleError):
    """Says why the topics do not give the samples of a run."""


def page_of(settings: Settings, question: StudyQuestion) -> str:
    """Make the page from the samples of all runs; where those of one cannot be had, from the records of all,
    so that like is compared with like. Raises ``DutycycleError``."""
    from dutycycle.compare import page as comparison_page
    from dutycycle.compare.comparison import NamedRun
    from dutycycle.report.page import ServedPage, html_of
    from dutycycle.web.about import address_of
    from dutycycle.web.studies.recorded import recorded_run

    served = ServedPage(question.links, address_of)
    try:
        runs = [_run_of_samples(run, settings, question.namespaces) for run in question.runs]
    except SamplesGoneError as error:
        runs = [
            NamedRun(run.name, *recorded_run(run.uid, run.name, settings, str(error), question.namespaces))
            for run in question.runs
        ]
    if len(runs) == 1:
        return html_of(runs[0].report, served)
    named = [replace(run, name=f"{at}: {run.name}") for at, run in enumerate(runs, 1)]
    return comparison_page.html_of(named, served)


def _run_of_samples(run: RunSpan, settings: Settings, namespaces: frozenset[str] | None) -> "NamedRun":
    """Make the report of what the topics hold of a run. Raises ``SamplesGoneError``, also where the whole
    topic of pods would have to be read to find its own."""
    if not run.pods:
        raise SamplesGoneError(f"{run.name}: {_PODS_UNKNOWN}")
    from dutycycle.compare.comparison import NamedRun
    from dutycycle.measures.figures import measures_of
    from dutycycle.report.build import gather, report_of
    from dutycycle.traces.extract import ExtractRequest, ReadLimit, TooManySamplesError, extract

    with temporary_folder() as folder:
        trace = folder / "run.jsonl.zst"
        limit = ReadLimit(_MOST_RECORDS, _MOST_BYTES)
        wanted = ExtractRequest(run.uid, run.start_ms, run.end_ms, run.pods, limit)
        try:
            extract(trace, wanted, settings, overwrite=False, timeout_s=_WAIT_S)
            gathered = gather([str(trace)], settings)
            if namespaces is not None:
                _hide_others(gathered, namespaces)
            report = report_of(gathered, settings, f"what {settings.broker} has", job=run.uid)
        except BrokerError as error:
            # Where the broker is concerns who may see all.
            why = f"{_AWAY} ({error.reason} at {settings.broker})" if namespaces is None else _AWAY
            raise SamplesGoneError(f"{run.name}: {why}") from error
        except TooManySamplesError as error:
            raise SamplesGoneError(f"{run.name}: {error}") from error
        except NotMeasuredError as error:  # it names what there is instead, which may be of others
            raise SamplesGoneError(f"{run.name}: {_GONE}") from error
        except DutycycleError as error:
            raise SamplesGoneError(f"{run.name}: {_AWAY if namespaces is not None else error}") from error
    report = replace(report, title=run.name)
    return NamedRun(run.name, report, measures_of(report))


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
