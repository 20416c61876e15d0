"""Reads a profile to its end: its summaries, what its GPUs did, and what holds the program back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dutycycle.contract.records.insights import ProfileVerdict
from dutycycle.contract.units import Number
from dutycycle.process import temporary_folder
from dutycycle.profile import chrome, statistics, verdict
from dutycycle.profile.export import COPY, HOST_TO_DEVICE, PAGEABLE, Export
from dutycycle.profile.statistics import StatisticsTable
from dutycycle.profile.timeline import GpuTime, ProfileTimeline
from streams.operators.workload.rules.finding import Finding

_UNITS = {"_pct": " %", "_us": " µs", "_ms": " ms", "_per_s": "/s", "_s": " s"}
_RANGES = {False: "NVTX Range Summary", True: "Annotations and operators"}


@dataclass(frozen=True, slots=True)
class Profile:
    """Holds all that is said of a profile. ``notes``: what it lacks. ``whole``: not cut off; else there is no
    verdict, as the events of a trace are in no order of time, and those that are missing are of one kind."""

    source: str
    product: str
    notes: list[str]
    gpus: dict[str, GpuTime]
    tables: list[StatisticsTable]
    evidence: dict[str, Number]
    finding: Finding
    advice: str | None
    whole: bool

    @classmethod
    def told(cls, record: ProfileVerdict, source: str) -> "Profile":
        """Return a profile with what was published of it."""
        return cls(
            source=source, product=record.product, notes=[], gpus={}, tables=[], whole=True,
            evidence=dict(record.evidence), advice=record.advice,
            finding=Finding(record.bottleneck, record.bottleneck_confidence),
        )  # fmt: skip

    def headline(self) -> str:
        """Return the verdict in one line."""
        word = self.finding.bottleneck
        if not self.whole:
            return "no verdict, since the file is cut off"
        if not self.evidence:
            return "no GPU was traced"
        if word == "none":
            return "nothing holds it back but its demand"
        if word == "unknown":
            return "what holds it back is not known: the GPU waits, and the profile does not say for what"
        return f"held back by: {word.replace('_', ' ')} ({self.finding.confidence:.0%} sure)"

    def figures(self) -> Iterator[tuple[str, str]]:
        """Yield the evidence for people, without what is zero."""
        for name, value in self.evidence.items():
            ending = next((unit for unit in _UNITS if name.endswith(unit)), "")
            if value:
                named = name.removesuffix(ending).replace("_", " ").replace("gpu", "GPU")
                yield named, f"{value:,g}{_UNITS.get(ending, '')}"

    def plain(self) -> dict[str, Any]:
        """Return it as plain objects for JSON. The verdict has the fields of an insight. The verdict has the
        fields of an insight."""
        gpus = {
            name: {"span_ns": gpu.span, "busy_ns": gpu.busy, "activities": gpu.activities}
            | {f"{part}_ns": value for part, value in gpu.shares().items()}
            | {"longest_wait_ns": gpu.longest[0], "longest_wait_at_ns": gpu.longest[1]}
            for name, gpu in self.gpus.items()
        }
        return {
            "source": self.source,
            "product": self.product,
            "notes": self.notes,
            "whole": self.whole,
            "bottleneck": self.finding.bottleneck,
            "bottleneck_confidence": self.finding.confidence,
            "evidence": self.evidence,
            "advice": self.advice,
            "gpus": gpus,
            "tables": {
                table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
                for table in self.tables
            },
        }


def read(path: Path, progress: Callable[[str], None] = lambda _: None) -> Profile:
    """Read an SQLite export of Nsight Systems or a Chrome trace. Raises ``DutycycleError``.

    A Chrome trace is first written to a database in the folder for temporary files, about as large as itself.
    """
    if not chrome.is_trace(path):
        return _of_export(Export(path, progress), path, None, [])
    with temporary_folder() as folder:
        database = folder / "trace.sqlite"
        made = chrome.convert(path, database, progress)
        return _of_export(Export(database, progress), path, made, made.notes)


def _of_export(export: Export, path: Path, made: chrome.ChromeProfile | None, notes: list[str]) -> Profile:
    try:
        timeline = ProfileTimeline()
        timeline.read(export)
        calls, kernels = statistics.api_calls(export), statistics.kernels(export)
        whole = made is None or made.whole
        evidence = verdict.evidence_of(
            timeline.gpus.values() if whole else (), kernels, statistics.waits(calls), _pageable_pct(export)
        )
        finding = verdict.judge(evidence, kernels)
        models = export.models()
        gpus = {f"{id_} {models.get(id_, '')}".strip(): gpu for id_, gpu in sorted(timeline.gpus.items())}
        summaries = statistics.tables_of(export, calls, kernels, _RANGES[made is not None])
        tables = [*verdict.time_of(gpus), verdict.families(kernels), *summaries]
        return Profile(
            source=path.name,
            product=export.product() if made is None else made.product,
            notes=[*notes, *(_lacking(*table, made) for table in export.missing)],
            gpus=gpus,
            tables=[table for table in tables if table.rows],
            evidence=evidence,
            finding=finding,
            advice=verdict.advice(finding.bottleneck, evidence),
            whole=whole,
        )
    finally:
        export.close()


def _lacking(table: str, what: str, made: chrome.ChromeProfile | None) -> str:
    return f"no {what}" + ("" if made else f": the export has no table {table}, or it is empty")


def _pageable_pct(export: Export) -> float | None:
    """Return the percentage of bytes from pageable memory, of those copied to GPUs from a known kind of
    memory; None where there are none."""
    sql = (
        f"SELECT sum(bytes), sum(bytes * (source = {PAGEABLE})) FROM activities "
        f"WHERE what = {COPY} AND copy IN {HOST_TO_DEVICE} AND source IS NOT NULL"
    )
    every, pageable = next(export.rows("copies", sql))
    return 100 * pageable / every if every else None
