"""Makes rates of counters that only grow, over the time that really passed.

A counter that falls began anew, or could not be read: the next reading tells. If that is not below the value
before the fall, the counter is back, and by how much it grew is not known. A 0 may be a failure again and
again: what follows such zeros is judged by the value before them.
"""


class Growth:
    """Tells how much one counter grew between its readings: the rule that all rates here follow."""

    __slots__ = ("_before", "_last")

    def __init__(self) -> None:
        self._last: float | None = None
        self._before: float | None = None

    def add(self, value: float | None) -> float | None:
        """Take a reading, and give the growth since the last one. The first, and one below the last (a reset,
        a wrap), have none. Nor has one that is back where the counter was before."""
        last, before = self._last, self._before
        self._last = value
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
        return value - last

    def falls_to(self, value: float) -> bool:
        """Tell whether a reading would be below the last one."""
        return self._last is not None and value < self._last


class Rate:
    """Tells the rate of one counter; see ``Growth``."""

    __slots__ = ("_at", "_growth")

    def __init__(self) -> None:
        self._growth = Growth()
        self._at = 0.0

    def per_s(self, value: float | None, now: float) -> float | None:
        """Return the growth per second since the last reading; ``now`` in seconds of a clock that never steps
        back."""
        grown, passed = self._growth.add(value), now - self._at
        self._at = now
        return per_s(grown, passed)


def per_s(grown: float | None, passed_s: float) -> float | None:
    """Return a growth as a rate; absent where it is not known, or no time has passed."""
    return grown / passed_s if grown is not None and passed_s > 0 else None


class CounterRatio:
    """Tells the growth of one counter as a part of another's, in percent (0-100)."""

    __slots__ = ("_part", "_whole")

    def __init__(self) -> None:
        self._part, self._whole = Growth(), Growth()

    def pct(self, part: int | None, whole: int | None) -> float | None:
        """Return the percentage; absent where the growth of one is; 0 where the whole did not grow, for then
        no part of it did."""
        are_read = part is not None and whole is not None
        grown, all_grown = (
            self._part.add(part if are_read else None),
            self._whole.add(whole if are_read else None),
        )
        if grown is None or all_grown is None:
            return None
        return min(100.0, 100 * grown / all_grown) if all_grown else 0.0


class PairRate:
    """Tells the rates of two counters (in and out), summed over devices that come and go.

    Only devices whose growth is known count: one that just appeared brings its history along.
    """

    __slots__ = ("_at", "_devices")

    def __init__(self) -> None:
        self._devices: dict[str, tuple[Growth, Growth]] = {}
        self._at = 0.0

    def per_s(
        self, devices: dict[str, tuple[int, int]], now: float
    ) -> tuple[float, float] | tuple[None, None]:
        """Return both rates, or neither: at first, where a counter of any device falls, and where there is
        none."""
        passed, self._at = now - self._at, now
        self._devices = {name: self._devices.get(name) or (Growth(), Growth()) for name in devices}
        of_devices = [(*self._devices[name], *counts) for name, counts in devices.items()]
        falls = any(
            received.falls_to(now_in) or sent.falls_to(now_out)
            for received, sent, now_in, now_out in of_devices
        )
        read = [(received.add(now_in), sent.add(now_out)) for received, sent, now_in, now_out in of_devices]
        grown = [(into, out) for into, out in read if into is not None and out is not None]
        if not grown or passed <= 0 or falls:
            return None, None
        return sum(into for into, _ in grown) / passed, sum(out for _, out in grown) / passed


def rounded(value: float | None) -> int | None:
    """Return a rate of bytes without its fraction, which means nothing."""
    return None if value is None else round(value)


def rounded_pct(value: float | None) -> float | None:
    """Return a percentage to a thousandth: finer than any counter behind it."""
    return None if value is None else round(value, 3)
