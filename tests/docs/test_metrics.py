"""Goal: docs/metrics.md says what the code serves."""

import re

from docs.generate_metrics import PAGE, TEMPLATE, page
from dutycycle.telemetry.metrics import GROUPS, PREFIX
from sinks.prometheus.metrics import SERIES


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page()


def test_it_lists_every_series_and_the_prose_names_what_there_is() -> None:
    names = {PREFIX + one.name for one in SERIES}
    assert names <= set(re.findall(r"^\| `(\w+)`", page(), re.MULTILINE))
    known = names | {PREFIX + one.name for group in GROUPS.values() for one in group}
    assert set(re.findall(PREFIX + r"\w+", TEMPLATE.read_text())) <= known
