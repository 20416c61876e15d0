"""The Prometheus fixture."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.exposition import serve_metrics
from tests.support.servers.missing import ServerMissingError, skip_or_fail
from tests.support.servers.prometheus import Prometheus, check, scrape


def test_a_scraped_value_is_answered(prometheus: Callable[[dict[str, Any]], Prometheus]) -> None:
    with serve_metrics('answer{of="everything"} 42\n') as page:
        server = prometheus(scrape([page.target], interval_s=0.2))
        (series,) = server.wait_for("answer")
    assert series["value"][1] == "42"
    assert series["metric"] | {"instance": ""} == {
        "__name__": "answer",
        "instance": "",
        "job": "test",
        "of": "everything",
    }


def test_promtool_refuses_bad_rules(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text("groups: [{name: g, rules: [{record: a, expr: 'sum('}]}]\n")
    try:
        with pytest.raises(AssertionError, match=r"rules\.yml"):
            check("rules", rules)
    except ServerMissingError as reason:
        skip_or_fail(reason)
