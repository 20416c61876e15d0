"""Reads what an operator of a cluster decides about the order of pods, checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite

from dutycycle.contract.errors import SettingError

HIGHEST_PRIORITY = 1_000_000_000
"""Kubernetes keeps what is above to its own classes."""
LEAST_YEARS = 5
YEAR_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class Band:
    """Holds the priorities, ``low`` to ``high``, that pods of a user's class get: never more, never less."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Policy:
    """Says how a pod's place in the queue is computed: see ``core.priority``."""

    stretch: float = 8.0
    """A pod may be overtaken by what comes within so many times its predicted duration; 0: first come, first
    served."""
    size_exponent: float = 0.0
    """A job of n GPUs counts as n to this power times as long: below 0 large jobs go first."""
    unknown_s: float = 3600.0
    """Is taken for the duration of a pod without similar pods."""
    longest_s: float = 172_800.0
    """No pod is overtaken by what comes later than this after it: the bound against starvation."""
    fairness: float = 0.25
    """How strongly too much use sets back: to the power of used over entitled; 0: not at all."""
    window_s: float = 86_400.0
    """Use that is older does not count."""
    quantum_s: float = 60.0
    """Pods whose places differ by less get one priority, and go in the order of their arrival."""
    epoch_s: float = 0.0
    """The moment, in Unix seconds, when the highest priority of a band is given."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """What a namespace or team is entitled to, relative to the others; 1 if it is not named."""
    bands: Mapping[str, Band] = field(default_factory=lambda: {"": Band(0, 10_000_000)})
    """By the name of the user's class; the one named "" is for all others."""

    def __post_init__(self) -> None:
        """Raises ``SettingError``."""
        for name, low, high in RANGES:
            value = getattr(self, name)
            if not (isfinite(value) and low <= value <= high):
                raise SettingError(f"policy {name}: {value}: expected a number from {low:g} to {high:g}")
        for name, share in self.shares.items():
            if not (isfinite(share) and share > 0):
                raise SettingError(f"policy shares: {name}: {share}: expected a number above 0")
        if "" not in self.bands:
            raise SettingError('policy bands: expected one named "", for pods of any other class')
        most = HIGHEST_PRIORITY
        for name, band in sorted(self.bands.items(), key=lambda named_band: -named_band[1].high):
            if not -HIGHEST_PRIORITY <= band.low < band.high <= most:
                raise SettingError(
                    f"policy bands: {name!r}: {band.low} to {band.high}: expected a range that ends "
                    f"at {most} or below it, and shares nothing with another band"
                )
            years = (band.high - band.low) * self.quantum_s / YEAR_S
            if years < LEAST_YEARS:
                raise SettingError(
                    f"policy bands: {name!r} lasts {years:.1f} years at a quantum of {self.quantum_s:g} s: "
                    f"expected {LEAST_YEARS} at least; widen it, or raise quantum_s"
                )
            most = band.low - 1

    def band(self, user_class: str) -> Band:
        """Return the band of a user's class."""
        return self.bands.get(user_class) or self.bands[""]


RANGES = (
    ("stretch", 0, 1e4), ("size_exponent", -2, 2), ("unknown_s", 1, 1e7), ("longest_s", 0, 1e7),
    ("fairness", 0, 4), ("window_s", 60, 1e8), ("quantum_s", 1, 3600), ("epoch_s", 0, 1e11),
)  # fmt: skip
"""Of each number the name, the least and the most. The chart refuses by them, too."""


def policy_of(settings: Mapping[str, object]) -> Policy:
    """Return a policy from a parsed file. ``bands`` are pairs of numbers. Raises ``SettingError``."""
    known = {field.name for field in fields(Policy)}
    values: dict[str, object] = {}
    for name, value in settings.items():
        if name not in known:
            raise SettingError(f"policy: there is no {name!r}: expected one of {', '.join(sorted(known))}")
        values[name] = _READERS.get(name, _number)(name, value)
    return Policy(**values)  # type: ignore[arg-type]


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(f"policy {name}: {value!r}: expected a number")
    return float(value)


def _shares(name: str, value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise SettingError(f"policy {name}: {value!r}: expected numbers by namespace or team")
    return {str(who): _number(f"{name}: {who}", share) for who, share in value.items()}


def _bands(name: str, value: object) -> dict[str, Band]:
    if not isinstance(value, Mapping):
        raise SettingError(f"policy {name}: {value!r}: expected pairs of priorities by class")
    bands = {}
    for who, pair in value.items():
        if not (
            isinstance(pair, list | tuple) and len(pair) == 2 and all(type(bound) is int for bound in pair)
        ):
            raise SettingError(f"policy {name}: {who}: {pair!r}: expected [lowest, highest], whole numbers")
        bands[str(who)] = Band(*pair)
    return bands


_READERS = {"shares": _shares, "bands": _bands}
