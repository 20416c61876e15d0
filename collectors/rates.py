"""From counters that only grow to rates, over the time that really passed.

A counter that falls began anew, or could not be read: the next reading tells. If that is not below the value
before the fall, the counter is back, and by how much it grew is not known. A 0 may be a failure again and
again: what follows such zeros is judged by the value before them.
"""


class Rate:
    """The rate of one counter. The first reading, and one below the last (a reset, a wrap), have none.
    Nor has one that is back where the counter was before."""

    __slots__ = ("_at", "_before", "_last")

    def __init__(self) -> None:
        self._last: int | None = None
        self._before: int | None = None
        self._at = 0.0

    def per_s(self, value: int | None, now: float) -> float | None:
        """Growth per second since the last reading; ``now`` in seconds of a clock that never steps back."""
        last, before, passed = self._last, self._before, now - self._at
        self._last, self._at = value, now
        if value is None or last is None:
            self._before = None
            return None
        if value < last:
            self._before = last if before is None else before
            return None
        if before is not None and (value == 0 or value >= before):
            self._before = before if value == 0 else None
            return None
        self._before = None
        return (value - last) / passed if passed > 0 else None


class CounterRatio:
    """The growth of one counter as a part of another's, in percent (0-100)."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def pct(self, part: int | None, whole: int | None) -> float | None:
        """Absent at first and after a reset; 0 where the whole did not grow, for then no part of it did."""
        last = self._last
        now = (part, whole) if part is not None and whole is not None else None
        self._last = None if last and last[1] and whole == 0 else now
        if now is None or last is None or now[0] < last[0] or now[1] < last[1]:
            return None
        grown = now[1] - last[1]
        return min(100.0, 100 * (now[0] - last[0]) / grown) if grown else 0.0


class PairRate:
    """The rates of two counters (in and out), summed over devices that come and go.

    Only devices of both readings count: one that just appeared brings its history along.
    """

    __slots__ = ("_at", "_last")

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        self._at = 0.0

    def per_s(
        self, devices: dict[str, tuple[int, int]], now: float
    ) -> tuple[float, float] | tuple[None, None]:
        """Both rates, or neither: at first, after a reset of any device, and where there is none."""
        last, passed = self._last, now - self._at
        self._at = now
        self._last = {
            name: pair
            for name, pair in devices.items()
            if not any(count == 0 < before for count, before in zip(pair, last.get(name, pair), strict=True))
        }
        grown = [
            (now_in - last[name][0], now_out - last[name][1])
            for name, (now_in, now_out) in devices.items()
            if name in last
        ]
        if not grown or passed <= 0 or min(map(min, grown)) < 0:
            return None, None
        return sum(pair[0] for pair in grown) / passed, sum(pair[1] for pair in grown) / passed


def rounded(value: float | None) -> int | None:
    """A rate of bytes without its fraction, which means nothing."""
    return None if value is None else round(value)


def rounded_pct(value: float | None) -> float | None:
    """A percentage to a thousandth: finer than any counter behind it."""
    return None if value is None else round(value, 3)
