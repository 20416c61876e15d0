"""Goal: what goes on is on one line of a terminal, and nowhere else."""

import sys

import pytest

from dutycycle.progress import StatusLine


def test_it_is_said_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with StatusLine() as elsewhere:
        elsewhere.put("reading kernels …")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with StatusLine(sys.stderr, quiet_s=2.0, clock=iter([0.0, 1.0, 5.0]).__next__) as status:
        status.put("reading kernels …")
        status.put("reading kernels …")
        assert capsys.readouterr().err == "\rreading kernels …\033[K"
    assert capsys.readouterr().err == "\r\033[K"
