"""Finds what a picture is made of: traces and folders, and whom a name means in them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.pods import Pod
from dutycycle.plot.collected import KINDS, CollectedSeries, Wanted
from dutycycle.plot.from_tables import pods_in, read_tables
from dutycycle.plot.from_traces import pods_of, read_traces
from dutycycle.run.folder import TRACE
from dutycycle.tables.reader import has_tables
from dutycycle.traces.replay import DERIVED
from dutycycle.traces.subject import subject_of


@dataclass(frozen=True, slots=True)
class Sources:
    """Lists files of traces, and folders of tables."""

    traces: list[str]
    tables: list[Path]


def sources_of(paths: Sequence[str]) -> Sources:
    """Sorts traces from folders: a folder holds tables, or the traces of a run. Raises ``DutycycleError``."""
    sources = Sources([], [])
    for path in paths:
        folder = Path(path)
        if path != "-" and not folder.exists():
            raise DutycycleError(f"{path}: No such file or directory")
        if not folder.is_dir():
            sources.traces.append(path)
        elif has_tables(folder):
            sources.tables.append(folder)
        else:
            # What ``replay --out DIR/`` or ``run`` wrote there
            whole = [folder / name for name in (DERIVED, TRACE) if (folder / name).is_file()]
            traces = whole[:1] or sorted(folder.glob(f"runs/*/{DERIVED}"))
            if len(traces) > 1:
                names = ", ".join(str(run.parent) for run in traces[:4])
                raise DutycycleError(
                    f"{folder}: has {len(traces)} runs: give the folder of one, such as {names}"
                )
            if not traces:
                raise DutycycleError(
                    f"{folder}: has neither tables (topic=…) nor a run of replay --out {folder}/"
                )
            sources.traces.append(str(traces[0]))
    return sources


def read(
    sources: Sources, wanted: Wanted, prefix: str, progress: Callable[[int], None] = lambda _: None
) -> tuple[CollectedSeries, int]:
    """Return what is in them, and how many records could not be used. Raises ``DutycycleError``.

    A wanted subject is a key, or the name of a job, which stands for its pods, or of a pod. A job or pod may
    be named after its samples, so that the traces are read for the names first.
    """
    keys = [subject for subject in wanted.subjects if subject.startswith(KINDS) or "*" in subject]
    names = [subject for subject in wanted.subjects if subject not in keys]
    pods: list[Pod] = []
    if names:
        if "-" in sources.traces:
            raise DutycycleError(
                f"no subject {names[0]}: standard input is read once: give a key, such as pod/UID"
            )
        pods += pods_of(sources.traces, prefix, progress)
        pods += [pod for folder in sources.tables for pod in pods_in(folder)]
        if not pods:
            raise DutycycleError(
                f"no subject {names[0]}: no pod is named here; keys begin with {', '.join(KINDS)}"
            )
    for name in names:
        chosen = subject_of(pods, job=name, pod=name, where="what was read")
        keys += [f"pod/{pod.uid}" for pod in chosen.pods]
    collected = CollectedSeries(replace(wanted, subjects=keys))
    unusable = read_traces(sources.traces, prefix, collected, progress)
    for folder in sources.tables:
        read_tables(folder, collected, progress)
    return collected, unusable
