"""Knows the names that versions of dcgm-exporter have for what a GPU does, with their units. Pure.

Three vocabularies are in use. Version 1 has ``dcgm_gpu_utilization``; later ones DCGM's own names
(``DCGM_FI_DEV_GPU_UTIL``) with percent, MiB, millijoules and MHz; those from 4.9 on name the unit
(``DCGM_FI_DEV_GPU_UTIL_RATIO``) and use ratios, bytes, joules and hertz. A cluster may have all of them.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from statistics import fmean
from typing import NamedTuple

from collectors.prometheus.identity.labels import Target, target_of
from collectors.prometheus.series import ScrapedSeries, SeriesLabels
from dutycycle.contract.catalogue import GPU_ROWS, LIMITS, MIB, PCT
from dutycycle.contract.energy import UNITS_J, EnergyGrowth, agrees, unit_of
from dutycycle.contract.errors import SettingError, did_you_mean

_BLANKS = frozenset({*range(0x7FFFFFF0, 0x7FFFFFF4), *(2.0**47 + n for n in range(4)), float(2**63 - 16)})
"""What DCGM writes for a value that it does not have, as 32-bit integer, as double, as 64-bit integer."""

NVLINK_ERRORS = {
    f"nvlink_{kind}": (f"NVLINK_{kind.upper()}_ERROR_COUNT_TOTAL", f"NVLINK_{kind.upper()}_ERROR_TOTAL")
    for kind in ("crc_flit", "crc_data", "replay", "recovery")
}
"""What is an error of NVLink, each over all links."""
PAGES = {"pages_single": ("RETIRED_SBE",), "pages_double": ("RETIRED_DBE",)}
"""What is a retired page of memory, before Ampere."""
_HEALTH = {
    "xid": ("XID_ERRORS", "XID_ERROR"),
    "ecc_corrected": ("ECC_SBE_VOL_TOTAL",),
    "ecc_uncorrected": ("ECC_DBE_VOL_TOTAL",),
    "ecc_uncorrected_dram": ("ECC_DBE_VOL_DEV",),
    "ecc_uncorrected_sram": ("ECC_DBE_VOL_SRM",),
    "ecc_lifetime_corrected": ("ECC_SBE_AGG_TOTAL",),
    "ecc_lifetime_uncorrected": ("ECC_DBE_AGG_TOTAL",),
    "ecc_lifetime_uncorrected_dram": ("ECC_DBE_AGG_DEV",),
    "ecc_lifetime_uncorrected_sram": ("ECC_DBE_AGG_SRM",),
    "rows_remapped_corrected": ("CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_CORRECTABLE_TOTAL"),
    "rows_remapped_uncorrected": ("UNCORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_UNCORRECTABLE_TOTAL"),
    "remap_pending": ("ROW_REMAP_PENDING",),
    "remap_failed": ("ROW_REMAP_FAILURE", "ROW_REMAP_FAILED"),
    "banks_low": ("BANKS_REMAP_ROWS_AVAIL_LOW", "BANK_REMAP_AVAIL_LOW"),
    "banks_exhausted": ("BANKS_REMAP_ROWS_AVAIL_NONE", "BANK_REMAP_AVAIL_NONE"),
    "pages_pending": ("RETIRED_PENDING",),
    "pcie_replays": ("PCIE_REPLAY_COUNTER", "PCIE_REPLAY_TOTAL"),
    "fabric_health": ("FABRIC_HEALTH_SUMMARY",),
    "recovery_action": ("GET_GPU_RECOVERY_ACTION", "GPU_RECOVERY_ACTION"),
    **NVLINK_ERRORS,
    **PAGES,
}
"""What is of a GPU's health, with the names of DCGM that it had until and has since version 4.6."""
HEALTH_FIELDS = frozenset(_HEALTH)
_RANGES: Mapping[str, tuple[float, float]] = {
    **LIMITS, "engine_pct": PCT, "mem_free_bytes": LIMITS["mem_total_bytes"],
    "mem_reserved_bytes": LIMITS["mem_total_bytes"], "throttle": (0, 2**63),
    **dict.fromkeys(_HEALTH, (0, 2**62)),
}  # fmt: skip
"""By field, in its unit: what a GPU can have."""
SHARES = frozenset({"gpu_util_pct", "mem_copy_util_pct"})
"""Fields of which exporters write a ratio or percent under one name: the HELP text, or a value, tells."""
AVERAGED = SHARES | {"engine_pct", "power_w"}
"""Fields of which the last value of a step says little of the step."""
LABELS = ("gpu", "UUID", "modelName", "GPU_I_ID", "GPU_I_PROFILE", "Hostname")
"""Labels by the names that most versions have; later ones write ``uuid``, ``model_name``, ``hostname``."""
_SPELLINGS = {name.replace("_", "").lower(): name for name in LABELS} | {"gpuuuid": "UUID"}
_LONGEST_STEP_MS = 300_000
"""Between two scrapes of a counter whose growth is compared with the power."""
_PERCENT = re.compile(r"%|per ?cent|0 ?(?:-|–|to) ?100\b", re.IGNORECASE)
_RATIO = re.compile(r"\bratio\b|\bfraction\b|0(?:\.0)? ?(?:-|–|to) ?1(?:\.0)?\b", re.IGNORECASE)


class Field(NamedTuple):
    """Names a field of ours, and by what an exporter's value is multiplied for our unit."""

    name: str
    factor: float = 1.0


_DEV, _PROF = "DCGM_FI_DEV_", "DCGM_FI_PROF_"
_FIELDS: Mapping[str, Field] = {
    **{name: Field(row.field, factor) for row in GPU_ROWS for name, factor in row.dcgm.items()},
    f"{_PROF}GR_ENGINE_ACTIVE": Field("engine_pct", 100),
    f"{_PROF}GR_ENGINE_UTIL_RATIO": Field("engine_pct", 100),
    "dcgm_fb_free": Field("mem_free_bytes", MIB),
    f"{_DEV}FB_FREE": Field("mem_free_bytes", MIB),
    f"{_DEV}FB_FREE_BYTES": Field("mem_free_bytes"),
    f"{_DEV}FB_RESERVED": Field("mem_reserved_bytes", MIB),
    f"{_DEV}FB_RESERVED_BYTES": Field("mem_reserved_bytes"),
    f"{_DEV}CLOCK_THROTTLE_REASONS": Field("throttle"),
    f"{_DEV}CLOCKS_EVENT_REASONS": Field("throttle"),
    **{f"{_DEV}{name}": Field(field) for field, names in _HEALTH.items() for name in names},
}
"""By an exporter's name, of each field the oldest first: where a GPU has several of one, the last counts."""
_RANKS = {name: rank for rank, name in enumerate(_FIELDS)}
_TARGETS = frozenset({*_FIELDS, *_RANGES, *LABELS})
"""What the setting ``prometheus_names`` may map a name to."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Holds a value in our unit. Of several of one field the one of the highest ``rank`` counts."""

    field: str
    value: float
    rank: int

    @property
    def possible(self) -> bool:
        """Tell whether a GPU can have it."""
        low, high = _RANGES[self.field]
        return low <= self.value <= high


class Vocabulary:
    """Translates the names and units of exporters into ours.

    ``names``: more names of metrics and labels, each with the known one that it stands for: a name above, a
    field of ours, or one of ``LABELS``. ``without``: fields that are not read.
    """

    def __init__(self, names: Mapping[str, str] | None = None, without: Set[str] = frozenset()) -> None:
        given = dict(names or {})
        for name, known in given.items():
            if known not in _TARGETS:
                raise SettingError(
                    f"DUTYCYCLE_PROMETHEUS_NAMES={name}={known}: {known} is no name of dcgm-exporter, no "
                    f"field of a GPU and no label that is known{did_you_mean(known, _TARGETS)}"
                )
        own = {
            name: _FIELDS.get(known) or Field(known) for name, known in given.items() if known not in LABELS
        }
        self._fields = {
            name: field for name, field in (dict(_FIELDS) | own).items() if field.name not in without
        }
        self._ranks = _RANKS | {name: len(_RANKS) + at for at, name in enumerate(own)}
        self._labels = {name: known for name, known in given.items() if known in LABELS}
        self.shares = tuple(name for name, field in self._fields.items() if field.name in SHARES)
        """Metrics whose unit is not sure by their name."""
        self.selector = '{__name__=~"' + "|".join(self._fields) + '"}'
        self._of_help: dict[str, float | None] = {}
        self._of_target: dict[tuple[str, str, str], float] = {}
        """By metric, job and instance, which is one version of an exporter. 0: its unit is not known."""
        self._odd: set[tuple[str, str, str, str]] = set()
        """GPUs whose counter is in another unit than the others': metric, job and instance, UUID."""
        self.unknown_units: dict[str, str] = {}
        """Why counters of energy are left out, by metric."""

    def without_help(self, series: Iterable[ScrapedSeries]) -> list[str]:
        """Return the metrics there of which the HELP text would tell the unit, and was not taken yet."""
        names = {scraped.labels.get("__name__", "") for scraped in series}
        return sorted(name for name in names if name in self.shares and name not in self._of_help)

    def learn_help(self, texts: Mapping[str, Iterable[str]]) -> None:
        """Take HELP texts by metric. Where exporters contradict one another, their values tell."""
        for name, help_texts in texts.items():
            factors = set()  # by what a value is multiplied for percent, as far as the texts say it
            for text in help_texts:
                if _PERCENT.search(text):
                    factors.add(1.0)
                elif _RATIO.search(text):
                    factors.add(100.0)
            self._of_help[name] = factors.pop() if len(factors) == 1 else None

    def learn(self, series: Iterable[ScrapedSeries]) -> None:
        """Take samples as they were scraped, and not their means: a value tells the unit of its target.

        A ratio is never above 1, and DCGM's percent are whole. Energy has to grow as the power says.
        """
        series = list(series)
        self._learn_energy(series)
        for scraped in series:
            name = scraped.labels.get("__name__", "")
            if name not in self.shares:
                continue
            target = name, *target_of(scraped.labels)
            values = (
                [value for _, value in scraped.points] if scraped.highs is None else scraped.highs.values()
            )
            if any(1 < value <= 100 for value in values):
                self._of_target[target] = 1.0
            elif name in _FIELDS and any(0 < value < 1 for value in values):
                self._of_target.setdefault(target, 100.0)

    def _learn_energy(self, series: Iterable[ScrapedSeries]) -> None:
        powers: dict[tuple[Target, str], list[float]] = defaultdict(list)
        counters: dict[tuple[str, str, str], list[tuple[ScrapedSeries, list[float]]]] = defaultdict(list)
        for scraped in series:
            name, target = scraped.labels.get("__name__", ""), target_of(scraped.labels)
            of_gpu = powers[target, scraped.labels.get("UUID", "")]
            if self.field_of(name) == "power_w":
                watts = (value * self._fields[name].factor for _, value in scraped.points)
                of_gpu += [value for value in watts if value <= _RANGES["power_w"][1]]
            elif self.field_of(name) == "energy_j" and (name, *target) not in self._of_target:
                counters[name, *target].append((scraped, of_gpu))
        for counter, of in counters.items():
            by_gpu: dict[str, EnergyGrowth] = defaultdict(EnergyGrowth)
            for scraped, of_gpu in of:
                for step in _steps(scraped, fmean(of_gpu)) if of_gpu else ():
                    by_gpu[scraped.labels.get("UUID", "")].add(*step)
            usual, every = self._fields[counter[0]].factor, sum(by_gpu.values(), EnergyGrowth())
            if not every.tells_unit:
                continue
            alone = {uuid: grown for uuid, grown in by_gpu.items() if grown.tells_unit}
            # The unit of most GPUs: an odd one spoils the sum, which counts where each grows too seldom.
            factors = Counter(_energy_factor(grown, usual) for grown in alone.values() or [every])
            factor = max(factors, key=lambda factor: (factors[factor], factor == usual))
            self._of_target[counter] = factor
            odd = {
                uuid: grown for uuid, grown in alone.items()
                if factor and not agrees(grown.energy * factor, grown.by_power_j)
            }  # fmt: skip
            self._odd |= {(*counter, uuid) for uuid in odd}
            for uuid, grown in odd.items() if factor else [("", every)]:
                whose = " of ".join(filter(None, (*counter, uuid)))
                self.unknown_units[counter[0]] = (
                    f"{whose} grows by {grown.energy:.3g} where the power says {grown.by_power_j:.3g} J: it "
                    "is in a unit that is not known, and is taken as not measured"
                )

    def snapshot(self) -> tuple[tuple[str, str, str, float], ...]:
        """Return what the values of each target told: metric, job, instance, factor."""
        odd = {of_gpu[:3] for of_gpu in self._odd}  # learned again, with its odd GPUs
        return tuple(
            (*target, factor) for target, factor in sorted(self._of_target.items()) if target not in odd
        )

    def restore(self, state: Iterable[tuple[str, str, str, float]]) -> None:
        """Go on with what was known."""
        self._of_target |= {(name, job, instance): factor for name, job, instance, factor in state}

    def averaged(self, series: Iterable[ScrapedSeries]) -> dict[str, bool]:
        """Return metrics there of which a step is better known by its mean; whether they are utilization."""
        names = {scraped.labels.get("__name__", "") for scraped in series}
        fields = {name: self.field_of(name) for name in sorted(names)}
        return {name: field != "power_w" for name, field in fields.items() if field in AVERAGED}

    def field_of(self, name: str) -> str:
        """Return the field of ours that a metric is; empty for none."""
        return self._fields[name].name if name in self._fields else ""

    def read(self, labels: SeriesLabels, value: float) -> Reading | None:
        """Return the value in our unit; None for what is no field of a GPU, or what DCGM does not have."""
        name = labels["__name__"]
        field = self._fields.get(name)
        if field is None or value in _BLANKS:
            return None
        factor = field.factor
        if field.name == "energy_j":
            factor = self._of_target.get((name, *target_of(labels)), factor)
        if factor == 0 or (name, *target_of(labels), labels.get("UUID", "")) in self._odd:
            return None
        if field.name in SHARES:
            factor = self._of_target.get((name, *target_of(labels))) or self._of_help.get(name) or factor
        return Reading(field.name, round(value * factor, 6), self._ranks[name])

    def rename_labels(self, series: Iterable[ScrapedSeries]) -> list[ScrapedSeries]:
        """Return the series with the labels of ``LABELS`` by the names there."""
        renamed = []
        for scraped in series:
            labels = {
                self._labels.get(name) or _SPELLINGS.get(name.replace("_", "").lower(), name): text
                for name, text in scraped.labels.items()
            }
            renamed.append(replace(scraped, labels=labels))
        return renamed


def _energy_factor(growth: EnergyGrowth, usual: float) -> float:
    """Return by what counters that grew so are multiplied for joules: ``usual``, or by the unit that fits; 0
    for none."""
    if agrees(growth.energy * usual, growth.by_power_j):
        return usual
    return UNITS_J.get(unit_of(growth.energy, growth.by_power_j) or "", 0.0)


def _steps(counter: ScrapedSeries, watts: float) -> Iterator[tuple[float, float]]:
    """Yield by how much a counter grew from each scrape to the next, and the joules that its power says; not
    up to a value that the next one takes back."""
    following = [value for _, value in counter.points[2:]]
    for ((before_ms, before), (ms, value)), after in zip_longest(pairwise(counter.points), following):
        is_step = before <= value <= (value if after is None else after)
        if is_step and ms - before_ms <= _LONGEST_STEP_MS and value not in _BLANKS:
            yield value - before, watts * (ms - before_ms) / 1000
