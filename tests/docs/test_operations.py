"""docs/operations.md is what the code says, and names nothing that is not there."""

import re

from docs.generate_operations import PAGE, TEMPLATE, events, page
from dutycycle.telemetry import metrics
from dutycycle.telemetry.endpoint import PORTS
from dutycycle.telemetry.metrics import GROUPS, Metric


def test_it_is_current() -> None:
    assert PAGE.read_text() == page(), "run `python -m docs.generate_operations`"


def test_every_metric_is_served_by_somebody() -> None:
    declared = [one for one in vars(metrics).values() if isinstance(one, Metric)]
    grouped = [one for group in GROUPS.values() for one in group]
    assert sorted(grouped, key=lambda one: one.name) == sorted(declared, key=lambda one: one.name)


def test_names_of_metrics_and_events_do_not_meet() -> None:
    names = [one.name for group in GROUPS.values() for one in group]
    names += [f"{one.name}_total" for one in events()]
    assert len(names) == len(set(names))


def test_the_prose_names_what_there_is() -> None:
    text = TEMPLATE.read_text()
    known = {one.name for group in GROUPS.values() for one in group}
    known |= {f"{one.name}_total" for one in events()}
    named = set(re.findall(r"`(?:dutycycle_)?([a-z_]+_(?:total|records|seconds|bytes))`", text))
    assert len(named) > 5
    assert named <= known
    for process, port in PORTS.items():
        assert f"| `{process}` | `127.0.0.1:{port}` |" in text
