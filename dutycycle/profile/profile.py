"""Reads a profile to its end: its summaries, what its GPUs did, and what holds the program back."""

from collections.abc import Callable
from pathlib import Path

from dutycycle.process import temporary_folder
from dutycycle.profile import chrome, statistics, verdict
from dutycycle.profile.export import COPY, HOST_TO_DEVICE, PAGEABLE, Export
from dutycycle.profile.timeline import ProfileTimeline
from dutycycle.report.profiled import Profile

_RANGES = {False: "NVTX Range Summary", True: "Annotations and operators"}


def read(path: Path, progress: Callable[[str], None] = lambda _: None) -> Profile:
    """Read an SQLite export of Nsight Systems or a Chrome trace. Raises ``DutycycleError``.

    A Chrome trace is first written to a database in the folder for temporary files, about as large as itself.
    """
    if not chrome.is_trace(path):
        return _of_export(Export(path, progress), path, None)
    with temporary_folder() as folder:
        database = folder / "trace.sqlite"
        made = chrome.convert(path, database, progress)
        return _of_export(Export(database, progress), path, made)


def _of_export(export: Export, path: Path, made: chrome.ChromeProfile | None) -> Profile:
    try:
        timeline = ProfileTimeline()
        timeline.read(export)
        calls, kernels = statistics.api_calls(export), statistics.kernels(export)
        whole = made is None or made.whole
        # Of the bytes copied to GPUs from a known kind of memory.
        sql = (
            f"SELECT sum(bytes), sum(bytes * (source = {PAGEABLE})) FROM activities "
            f"WHERE what = {COPY} AND copy IN {HOST_TO_DEVICE} AND source IS NOT NULL"
        )
        every, pageable = next(export.rows("copies", sql))
        pageable_pct = 100 * pageable / every if every else None
        evidence = verdict.evidence_of(
            timeline.gpus.values() if whole else (), kernels, statistics.waits(calls), pageable_pct
        )
        finding = verdict.judge(evidence, kernels)
        models = export.models()
        gpus = {f"{id_} {models.get(id_, '')}".strip(): gpu for id_, gpu in sorted(timeline.gpus.items())}
        summaries = statistics.tables_of(export, calls, kernels, _RANGES[made is not None])
        tables = [*verdict.time_of(gpus), verdict.families(kernels), *summaries]
        notes = [] if made is None else list(made.notes)
        for table, count in export.untimed.items():
            notes.append(f"{count} rows of {table} have no time or no GPU, and are left out")
        for table, what in export.missing:
            where = "" if made else f": the export has no table {table}, or it is empty"
            notes.append(f"no {what}{where}")
        return Profile(
            source=path.name,
            product=export.product() if made is None else made.product,
            notes=notes,
            gpus={name: gpu.plain() for name, gpu in gpus.items()},
            tables=[table for table in tables if table.rows],
            evidence=evidence,
            finding=finding,
            advice=verdict.advice(finding.bottleneck, evidence),
            whole=whole,
        )
    finally:
        export.close()
