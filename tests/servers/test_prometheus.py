"""What ``promtool`` refuses fails a test."""

from pathlib import Path

import pytest

from tests.support.servers.missing import ServerMissingError, skip_or_fail
from tests.support.servers.prometheus import check


def test_promtool_refuses_bad_rules(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text("groups: [{name: g, rules: [{record: a, expr: 'sum('}]}]\n")
    try:
        with pytest.raises(AssertionError, match=r"rules\.yml"):
            check("rules", rules)
    except ServerMissingError as reason:
        skip_or_fail(reason)
