"""Goal: a bar on a terminal, a line every ten seconds elsewhere, and the end in any case."""

import io

from dutycycle.traces.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(out: io.StringIO, *reached: tuple[float, int]) -> str:
    """What is shown of an hour from 1970 on; of each the seconds on the clock and the minute reached."""
    clock = iter([now_s for now_s, _ in reached])
    progress = Progress(0, 3_600_000, out, lambda: next(clock))
    for _, minute in reached:
        progress.show(minute * 60_000, minute * 10)
    return out.getvalue()


def test_lines() -> None:
    assert shown(io.StringIO(), (0, 0), (5, 15), (10, 30), (12, 45), (13, 60)).splitlines() == [
        "0 % up to 1970-01-01 00:00 UTC, 0 records",
        "50 % up to 1970-01-01 00:30 UTC, 300 records, 10 s left",
        "100 % up to 1970-01-01 01:00 UTC, 600 records",
    ]


def test_a_bar() -> None:
    bar = shown(Terminal(), (0, 0), (60, 15), (61, 60))
    start, quarter, end = bar.replace("\x1b[K", "").split("\r")[1:]
    assert start.startswith("[------------------------------]   0 % up to")
    assert (
        quarter
        == "[########----------------------]  25 % up to 1970-01-01 00:15 UTC, 150 records, 3 min left"
    )
    assert (
        end.removesuffix("\n")
        == "[##############################] 100 % up to 1970-01-01 01:00 UTC, 600 records"
    )
