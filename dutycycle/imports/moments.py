"""Tells when a line was written: the ways in which logs write a time, and the time of logs that write
none."""

import math
import re
from collections.abc import Hashable
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal

from dutycycle.imports.quantities import QUANTITIES, Notes

_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE]\+?\d+)?").fullmatch
_DAY_OF_WEEK = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +(?:(?P<month>[A-Z][a-z]{2}) +)?(?P<day>\d{1,2}) +"
    r"(?:(?P<month_after>[A-Z][a-z]{2}) +)?(?:(?P<year>\d{4}) +)?(?P<time>\d\d:\d\d:\d\d)"
    r"(?: (?P<zone>[A-Z]{3,5}|[-+]\d\d(?::?\d\d)?))?(?: (?P<year_after>\d{4}))?"
).fullmatch
"""As ``date`` writes it, ``date -R`` as well: the order is that of the locale."""
_BRACKETED = re.compile(r"\[(\d.*)\]").fullmatch
_OF_A_NAME = re.compile(r"(\d{4}-\d\d-\d\d)[ T_-](\d\d)[-_.](\d\d)[-_.](\d\d)(.*)", re.DOTALL).fullmatch
"""As in the name of a file, which may have no colon."""
_USUAL = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?)").fullmatch
"""As nvidia-smi writes it, and most scripts."""
_ABBREVIATION = re.compile(r"(?P<time>.*\d) ?(?P<zone>[A-Z]{3,5})").fullmatch
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?").fullmatch
_YEAR_FIRST = re.compile(
    r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:([T ])(\d{1,2})(?=:))?(\D.*)?", re.DOTALL
).fullmatch
"""Spreadsheets write months, days and hours without their first 0."""
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)", re.DOTALL).fullmatch
"""With dots the day comes first, wherever dates are written so. With slashes that is not known."""
_SLASHED = re.compile(r"(\d{1,2})[-/](\d{1,2})[-/](\d{4})\b,?(.*)", re.DOTALL).fullmatch
_ORDERS = {"mdy": (1, 0), "dmy": (0, 1)}
"""Where the day and the month stand, by the unit of a column of times."""
_DATE_OF_DIGITS = re.compile(r"((?:19|20)\d\d)([01]\d)([0-3]\d)([0-2]\d)([0-5]\d)([0-5]\d)?").fullmatch
"""Of fourteen digits, or of twelve without seconds. As seconds since 1970 they would be of before 2001."""
_HALF_DAY = re.compile(
    r"(.*?)(\d{1,2})(:\d\d(?::\d\d(?:[.,]\d+)?)?) ?([AaPp])\.? ?[Mm]\b\.?(.*)", re.DOTALL
).fullmatch
_MONTH_NAME = re.compile(r"(\d{1,2})[- /]([A-Z][a-z]{2})[a-z]*[- /](\d{4})(.*)", re.DOTALL).fullmatch
_MONTH_FIRST = re.compile(r"^([A-Z][a-z]{2})[a-z]*\.? (\d{1,2}),? (\d{4}),?")
_WEEKDAY = re.compile(r"^[^\W\d_]{2,9}[.,]* (?=\d{1,4}[-/.]|[A-Z][a-z]+ \d{1,2}, \d{4})")
"""Before the date, as ``%date%`` of Windows has it."""
_EAST_ASIAN = (
    (re.compile(r"(\d{4}) ?[年년] ?(\d{1,2}) ?[月월] ?(\d{1,2}) ?[日일]"), r"\1-\2-\3"),
    (re.compile(r"(\d{1,2}) ?[時时시] ?(\d{1,2}) ?[分분] ?(\d{1,2}) ?[秒초]"), r"\1:\2:\3"),
    (re.compile(r" ?(?:星期|周)\w| ?\w(?:曜日|요일)"), ""),
    (re.compile(r"(?:上午|午前|오전) ?(\d[\d:.,]*)"), r"\1 AM"),
    (re.compile(r"(?:下午|午後|오후) ?(\d[\d:.,]*)"), r"\1 PM"),
)
"""How Chinese, Japanese and Korean programs write a date, a time, a weekday and halves of the day."""
_TIME_FIRST = re.compile(r"^(\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?) (\d{1,4}[-./]\d{1,2}[-./]\d{1,4})$")
"""As some scripts and spreadsheets write them: the rest is as in the order that others have."""
_SPAN = re.compile(
    r"(?:(?P<days>\d+)(?:-| days?,? ))?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d\d(?:\.\d+)?)"
).fullmatch
"""A time that has passed, as Python, pandas and ``ps`` write it."""
_LONGEST_ALONE = 60
_ALONE = re.compile(
    r"[\s=#*<>\[(-]*(?:(?:time ?stamp|date ?time|time|date) *[:=] *)?(?P<moment>"
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? [^,;\t|]*\d\d:\d\d:\d\d[^,;\t|=*#\])-]*"
    r"|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}[T _]\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?"
    r"(?: ?(?:Z|[A-Z]{3,5}|[-+]\d\d:?\d\d))?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{4},? \d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AP]M)?"
    r")[\s=#*<>\])-]*",
    re.IGNORECASE,
).fullmatch
_CLOCK_ALONE = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?").fullmatch
"""As ``date +%T`` writes it: with a word before it, it may be a time that has passed."""
ELAPSED, EPOCH = "elapsed", "epoch"
"""What stands for the unit of a column of times whose name says that they are since the log began, or that
they are since 1970, if they are no numbers of a training's epochs."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SECONDS = QUANTITIES["time"].units
_LEAST_EPOCH_S = 1e8
"""1973: a smaller number is seconds since the log began."""
_MOST_EPOCH_S = 4.2e9
_SPREADSHEET_EPOCH, _SPREADSHEET_DAYS = datetime(1899, 12, 30, tzinfo=UTC), (32_874, 73_050)
"""Spreadsheets write a moment as days since then; from 1990 to 2099."""
_JITTER_S = 10
"""Rows that are this much out of order were written so."""
_NO_START = "give --start, when the log begins, such as 2026-11-20T10:00:00Z"


class Clock:
    """Reads the times of one file, in order. Local times are of ``zone``, UTC where none was given.

    Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, told by their size; small ones
    are seconds since ``start_ms``. Local times that come twice in a year, when clocks go back, are told apart
    by the time before them, and by the shortest distance of two times of the same GPU: in a log of each hour
    the same time comes again at the change. Dates with slashes are in the order that the first one with a
    number above 12 shows. ``notes`` are those of the file.
    """

    def __init__(self, zone: tzinfo | None = None, start_ms: int | None = None) -> None:
        self.notes = Notes()
        self._zone, self._has_zone, self._start_ms = zone or UTC, zone is not None, start_ms
        self._order: str | None = None
        self._last: datetime | None = None
        self._steps: dict[Hashable, tuple[datetime, float]] = {}
        """Of each subject its last time, and the least seconds between two of its times."""
        self._rounded: dict[Hashable, str] = {}
        """Holds of each subject its last time without all digits."""

    def read_ms(self, text: str, unit: str | None = None, subject: Hashable = None) -> int:
        """Give Unix milliseconds. ``subject``: what the line is about, such as a GPU.

        Raises ``ValueError``, which names the fix.
        """
        usual = _USUAL(text)
        digits = None if usual else _DATE_OF_DIGITS(text)
        if digits:
            year, month, day, hour, minute, second = digits.groups("00")
            text = f"{year}-{month}-{day} {hour}:{minute}:{second}"
        if not usual and _NUMBER(text):
            return self._read_number(text, unit, subject)
        span = _SPAN(text) if unit == ELAPSED or " day" in text else None
        if span:
            days, hours, minutes, seconds = (float(part) for part in span.groups("0"))
            return self._since_start(text, 86_400 * days + 3600 * hours + 60 * minutes + seconds)
        if usual:
            moment, abbreviation = _read_iso("{}-{}-{} {}".format(*usual.groups()), text), None
        else:
            moment, abbreviation = self._read_moment(self._in_usual_order(text, unit), text)
            self.notes.has_cut_times |= moment.tzinfo is None and text.count(":") == 1
        if moment.tzinfo is None:
            moment = self._in_zone(moment, text, abbreviation, subject)
            last, least = self._steps.get(subject, (moment, math.inf))
            step = moment.timestamp() - last.timestamp()
            self._steps[subject] = moment, min(least, step) if step > 0 else least
            if self._last is not None and not self._has_zone:
                self._note_change(moment - self._last, moment, text, self._steps[subject][1])
            self._last = moment
        return round(moment.timestamp() * 1000)

    def _note_change(self, step: timedelta, moment: datetime, text: str, least_s: float) -> None:
        """Say where local times are as in a night in which clocks change: it shifts all that follows.

        With few lines an hour they go back by that much less: ``least_s`` lie between two lines.
        """
        is_sunday, is_new_hour = moment.weekday() == 6, moment.minute < 10
        back_s = -step.total_seconds()
        back_s += least_s if back_s > 0 and is_sunday and least_s < 3600 else 0
        if 50 * 60 < back_s < 70 * 60:
            what = "goes back by an hour at {}, as where clocks are put back: give --zone"
        elif 11.9 * 3600 < -step.total_seconds() < 12.1 * 3600:
            what = "goes back by half a day at {}, as where hours count to 12 and AM or PM is missing"
        elif timedelta(hours=1) <= step < timedelta(minutes=70) and is_sunday and is_new_hour:
            what = "leaves out an hour before {}, as where clocks are put forward: give --zone"
        else:
            return
        self.notes.remarks.setdefault(f"the time {what.format(text)}", None)

    def _read_number(self, text: str, unit: str | None, subject: Hashable) -> int:
        value = float(text)
        known_unit = (unit or "").lower() in _SECONDS
        seconds = value * _SECONDS[(unit or "").lower()] if known_unit else value
        if not known_unit:
            for factor in (1e-3, 1e-6, 1e-9):
                seconds = value * factor if seconds > _MOST_EPOCH_S else seconds
        if abs(seconds) >= _LEAST_EPOCH_S:
            if "e" in text.lower():
                self._check_digits(text, seconds / value, subject)
            return round(seconds * 1000)
        if unit == EPOCH:
            raise ValueError(
                f"{value:g} is no time since 1970, but an epoch of a training, perhaps: name the column of "
                "time (--columns time=NAME), or, where there is none, take this one out and give --start"
            )
        return self._since_start(f"{value:g}", seconds)

    def _check_digits(self, text: str, unit_s: float, subject: Hashable) -> None:
        """Raise ``ValueError`` for a number of which only the first digits are left, if it comes again."""
        last_digit = Decimal(text).as_tuple().exponent
        if not isinstance(last_digit, int) or 10**last_digit * unit_s <= 1:
            return
        if self._rounded.get(subject) == text:
            raise ValueError(
                f"{text} has only the first digits of its time, as a spreadsheet shows it: save the column "
                "as a number without an exponent, or as text"
            )
        self._rounded[subject] = text

    def _since_start(self, text: str, seconds: float) -> int:
        """Give Unix milliseconds of a time since the log began, which ``text`` is. Raises ``ValueError``."""
        if self._start_ms is not None:
            return self._start_ms + round(seconds * 1000)
        sheet = ""
        if _SPREADSHEET_DAYS[0] < seconds < _SPREADSHEET_DAYS[1]:
            day = _SPREADSHEET_EPOCH + timedelta(days=seconds)
            sheet = f"; or, where {day:%Y-%m-%d} is meant, save the column as date and time"
        raise ValueError(f"{text} is a time since the log began: {_NO_START}{sheet}")

    def _in_usual_order(self, text: str, unit: str | None) -> str:
        """Write a date with the year first and a time of 24 hours. Raises ``ValueError`` where it is not
        known which of two numbers is the day.
        """
        text = _without_words(text)
        half = _HALF_DAY(text)
        if half:
            before, hour, minutes, letter, rest = half.groups()
            if not 1 <= int(hour) <= 12:
                raise ValueError(f"{text!r} is no time: an hour before AM or PM is from 1 to 12")
            of_24 = int(hour) % 12 + 12 * (letter in "Pp")
            text = f"{before}{of_24:02}{minutes}{rest}"
        bracketed = _BRACKETED(text)
        text = bracketed[1] if bracketed else text
        text = _MONTH_FIRST.sub(r"\2 \1 \3", _TIME_FIRST.sub(r"\2 \1", text))
        slashed, named, of_day, of_name = (
            match(text) for match in (_SLASHED, _MONTH_NAME, _DAY_OF_WEEK, _OF_A_NAME)
        )
        if slashed:
            *numbers, year, rest = slashed.groups()
            if max(map(int, numbers)) > len(_MONTHS) and self._order is None:
                self._order = "mdy" if int(numbers[1]) > len(_MONTHS) else "dmy"
            order = _ORDERS.get((unit or "").lower()) or _ORDERS.get(self._order or "")
            if order is None:
                raise ValueError(
                    f"{text!r}: which of {numbers[0]} and {numbers[1]} is the day is not known: give "
                    "--columns time=NAME[mdy], or [dmy], with the name of the column"
                )
            day, month = (numbers[at] for at in order)
            return f"{year}-{month:>02}-{day:>02}{rest}"
        if named and named[2] in _MONTHS:
            return f"{named[3]}-{_MONTHS.index(named[2]) + 1:02}-{named[1]:>02}{named[4]}"
        if of_day:
            month, year = of_day["month"] or of_day["month_after"], of_day["year"] or of_day["year_after"]
            if year and month in _MONTHS:
                zone = f" {of_day['zone']}" if of_day["zone"] else ""
                return f"{year}-{_MONTHS.index(month) + 1:02}-{of_day['day']:>02} {of_day['time']}{zone}"
        if of_name:
            return "{} {}:{}:{}{}".format(*of_name.groups())
        return text

    def _read_moment(self, text: str, written: str) -> tuple[datetime, str | None]:
        """Return the moment as written, and the abbreviation of its zone where it has one.

        A time of day is the first such moment that is not before ``--start``, or not more than 12 h before
        the last line: midnight has passed then. Raises ``ValueError`` for one without ``--start``, and for
        what is no time, which it names as it is ``written``.
        """
        if _TIME_OF_DAY(text):
            if self._start_ms is None:
                raise ValueError(f"{text!r} has no date: {_NO_START}")
            before = self._last or datetime.fromtimestamp(self._start_ms / 1000, self._zone)
            time = text if text[1].isdecimal() else f"0{text}"
            moment = datetime.combine(before.date(), _read_iso(f"2000-01-01 {time}", written).time())
            has_passed = before.replace(tzinfo=None) - moment > timedelta(hours=12)
            return moment + timedelta(days=has_passed), None
        day_first = _DAY_FIRST(text)
        if day_first:
            day, month, year, rest = day_first.groups()
            text = f"{year}-{month:>02}-{day:>02}{rest}"
        year_first = _YEAR_FIRST(text)
        if year_first:
            year, _, month, day, gap, hour, rest = year_first.groups("")
            text = f"{year}-{month:>02}-{day:>02}{gap}{hour and f'{hour:>02}'}{rest}"
        named = _ABBREVIATION(text)
        zone = named["zone"] if named else None
        without_space = named["time"] if named else re.sub(r" (?=[-+]\d\d(:?\d\d)?$)", "", text)
        moment = _read_iso(without_space, written)
        return (moment.replace(tzinfo=UTC) if zone in ("UTC", "GMT") else moment), zone

    def _in_zone(self, moment: datetime, text: str, abbreviation: str | None, subject: Hashable) -> datetime:
        first, second = (moment.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
        if abbreviation not in (None, first.tzname(), second.tzname()):
            raise ValueError(
                f"{text!r} is of the zone {abbreviation}, and not of {self._zone}: give the --zone of the "
                "log, such as America/New_York"
            )
        if first.utcoffset() == second.utcoffset():
            return first
        if first.astimezone(UTC).astimezone(self._zone).replace(tzinfo=None) != moment:
            raise ValueError(
                f"{text!r} was skipped by the clocks of {self._zone}: give the --zone of the log"
            )
        if abbreviation is not None and first.tzname() != second.tzname():
            return second if abbreviation == second.tzname() else first
        if self._last is None:
            return first
        earliest = self._last.timestamp() - _JITTER_S
        if first.timestamp() < earliest <= second.timestamp():
            return second
        last, least = self._steps.get(subject, (None, math.inf))
        if last is None or least == math.inf:
            return first
        steps = [choice.timestamp() - last.timestamp() for choice in (first, second)]
        return second if abs(steps[1] - least) < abs(steps[0] - least) else first


def find_moment(line: str) -> str | None:
    """Give the moment that is all of a line, as a shell's ``date`` writes it above what it is of; None for
    other lines."""
    if len(line) > _LONGEST_ALONE or line.count(",") > 1:
        return None
    text = line.strip()
    match = _ALONE(text)
    if match is not None:
        return match["moment"].strip().replace("_", " ")
    return text if _CLOCK_ALONE(text) else None


def is_since_1970(text: str) -> bool:
    """Tell whether it is a number that is a moment, and not what has passed since the log began."""
    return _NUMBER(text) is not None and float(text) >= _LEAST_EPOCH_S


def _without_words(text: str) -> str:
    """Write a date and a time without weekday, and without the words that stand for their signs."""
    text = _WEEKDAY.sub("", " ".join(text.replace(" @ ", " ").split()))  # `` @ ``: of Kibana
    if not text.isascii():
        for pattern, usual in _EAST_ASIAN:
            text = pattern.sub(usual, text)
    return text.strip()


def _read_iso(text: str, written: str) -> datetime:
    """Raises ``ValueError``, which names it as it is ``written``."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{written!r} is no time: expected one such as 2026-11-20T10:00:00.412 or seconds since 1970"
        ) from None


class Ticks:
    """Gives times to a log without any: a tick is ``interval_ms`` after the one before.

    A tick ends when what was seen in it comes again.
    """

    def __init__(self, start_ms: int | None, interval_ms: int) -> None:
        self.has_start = start_ms is not None
        self._ts_ms, self._interval_ms = start_ms, interval_ms
        self._seen: set[Hashable] = set()

    def next_ms(self, seen: Hashable) -> int:
        """Give the time of the tick in which this comes. Raises ``ValueError`` without a start."""
        if self._ts_ms is None:
            raise ValueError(
                f"the log has no times: {_NO_START}, and --interval if its ticks are not 1 s apart"
            )
        if seen in self._seen:
            self._seen.clear()
            self._ts_ms += self._interval_ms
        self._seen.add(seen)
        return self._ts_ms
