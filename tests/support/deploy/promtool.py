"""Rules, tried by ``promtool test rules``: series with a value a minute, and what is to come of them."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.deploy.manifests import CHART
from tests.support.servers.missing import program

RULE_FOLDER = CHART / "files/rules"
Series = dict[str, str]


def named(name: str, labels: Mapping[str, str]) -> str:
    """A series as PromQL writes it."""
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def series(name: str, values: str, **labels: str) -> Series:
    """A series and its values, in promtool's notation."""
    return {"series": named(name, labels), "values": values}


def alerts(name: str, minute: int, *expected: Mapping[str, Any]) -> dict[str, Any]:
    """These alarms of an alert are raised then, each with its labels and its words, and no others."""
    return {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": list(expected)}


def answers(expression: str, minute: int, samples: Mapping[str, float]) -> dict[str, Any]:
    """An expression has these values then, by series."""
    found = [{"labels": labels, "value": value} for labels, value in samples.items()]
    return {"expr": expression, "eval_time": f"{minute}m", "exp_samples": found}


def firing(name: str, minute: int, count: int) -> dict[str, Any]:
    """So many alarms of an alert are raised then."""
    alarms = named("ALERTS", {"alertname": name, "alertstate": "firing"})
    return answers(f"count({alarms}) or vector(0)", minute, {"{}": count})


def judge(folder: Path, rules: str, given: Sequence[Series], *asked: dict[str, Any]) -> None:
    """Let promtool try the file ``rules`` on series: all that is ``asked`` has to be so."""
    case: dict[str, Any] = {"interval": "1m", "input_series": list(given)}
    case["alert_rule_test"] = [one for one in asked if "alertname" in one]
    case["promql_expr_test"] = [one for one in asked if "expr" in one]
    tried = {"rule_files": [str(RULE_FOLDER / rules)], "evaluation_interval": "1m", "tests": [case]}
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump(tried))
    command: list[str | Path] = [program("promtool"), "test", "rules", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
