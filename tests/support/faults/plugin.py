"""What a fault test did and compared, told at the end of the run."""

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_NAME = "fault"
_SEED = "DUTYCYCLE_TEST_SEED"


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say what was injected and what was compared; it stands in the summary of the run, and in its report."""

    def say(text: str) -> None:
        print(text)
        record_property(_NAME, text)

    return say


@pytest.fixture
def fresh_seed(request: pytest.FixtureRequest) -> int:
    """Another seed at each run, or the one that is given; how to run it again is said at once."""
    seed = int(os.environ.get(_SEED, random.SystemRandom().randrange(10**6)))
    print(f"again: {_SEED}={seed} .venv/bin/pytest -n 0 -m soak '{request.node.nodeid}'")
    return seed


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what the tests told."""
    lines = list(_told(terminalreporter.stats))
    if lines:
        terminalreporter.section("faults injected, results compared")
        for line in lines:
            terminalreporter.write_line(line)


def _told(stats: dict[str, list[Any]]) -> Iterator[str]:
    for outcome in ("passed", "failed"):
        for report in stats.get(outcome, []):
            for name, text in getattr(report, "user_properties", []):
                if name == _NAME and report.when == "call":
                    yield f"{report.nodeid.rpartition('/')[2]}: {text}; {report.duration:.0f} s"
