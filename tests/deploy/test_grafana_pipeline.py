"""The dashboard of the pipeline, and its rules: figures and labels that exist."""

import json
import re
from typing import Any

import yaml

from docs.generate_operations import events
from dutycycle.telemetry.metrics import GROUPS, PREFIX
from tests.support.deploy.manifests import CHART

PANELS: list[dict[str, Any]] = json.loads((CHART / "files/dashboards/pipeline.json").read_text())["panels"]
RULES = yaml.safe_load((CHART / "files/rules/pipeline.yml").read_text())["groups"][0]["rules"]


def expressions() -> list[str]:
    return [one["targets"][0]["expr"] for one in PANELS] + [rule["expr"] for rule in RULES]


def test_every_figure_that_is_drawn_or_alarms_is_served() -> None:
    served = {one.name for group in GROUPS.values() for one in group}
    served |= {f"{one.name}_total" for one in events()}
    named = {name for one in expressions() for name in re.findall(PREFIX + r"(\w+)", one)}
    assert len(named) > 15
    assert named <= served


def test_what_labels_name_is_there() -> None:
    """By the metric that an expression begins with: its legend and its summary name labels that it has."""
    labels = {PREFIX + one.name: set(one.labels) for group in GROUPS.values() for one in group}
    labels |= {f"{PREFIX}{one.name}_total": set(one.labels) for one in events()}
    texts = [(one["targets"][0]["expr"], one["targets"][0]["legendFormat"]) for one in PANELS]
    texts += [(rule["expr"], rule["annotations"]["summary"].replace("$labels.", "")) for rule in RULES]
    for expression, text in texts:
        metric = re.search(PREFIX + r"\w+", expression)
        known = labels[metric[0]] if metric else set()
        grouped = re.search(r"by \(([^)]+)\)", expression)
        has = set(grouped[1].split(", ")) if grouped else known | {"instance", "job"}
        assert set(re.findall(r"\{\{ ?(\w+) ?\}\}", text)) <= has, (expression, text)
        assert not grouped or has <= known, expression
