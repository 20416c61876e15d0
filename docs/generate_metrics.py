"""Writes docs/metrics.md: the prose of metrics.template.md, with tables made from the code.

``python -m docs.generate_metrics`` writes the page; a test says when that was forgotten.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from docs.generate_contract import table
from dutycycle.contract.catalogue import GPU_ROWS, MetricRow
from dutycycle.telemetry.metrics import PREFIX, Metric
from sinks.prometheus import metrics as m

HERE = Path(__file__).parent
PAGE = HERE / "metrics.md"
TEMPLATE = HERE / "metrics.template.md"
RULES = HERE.parent / "deploy/helm/dutycycle/files/rules/workloads.yml"
_PLACES = (("gpus", m.OF_GPU), ("slices", m.OF_SLICE), ("pods", m.OF_POD), ("jobs", m.OF_JOB))


def page() -> str:
    """The whole page."""
    text = TEMPLATE.read_text(encoding="utf-8")
    for place, labels in _PLACES:
        text = text.replace("{{" + place + "}}", _table(place, labels))
    return (
        text.replace("{{alerts}}", _alerts())
        .replace("{{records}}", _records())
        .replace("{{sources}}", _sources())
    )


def _sources() -> str:
    rows = (
        (
            f"`{row.field}`",
            ", ".join(_calls(row)),
            ", ".join(f"`{name}`" for name in row.dcgm),
            f"`{PREFIX}{row.series.name}`" if row.series else "",
        )
        for row in GPU_ROWS
    )
    return table(("field of a GPU", "NVML", "dcgm-exporter", "series"), rows)


def _calls(row: MetricRow) -> Iterator[str]:
    if row.nvml:
        yield f"field {row.nvml}" if isinstance(row.nvml, int) else f"`{row.nvml}`"
    if row.gpm:
        first, last = min(row.gpm), max(row.gpm)
        yield f"GPM {first}" + (f" to {last}" if last > first else "")
    if row.before_gpm is not None:
        yield f"field {row.before_gpm} before GPM"


def _rules(kind: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def _alerts() -> str:
    rows = (
        (rule["alert"], rule["labels"]["severity"], f"`{rule['expr']}`", rule.get("for", ""))
        for rule in _rules("alert")
    )
    return table(("alert", "severity", "when", "for"), rows)


def _records() -> str:
    return table(
        ("record", "is"), ((f"`{rule['record']}`", f"`{rule['expr']}`") for rule in _rules("record"))
    )


def _table(place: str, labels: tuple[str, ...]) -> str:
    rows = [(f"`{PREFIX}{one.name}`", _more(one, labels), _type(one), one.help) for one in _of(place)]
    return table(("name", "further labels", "type", "meaning"), rows)


def _of(place: str) -> list[Metric]:
    prefix = {"gpus": "gpu_", "slices": "mig_", "pods": "pod_", "jobs": "job_"}[place]
    return [one for one in m.SERIES if one.name.startswith(prefix)]


def _more(metric: Metric, labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in metric.labels[len(labels) :])


def _type(metric: Metric) -> str:
    return "counter" if metric.is_counter else "gauge"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
