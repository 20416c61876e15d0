"""What is said of what measuring cost: a share of a run that was long enough to have one."""

import pytest

from dutycycle.run.command import Ended
from dutycycle.run.summary import lines_of

ENDED = Ended(0, None, 0.01, 1, 0, 0)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.1, "1.55 s of CPU time"),
        (0.0, "1.55 s of CPU time"),
        (62.0, "1.55 s of CPU time, 2.5 % of one core"),
    ],
)
def test_a_short_run_has_no_share_of_a_core(seconds: float, said: str) -> None:
    (line,) = [one for one in lines_of("x", ENDED, seconds, 1.55) if "Measuring took" in one]
    assert line.endswith(said)
