"""Tells whether a log's counter of energy counts, and in the unit that it was taken for: by the power beside
it."""

from collections.abc import Set
from dataclasses import dataclass, field

from dutycycle.contract.energy import LEAST_STEPS, EnergyGrowth, agrees, unit_of
from dutycycle.contract.metering import LEAST_DRAWN_W
from dutycycle.contract.records.samples import Gpu

_STALL_MS = 1000
_MOST_STEP_S = 330.0
"""As of logs with a row each five minutes. Of a longer pause the power says too little."""
_LEAST_W, _MOST_W = 0.5, 10_000.0
"""What a GPU draws on average at least and at most, for logs without its power."""


@dataclass
class _Growth:
    """Adds up by how much counters grew, and the power of the same time.

    ``with_power``: while power is known too, in joules as they were read.
    """

    grown: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    with_power: EnergyGrowth = field(default_factory=EnergyGrowth)

    def add(self, seconds: float, grown: float, power_w: float | None) -> None:
        """Add a step. A log may begin with its newest row; a counter that fell began anew."""
        if seconds < 0:
            seconds, grown = -seconds, -grown
        if not 0 < seconds <= _MOST_STEP_S or grown < 0:
            return
        self.grown += grown
        self.seconds += seconds
        self.steps += grown > 0
        if power_w is not None:
            self.with_power.add(grown, power_w * seconds)

    def add_all(self, other: "_Growth") -> None:
        """Add the steps of other counters."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def find_doubt(self, factors: Set[float]) -> tuple[str, str | None] | None:
        """Say why the counters are of another unit, and of which if one fits; None where nothing speaks
        against it. ``factors``: by which the log's values were multiplied for joules."""
        if self.steps < LEAST_STEPS:
            return None
        watts, unit = self.grown / self.seconds, None
        # A log that seldom tells the power may do so whenever its counter stands still.
        if self.with_power.tells_unit:
            energy, by_power_j = self.with_power.energy, self.with_power.by_power_j
            if agrees(energy, by_power_j):
                return None
            if len(factors) == 1:
                unit = unit_of(energy / min(factors), by_power_j)
            what = f"{energy:.3g} J where the power says {by_power_j:.3g} J"
        elif _LEAST_W <= watts <= _MOST_W:
            return None
        else:
            what = f"{watts:.3g} J a second, which no GPU draws"
        return f"the energy grows by {what}, so it is in another unit", unit


@dataclass
class EnergyCounters:
    """Compares the counters of the GPUs of a node with their power.

    ``_rows``: of each GPU the time in milliseconds and the counter of the row before, and when it was first
    so much.
    """

    _rows: dict[str, tuple[int, float, int]] = field(default_factory=dict)
    _growth: dict[str, _Growth] = field(default_factory=dict)

    def stands_still(self, gpu: Gpu, ts_ms: int) -> bool:
        """Take a row; tell whether the counter is what it was a second ago, though the GPU draws power."""
        if gpu.energy_j is None:
            return False
        last_ms, last_j, since_ms = self._rows.get(gpu.uuid, (ts_ms, gpu.energy_j, ts_ms))
        since_ms = since_ms if gpu.energy_j == last_j else ts_ms
        self._rows[gpu.uuid] = ts_ms, gpu.energy_j, since_ms
        growth = self._growth.setdefault(gpu.uuid, _Growth())
        growth.add((ts_ms - last_ms) / 1000, gpu.energy_j - last_j, gpu.power_w)
        return ts_ms - since_ms >= _STALL_MS and (gpu.power_w or 0) > LEAST_DRAWN_W

    def describe_doubts(self, factors: Set[float]) -> dict[str, str]:
        """Say why a GPU's counter is of another unit, by uuid: each is judged alone, for one may be odd.
        Those that grew too seldom for that are judged together, and so are all where none is without doubt.

        ``factors``: as of ``_Growth``.
        """
        doubts = {uuid: growth.find_doubt(factors) for uuid, growth in self._growth.items()}
        seldom = {uuid for uuid, growth in self._growth.items() if growth.steps < LEAST_STEPS}
        are_all = None not in (doubts[uuid] for uuid in doubts.keys() - seldom)
        together = _Growth()
        for uuid in doubts if are_all else seldom:
            together.add_all(self._growth[uuid])
        of_many = together.find_doubt(factors)
        if are_all and of_many is not None:
            what, unit = of_many
            fix = f"--columns energy=NAME[{unit or 'kWh'}]"
            reason = (
                f"{unit} fits, so give {fix}" if unit else f"give its own, as in {fix}, if it is a counter"
            )
            return dict.fromkeys(doubts, f"{what}: {reason}; it is absent")
        doubts |= dict.fromkeys(seldom, of_many)
        return {
            uuid: f"{doubt[0]} than that of other GPUs{f', {doubt[1]},' * bool(doubt[1])} and is absent"
            for uuid, doubt in doubts.items() if doubt is not None
        }  # fmt: skip
