"""A GPU is too large if it was so for an hour."""

from dataclasses import replace

import orjson
import pytest

from streams.operators.workload.rules import bottleneck
from streams.operators.workload.rules.figures import Figures
from streams.operators.workload.rules.hour import Hour

QUIET = Figures(
    seconds=180,
    means={"gpu_util_pct": 10, "gpu_mem_pct": 8},
    most={"gpu_util_pct": 40, "gpu_mem_pct": 9},
    level_pct=20,
    waits=0.4,
    loads={},
)
BUSY = replace(QUIET, means={"gpu_util_pct": 60, "gpu_mem_pct": 8}, level_pct=85)
FULL = replace(QUIET, most=QUIET.most | {"gpu_mem_pct": 70})
MINUTE_MS = 60_000
HOUR = 60


def found(hour: Hour, minute: int, of: Figures | None, kind: str = "inference") -> str:
    return hour.find(minute * MINUTE_MS, of, kind, 1).bottleneck


@pytest.mark.parametrize("other", [BUSY, FULL], ids=["time", "memory"])
def test_what_was_needed_within_the_hour_counts(other: Figures) -> None:
    hour = Hour()
    assert found(hour, 1, QUIET) == "over_provisioned"
    assert found(hour, 5, other) == "none"
    assert {found(hour, minute, QUIET) for minute in range(6, HOUR)} == {"none"}
    assert found(hour, HOUR + 6, QUIET) == "over_provisioned"


def test_the_evidence_is_of_the_hour() -> None:
    hour, more = Hour(), replace(QUIET, most=QUIET.most | {"gpu_mem_pct": 30.5})
    found(hour, 1, more)
    assert hour.find(2 * MINUTE_MS, QUIET, "inference", 1).evidence == {"gpu_mem_most_pct": 30.5}


def test_a_trainer_that_is_quiet_now_waits_for_what_cannot_be_seen() -> None:
    hour = Hour()
    found(hour, 1, BUSY, "training")
    assert found(hour, 2, QUIET, "training") == "unknown"


@pytest.mark.parametrize("of", [None, replace(QUIET, most={"gpu_util_pct": 1.0, "gpu_mem_pct": 9.0}), BUSY])
def test_all_else_is_as_the_rules_have_it(of: Figures | None) -> None:
    assert Hour().find(MINUTE_MS, of, "inference", 1) == bottleneck.find(of, "inference", 1)


def test_a_restart_changes_nothing() -> None:
    hour = Hour()
    for minute in range(90):
        again = Hour()
        again.restore(orjson.loads(orjson.dumps(hour.snapshot())))
        of = FULL if minute % 70 == 9 else QUIET
        assert found(again, minute, of) == found(hour, minute, of)
        assert again.snapshot() == hour.snapshot()
