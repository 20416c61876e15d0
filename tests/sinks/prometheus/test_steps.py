"""Goal: the rate of a training is what it reported in the last minute, and nothing is made up."""

import pytest

from dutycycle.contract.records.processes import Loop, Process, ProcessSample
from sinks.prometheus.view import StepRates, StepReports

Report = tuple[int, list[tuple[int, float, int | None]]]
"""A second, and of each process its steps, their seconds and samples."""


def reported(*reports: Report) -> StepReports:
    found = StepReports()
    for second, loops in reports:
        processes = tuple(
            Process(pid=pid, pod_uid="p", loop=Loop(loop="x", steps=steps, seconds=seconds, samples=samples))
            for pid, (steps, seconds, samples) in enumerate(loops)
        )
        found.add(
            ProcessSample(
                node="a", collector="c", seq=second, ts_ms=1000 * second, interval_ms=1000,
                processes=processes,
            )
        )  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("reports", "rates"),
    [
        ([], None),
        ([(99, [(0, 0.0, 0)])], None),
        ([(99, [(2, 1.0, 16)])], StepRates(2, 16)),
        ([(95, [(5, 3.0, None)]), (99, [(1, 3.0, None)])], StepRates(1, None)),
        ([(99, [(2, 1.0, 16), (2, 1.0, 16)])], StepRates(2, 32)),
        ([(99, [(2, 1.0, 16), (2, 1.0, None)])], StepRates(2, None)),
        ([(39, [(90, 1.0, 16)]), (99, [(2, 1.0, 16)])], StepRates(2, 16)),
        ([(39, [(90, 1.0, 16)])], None),
    ],
    ids=[
        "nothing", "no step", "one", "uneven", "two ranks", "one counts none", "the last minute", "long ago",
    ],
)  # fmt: skip
def test_rates(reports: list[Report], rates: StepRates | None) -> None:
    assert reported(*reports).rates("p", 100_000) == rates
    assert reported(*reports).rates("other", 100_000) is None


def test_who_reports_no_more_is_forgotten() -> None:
    reports = reported((99, [(2, 1.0, 16)]))
    reports.forget(98_000)
    assert reports.rates("p", 100_000) is not None
    reports.forget(99_000)
    assert reports.rates("p", 100_000) is None
