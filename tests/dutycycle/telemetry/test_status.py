"""Goal: the first thing that is wrong is said; waiting is not sick, and sick is never ready."""

import pytest

from dutycycle.telemetry.status import Status


@pytest.mark.parametrize(
    ("waiting", "alive", "ready", "sick", "unready"),
    [
        (None, None, None, None, None),
        ("for the broker", None, None, None, "for the broker"),
        ("for the broker", None, "no", None, "for the broker"),
        (None, None, "no", None, "group: no"),
        (None, "stuck", None, "loop: stuck", "loop: stuck"),
        ("for the broker", "stuck", "no", "loop: stuck", "loop: stuck"),
    ],
)
def test_what_is_said(
    waiting: str | None, alive: str | None, ready: str | None, sick: str | None, unready: str | None
) -> None:
    status = Status()
    assert (status.liveness_error(), status.readiness_error()) == (None, "starting")
    status.waiting = waiting
    status.alive["loop"] = lambda: alive
    status.ready["group"] = lambda: ready
    assert (status.liveness_error(), status.readiness_error()) == (sick, unready)


def test_a_probe_that_fails_is_what_is_wrong() -> None:
    status = Status()
    status.waiting = None
    nothing: dict[str, str] = {}
    status.ready["group"] = lambda: nothing["x"]
    assert status.readiness_error() == "group: cannot be checked: KeyError: 'x'"
