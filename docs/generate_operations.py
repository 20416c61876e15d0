"""Writes docs/operations.md: the prose of operations.template.md, with tables made from the code.

``python -m docs.generate_operations`` writes the page; a test says when that was forgotten.
"""

import importlib
import logging
import pkgutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from docs.generate_contract import table
from dutycycle.telemetry.events import Event
from dutycycle.telemetry.metrics import GROUPS

HERE = Path(__file__).parent
PAGE = HERE / "operations.md"
TEMPLATE = HERE / "operations.template.md"
RULES = HERE.parent / "deploy/helm/dutycycle/files/rules/pipeline.yml"
_PACKAGES = (
    "dutycycle.contract", "dutycycle.telemetry", "dutycycle.kafka", "dutycycle.kube",
    "collectors", "streams", "sinks",
)  # fmt: skip


def page() -> str:
    """The whole page."""
    text = TEMPLATE.read_text(encoding="utf-8")
    for place, made in (("metrics", _metrics()), ("events", _events()), ("alerts", _alerts())):
        text = text.replace("{{" + place + "}}", made)
    return text


def events() -> list[Event]:
    """Every event that is declared anywhere, by name."""
    found = {
        one.name: one for module in _modules() for one in vars(module).values() if isinstance(one, Event)
    }
    return [found[name] for name in sorted(found)]


def _modules() -> Iterator[Any]:
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for one in pkgutil.walk_packages(package.__path__, f"{name}."):
            yield importlib.import_module(one.name)


def _metrics() -> str:
    rows = [
        (f"`{one.name}`", _labels(one.labels), "counter" if one.is_counter else "gauge", who, one.help)
        for who, group in GROUPS.items()
        for one in group
    ]
    return table(("name", "labels", "type", "served by", "meaning"), rows)


def _events() -> str:
    rows = (
        (
            f"`{one.name}_total`",
            _labels(one.labels),
            logging.getLevelName(one.level).lower(),
            ", ".join(one.by),
            one.help,
        )
        for one in events()
    )
    return table(("name", "labels", "logged as", "counted by", "meaning"), rows)


def _alerts() -> str:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    rows = (
        (rule["alert"], rule["labels"]["severity"], f"`{rule['expr']}`", rule.get("for", ""))
        for rule in rules
    )
    return table(("alert", "severity", "when", "for"), rows)


def _labels(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
