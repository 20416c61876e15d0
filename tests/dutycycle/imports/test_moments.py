"""When a line was written: ways to write a time, nights in which clocks change, logs without times."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.imports.moments import Clock, Ticks

BERLIN = ZoneInfo("Europe/Berlin")
AT_MS = 1_795_165_200_412
"""2026-11-20 09:00 UTC, 10:00 in Berlin."""
START_MS = 1_795_165_200_000


TIMES = [
    *((text, None, AT_MS) for text in (
        "2026/11/20 10:00:00.412", "2026-11-20T09:00:00.412Z", "2026-11-20 10:00:00.412+01:00",
        "2026-11-20 10:00:00.412 +0100", "2026-11-20 09:00:00.412 UTC", "2026-11-20 10:00:00.412 CET",
        "2026-11-20 10:00:00.4120001", "20.11.2026 10:00:00.412", "20.11.2026 10:00:00,412",
        "2026-11-20 10:00:00.412am", "20-Nov-2026 10:00:00.412", "Nov 20, 2026, 10:00:00.412 AM",
        "November 20 2026 10:00:00.412", "10:00:00.412 2026-11-20", "[2026-11-20 10:00:00.412]",
        "2026-11-20_10-00-00.412", "2026-11-20 10.00.00.412", "2026-11-20 06:00:00.412 -03",
        "1795165200.412", "1795165200412", "1795165200412000", "1795165200412000000", "0.412", "10:00:00.412",
        "Fr. 20.11.2026  10:00:00,412", "Friday, November 20, 2026 10:00:00.412 AM",
        "Nov 20, 2026 @ 10:00:00.412", "2026/11/20 上午 10:00:00.412",
        "2026年11月20日 金曜日 10:00:00.412 CET",
        "2026년 11월 20일 금요일 오전 10:00:00.412", "2026年11月20日 星期五 10时00分00秒.412",
        "0 days 00:00:00.412000",
    )),
    *((text, unit, AT_MS) for text, unit in (
        ("20/11/2026 10:00:00.412", "dmy"), ("11/20/2026 10:00:00.412 AM", "mdy"),
        ("11/20/2026, 10:00:00,412 a.m.", "MDY"), ("10:00:00.412 20/11/2026", "dmy"),
        ("20-11-2026 10:00:00.412", "dmy"), ("1795165200412", "ms"), ("412", "ms"),
        ("Fri 11/20/2026 10:00:00.412", "mdy"), ("0:00:00.412", "elapsed"), ("00:00.412", "elapsed"),
    )),
    *((text, None, START_MS) for text in (  # of the shell, and digits that are no number of seconds
        "Fri Nov 20 10:00:00 2026", "Fri Nov 20 10:00:00 CET 2026", "Fri Nov 20 09:00:00 UTC 2026",
        "Fri Nov 20 09:00:00 AM UTC 2026", "Fri Nov 20 06:00:00 -03 2026", "Fri 20 Nov 10:00:00 CET 2026",
        "Fri 20 Nov 2026 10:00:00 AM CET", "Fri, 20 Nov 2026 14:45:00 +0545", "20261120100000",
        "202611201000",
    )),
    *((f"2026-11-20 {text}", None, START_MS + 3_600_000 * (hour - 10)) for text, hour in (
        ("12:00 AM", 0), ("1:00 AM", 1), ("11:00 AM", 11), ("12:00 PM", 12), ("1:00 PM", 13),
        ("11:00 PM", 23),
    )),
    *((text, "elapsed", START_MS + 1000 * seconds) for text, seconds in (  # longer than a day
        ("25:00:01", 90_001), ("1 day, 1:00:01", 90_001), ("2-01:00:01", 176_401), ("61:05", 3665),
    )),
    ("2026/11/20 下午 3:00:00", None, START_MS + 5 * 3_600_000),
    # As spreadsheets save them: without its first 0 each night and morning would be left out.
    *((text, "mdy", 1000 * round(datetime(2026, 1, 5, 9, 5, tzinfo=BERLIN).timestamp())) for text in (
        "2026-01-05 9:05", "2026/1/5 9:05:00", "2026.1.5 9:05", "1/5/2026 9:05", "5.1.2026 9:05:00",
        "5-Jan-2026 9:05", "2026-1-05T08:05:00+00:00", "2026/1/5 9:05 AM",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("text", "unit", "at_ms"), TIMES)
def test_a_time_is_read_however_it_is_written(text: str, unit: str | None, at_ms: int) -> None:
    assert Clock(BERLIN, START_MS).read_ms(text, unit) == at_ms


def test_a_time_that_a_spreadsheet_has_rounded_is_refused_where_it_comes_again() -> None:
    """A time may end with zeros: of one no program writes those that an exponent makes up for."""
    clock = Clock()
    whole = [clock.read_ms(f"1.79516520{digit}e+09", subject=0) for digit in ("", "1", "2")]
    assert whole == [START_MS, START_MS + 1000, START_MS + 2000]
    assert clock.read_ms("1.7951652e+18", subject=0) == clock.read_ms("1.7951652e+18", subject=1) == START_MS
    with pytest.raises(ValueError, match="has only the first digits of its time, as a spreadsheet"):
        clock.read_ms("1.7951652e+18", subject=1)


@pytest.mark.parametrize(("first", "second"), [("31/01/2026", "01/02/2026"), ("01-31-2026", "02-01-2026")])
def test_a_day_above_12_tells_the_order_of_all_dates_after_it(first: str, second: str) -> None:
    clock = Clock()
    with pytest.raises(ValueError, match="is the day is not known"):
        clock.read_ms(f"{second} 10:00:00")
    days = [datetime(2026, 1, 31, 10, tzinfo=UTC), datetime(2026, 2, 1, 10, tzinfo=UTC)]
    moments_ms = [clock.read_ms(f"{date} 10:00:00") for date in (first, second)]
    assert moments_ms == [round(day.timestamp() * 1000) for day in days]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("01/05/2026 10:00:00", r"which of 01 and 05 is the day is not known: .*time=NAME\[mdy\]"),
        ("01-05-2026 10:00:00", r"which of 01 and 05 is the day is not known: .*time=NAME\[mdy\]"),
        ("Fr 20. Nov 10:00:00 CET 2026", "'Fr 20. Nov 10:00:00 CET 2026' is no time"),
        ("Fri 20 10:00:00 CET 2026", "'Fri 20 10:00:00 CET 2026' is no time"),
        ("2026-11-20 13:00 PM", "an hour before AM or PM is from 1 to 12"),
        ("2026-11-20 00:30 AM", "an hour before AM or PM is from 1 to 12"),
        ("yesterday", "'yesterday' is no time"),
        ("2026/1/5 9:5:0", "'2026/1/5 9:5:0' is no time"),
        ("0:00:01", "'0:00:01' has no date: give --start"),
        ("1 day, 0:00:01", "1 day, 0:00:01 is a time since the log began: give --start"),
        ("[N/A]", "is no time"),
        ("12.5", "12.5 is a time since the log began: give --start"),
        ("45990.3333", "or, where 2025-11-29 is meant, save the column as date and time"),
        ("10:00:00", "'10:00:00' has no date: give --start"),
        (
            "Fri Nov 20 10:00:00 EST 2026",
            "is of the zone EST, and not of Europe/Berlin: give the --zone of the",
        ),
        ("2026-11-20 10:00:00 CEST", "is of the zone CEST, and not of Europe/Berlin"),
        ("2026-03-29 02:30:00", "was skipped by the clocks of Europe/Berlin: give the --zone of the log"),
    ],
)
def test_what_is_no_time_is_said(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Clock(BERLIN).read_ms(text)


@given(
    first=st.integers(-7200, 3599), steps=st.lists(st.integers(1, 1500), min_size=1, max_size=40),
    jitter_ms=st.integers(0, 9),
)  # fmt: skip
def test_the_hour_that_comes_twice_is_told_apart(first: int, steps: list[int], jitter_ms: int) -> None:
    """A log that begins before the second 02:00 of 25 October, with no pause of an hour."""
    change = datetime(2026, 10, 25, 1, tzinfo=UTC)
    clock = Clock(BERLIN)
    moment = change + timedelta(seconds=min(first, -1))
    for step in steps:
        for shift_ms in (jitter_ms, 0):
            written = (moment + timedelta(milliseconds=shift_ms)).astimezone(BERLIN)
            expected_ms = round(moment.timestamp() * 1000) + shift_ms
            assert clock.read_ms(f"{written:%Y/%m/%d %H:%M:%S.%f}") == expected_ms
        moment += timedelta(seconds=step)
    assert not clock.notes.remarks


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("minutes", [20, 30, 50, 60, 70, 80])
@pytest.mark.parametrize("drift_s", [0, 3])
def test_a_log_of_few_lines_an_hour_and_several_gpus_is_told_apart(
    zone: str, change: datetime, minutes: int, drift_s: int
) -> None:
    clock = Clock(ZoneInfo(zone))
    moment = change - timedelta(minutes=5 * minutes)
    for _ in range(10):
        for gpu in range(3):
            at = (moment + timedelta(milliseconds=40 * gpu)).astimezone(ZoneInfo(zone))
            expected_ms = round(at.timestamp() * 1000)
            assert clock.read_ms(f"{at:%Y/%m/%d %H:%M:%S.%f}", subject=gpu) == expected_ms
        moment += timedelta(minutes=minutes, seconds=drift_s)


def test_the_abbreviation_tells_the_hour_apart() -> None:
    texts = ["Sun Oct 25 02:30:00 CET 2026", "Sun Oct 25 02:30:00 CEST 2026"]
    moments = [Clock(BERLIN).read_ms(text) for text in texts]
    assert moments[0] - moments[1] == 3_600_000


def test_a_zone_that_a_log_names_is_not_taken_for_utc() -> None:
    with pytest.raises(ValueError, match="is of the zone EST, and not of UTC: give the --zone"):
        Clock().read_ms("Fri Nov 20 10:00:00 EST 2026")


CHANGES = [
    (
        "2026/10/25 02:59:59",
        "2026/10/25 02:00:00",
        "goes back by an hour at {}, as where clocks are put back",
    ),
    ("2026/03/29 01:59:50", "2026/03/29 03:00:00", "leaves out an hour before {}, as where clocks are put f"),
    (
        "2026/03/28 12:59:59",
        "2026/03/28 01:00:00",
        "goes back by half a day at {}, as where hours count to 12",
    ),
    ("2026/03/28 12:59:59", "2026/03/28 03:00:00", None),
    ("2026/03/29 01:40:00", "2026/03/29 02:50:00", None),
    ("2026/03/28 01:59:50", "2026/03/28 03:00:00", None),
]


@pytest.mark.parametrize(("before", "after", "says"), CHANGES)
def test_without_a_zone_a_night_in_which_clocks_change_is_said(
    before: str, after: str, says: str | None
) -> None:
    clock = Clock()
    for text in (before, after):
        clock.read_ms(text)
    remarks = [remark.removeprefix("the time ") for remark in clock.notes.remarks]
    assert len(remarks) == (says is not None)
    assert all(remark.startswith((says or "").format(after)) for remark in remarks)


@pytest.mark.parametrize("minutes", [5, 15, 20, 30])
def test_a_log_of_few_lines_an_hour_says_that_night_too(minutes: int) -> None:
    clock = Clock()
    of_hour = range(0, 60, minutes)
    for hour in (1, 2, 2, 3):
        for minute in of_hour:
            for gpu in (0, 1):
                clock.read_ms(f"2026/10/25 {hour:02}:{minute:02}:00", subject=gpu)
    (remark,) = clock.notes.remarks
    assert remark.startswith("the time goes back by an hour at 2026/10/25 02:00:00")


def test_times_of_day_go_past_midnight() -> None:
    clock = Clock(UTC, 1_795_217_000_000)  # 23:23:20
    before, after = clock.read_ms("23:59:59"), clock.read_ms("00:00:01")
    assert after - before == 2000


def test_a_log_without_times_needs_a_start() -> None:
    with pytest.raises(ValueError, match="has no times: give --start"):
        Ticks(None, 1000).next_ms(0)
    ticks = Ticks(5000, 500)
    assert [ticks.next_ms(gpu) for gpu in (0, 1, 0, 1, 1)] == [5000, 5000, 5500, 5500, 6000]
