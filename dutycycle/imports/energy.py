"""Tells whether a log's counter of energy counts, and in the unit that it was taken for: by the power beside
it."""

from collections.abc import Set
from dataclasses import dataclass, field

from dutycycle.contract.energy import LEAST_STEPS, agrees, unit_of
from dutycycle.contract.metering import LEAST_DRAWN_W
from dutycycle.contract.records.samples import Gpu

_STALL_MS = 1000
_MOST_STEP_S = 330.0
"""As of logs with a row each five minutes. Of a longer pause the power says too little."""
_LEAST_W, _MOST_W = 0.5, 10_000.0
"""What a GPU draws on average at least and at most, for logs without its power."""


@dataclass
class EnergyCounters:
    """Adds up the counters of the GPUs of a node, and the power of the same time.

    ``_rows``: of each GPU the time in milliseconds and the counter of the row before, and when it was first
    so much. ``_with_power``, ``_steps_with_power``: what the counters grew by while power is known too, in
    joules as they were read, and how often.
    """

    _rows: dict[str, tuple[int, float, int]] = field(default_factory=dict)
    _grown: float = 0.0
    _seconds: float = 0.0
    _with_power: float = 0.0
    _by_power: float = 0.0
    _steps: int = 0
    _steps_with_power: int = 0

    def stands_still(self, gpu: Gpu, ts_ms: int) -> bool:
        """Take a row; tell whether the counter is what it was a second ago, though the GPU draws power."""
        if gpu.energy_j is None:
            return False
        last_ms, last_j, since_ms = self._rows.get(gpu.uuid, (ts_ms, gpu.energy_j, ts_ms))
        since_ms = since_ms if gpu.energy_j == last_j else ts_ms
        self._rows[gpu.uuid] = ts_ms, gpu.energy_j, since_ms
        self._add((ts_ms - last_ms) / 1000, gpu.energy_j - last_j, gpu.power_w)
        return ts_ms - since_ms >= _STALL_MS and (gpu.power_w or 0) > LEAST_DRAWN_W

    def _add(self, seconds: float, grown: float, power_w: float | None) -> None:
        """Add a step. A log may begin with its newest row; a counter that fell began anew."""
        if seconds < 0:
            seconds, grown = -seconds, -grown
        if not 0 < seconds <= _MOST_STEP_S or grown < 0:
            return
        self._grown += grown
        self._seconds += seconds
        self._steps += grown > 0
        if power_w is not None:
            self._with_power += grown
            self._by_power += power_w * seconds
            self._steps_with_power += grown > 0

    def describe_doubt(self, factors: Set[float]) -> str | None:
        """Say why the counters are of another unit, and of which; None where nothing speaks against it.

        ``factors``: by which the log's values were multiplied for joules.
        """
        if self._steps < LEAST_STEPS:
            return None
        watts, unit = self._grown / self._seconds, None
        # A log that seldom tells the power may do so whenever its counter stands still.
        if self._by_power > 0 and self._steps_with_power >= LEAST_STEPS:
            if agrees(self._with_power, self._by_power):
                return None
            if len(factors) == 1:
                unit = unit_of(self._with_power / min(factors), self._by_power)
            what = f"{self._with_power:.3g} J where the power says {self._by_power:.3g} J"
        elif _LEAST_W <= watts <= _MOST_W:
            return None
        else:
            what = f"{watts:.3g} J a second, which no GPU draws"
        fix = f"--columns energy=NAME[{unit or 'kWh'}]"
        reason = f"{unit} fits, so give {fix}" if unit else f"give its own, as in {fix}, if it is a counter"
        return f"the energy grows by {what}, so it is in another unit: {reason}; it is absent"
