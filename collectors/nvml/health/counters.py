"""Reads what one GPU counts of its faults: all fields in one call, each with its own answer or error."""

from collections.abc import Mapping, Sequence

from collectors.nvml import gate
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import FieldValue, is_refused
from dutycycle.contract.records.health import HealthCounters
from dutycycle.contract.units import MAX_INTEGER, sum_of_all

_COUNTS = {
    3: "ecc_corrected",
    4: "ecc_uncorrected",
    5: "ecc_lifetime_corrected",
    6: "ecc_lifetime_uncorrected",
    94: "pcie_replays",
    142: "rows_remapped_corrected",
    143: "rows_remapped_uncorrected",
    91: "nvlinks",
    230: "recovery_action",
}
_PARTS = (
    "ecc_uncorrected_dram", "ecc_uncorrected_sram",
    "ecc_lifetime_uncorrected_dram", "ecc_lifetime_uncorrected_sram",
)  # fmt: skip
_PAGES_PENDING, _REMAP_PENDING, _REMAP_FAILED = 31, 144, 145
_PAGES = (29, 30)
_LINK_TOTALS = (38, 45, 52, 59)
_ENERGY_MJ = 83
_FIELDS = (*_COUNTS, _PAGES_PENDING, _REMAP_PENDING, _REMAP_FAILED, *_PAGES, *_LINK_TOTALS, _ENERGY_MJ)
_LINK_STATE, _LINK_ACTIVE, _LINK_ASLEEP = 165, 1, 2
_LINK_ERRORS = (161, 162, 163, 215)
"""Of one link; the totals are of generations before Hopper, the first three of those before Blackwell."""
LINK_READS = 10
"""Links are looked at in so many readings once: there are eighteen of them."""
_MOST_LINKS = 144
"""What says that it has more is no number of links (``NVML_NVLINK_MAX_LINKS`` is 36 to 72)."""
_POSSIBLE = (0, MAX_INTEGER)

Key = int | tuple[int, int]


class HealthReader:
    """Reads one GPU. What it does not support is not asked for again, until ``forget``."""

    def __init__(self) -> None:
        self._unsupported: set[int] = set()
        self._links: tuple[int | None, int | None] = None, None
        """How many links are active, and the errors of all; None is unknown."""
        self._readings = 0

    def forget(self) -> None:
        """Ask for everything again: the GPU has another handle, or another MIG mode."""
        self._unsupported.clear()
        self._readings = 0

    def read(self, query: DeviceQuery, *, links: bool = False) -> HealthCounters | None:
        """Return what the GPU counts now; None if it answers nothing. ``links``: look at NVLinks, due or not.
        Raises ``DeviceLostError`` and ``DriverUnavailableError``."""
        values = self._values(query, _FIELDS)
        counts = {name: values[number] for number, name in _COUNTS.items() if number in values}
        pages = [values[number] for number in _PAGES if number in values]
        totals = [values[number] for number in _LINK_TOTALS if number in values]
        energy_mj = values.get(_ENERGY_MJ)
        if links or self._readings % LINK_READS == 0:
            count = counts.get("nvlinks") or 0
            count = count if count <= _MOST_LINKS else 0
            keys = [(number, link) for link in range(count) for number in (_LINK_STATE, *_LINK_ERRORS)]
            of_links = self._values(query, keys).items()
            states = [value for key, value in of_links if _number(key) == _LINK_STATE]
            are_active = [
                None if state is None else state in (_LINK_ACTIVE, _LINK_ASLEEP) for state in states
            ]
            self._links = (
                sum_of_all(are_active) if len(states) == count else None,
                sum_of_all(value for key, value in of_links if _number(key) != _LINK_STATE),
            )
        self._readings += 1
        active, errors = self._links
        fabric = query.ask("fabric", gate.fabric, gate.fabric_without_health)
        low, exhausted = query.ask("spare_rows", gate.spare_rows) or (None, None)
        parts: Sequence[int] | None = None
        if counts.get("ecc_uncorrected") or counts.get("ecc_lifetime_uncorrected"):
            parts = query.ask("uncorrected_errors", gate.uncorrected_errors)
        counters = HealthCounters(
            pages_retired=sum_of_all(pages),
            nvlinks_active=active,
            nvlink_errors=sum_of_all(totals) if totals else errors,
            fabric_state=None if fabric is None else fabric.state,
            fabric_health=None if fabric is None else fabric.health,
            energy_j=None if energy_mj is None else round(energy_mj / 1000),
            pages_pending=_flag(values, _PAGES_PENDING),
            remap_pending=_flag(values, _REMAP_PENDING),
            remap_failed=_flag(values, _REMAP_FAILED),
            banks_low=low,
            banks_exhausted=exhausted,
            **dict(zip(_PARTS, parts or (), strict=False)),
            **counts,
        )
        return None if counters == HealthCounters() else counters

    def _values(self, query: DeviceQuery, keys: Sequence[Key]) -> dict[Key, int | None]:
        """Return the fields that the GPU knows, by what was asked for; None: this time it does not say."""
        wanted = [key for key in keys if _number(key) not in self._unsupported]
        if not wanted:
            return {}
        answers = query.ask("health", gate.field_values(wanted))
        if answers is None:
            return dict.fromkeys(wanted)
        values: dict[Key, int | None] = {}
        refused: set[int] = set()
        for key, answer in zip(wanted, answers, strict=False):
            if isinstance(answer, FieldValue):
                is_possible = query.possible("health", answer.value, _POSSIBLE) is not None
                values[key] = answer.value if is_possible else None
            elif is_refused(answer):
                refused.add(_number(key))
            else:
                query.count("health", answer)
                values[key] = None
        self._unsupported |= refused - {_number(key) for key in values}  # one link may be another kind
        return values


def _flag(values: Mapping[Key, int | None], number: int) -> bool | None:
    value = values.get(number)
    return None if value is None else bool(value)


def _number(key: Key) -> int:
    return key if isinstance(key, int) else key[0]
