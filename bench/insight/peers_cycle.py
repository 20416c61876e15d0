"""Detectors of cycles that others use, on one footing: samples in, one period (samples) or None out.

Two are the package pyriodicity's. The others have no package and are written anew from what was published.
Where a method gives several periods, the one that the series resembles most counts. None of them is asked
about a series whose samples are all alike: some divide by its spread.
"""

from collections.abc import Callable

import numpy as np
import scipy  # its signal is loaded when it is used

from bench.generators import Floats
from bench.insight.peer_gpoeo import gpoeo

Detector = Callable[[Floats], float | None]
LONGEST = 0.5
"""Share of the samples that a period may last: two of them have to fit."""
SHORTEST = 2.0
NORMAL_95 = 1.96
CHANCE = 0.01
"""False alarms that Lomb and Scargle's test allows on white noise."""
PADDED = 5
UNEVEN = 0.3
"""Standard deviation over mean of the gaps between peaks, above which they keep no time."""


def autocorrelation(series: Floats) -> Floats:
    """Of a series without its mean, from lag 0 (which is 1) up."""
    centred = series - series.mean()
    spectrum = np.fft.rfft(centred, 2 * series.size)
    sums = np.fft.irfft(np.abs(spectrum) ** 2)[: series.size]
    return np.asarray(sums / sums[0])


def fft_acf(series: Floats) -> float | None:
    """The strongest line of the spectrum, moved to the nearest peak of the autocorrelation.

    It counts if that peak exceeds what white noise would show (1.96/√n; G. Box and G. Jenkins 1970).
    """
    level = scipy.signal.detrend(series)
    power = np.abs(np.fft.rfft(level)) ** 2
    line = 2 + int(np.argmax(power[2:]))
    guess = series.size / line
    acf = autocorrelation(level)[: int(LONGEST * series.size)]
    peaks, _ = scipy.signal.find_peaks(acf)
    if not peaks.size:
        return None
    best = int(peaks[np.argmin(np.abs(peaks - guess))])
    return float(best) if acf[best] > NORMAL_95 / np.sqrt(series.size) else None


def autoperiod(series: Floats) -> float | None:
    """M. Vlachos, P. Yu and V. Castelli 2005, as pyriodicity has it, with its defaults."""
    from pyriodicity import Autoperiod  # a second of imports

    return _best(series, Autoperiod.detect(series, seed=0))


def cfd_autoperiod(series: Floats) -> float | None:
    """T. Puech and others 2020, as pyriodicity has it, with its defaults."""
    from pyriodicity import CFDAutoperiod

    return _best(series, CFDAutoperiod.detect(series, seed=0))


def _best(series: Floats, periods: Floats) -> float | None:
    fitting = [int(one) for one in periods if SHORTEST <= one <= LONGEST * series.size]
    acf = autocorrelation(scipy.signal.detrend(series))
    return float(max(fitting, key=lambda one: (acf[one], -one))) if fitting else None


def ancestor(series: Floats) -> float | None:
    """The rule of the Alnair profiler (CentaurusInfra/alnair, ``cyclic_pattern_detection``).

    Correlations of the series with itself at all lags up to half its length count as normal: those above
    their mean by 1.96 standard deviations stand out. More than two of them are a cycle, and its period
    is the median gap between their lags.
    """
    half = series.size // 2
    together = np.array([1.0, *(_correlation(series[:-lag], series[lag:]) for lag in range(1, half))])
    outstanding = np.flatnonzero(together > together.mean() + NORMAL_95 * together.std())
    return float(np.median(np.diff(outstanding))) if outstanding.size > 2 else None


def _correlation(one: Floats, other: Floats) -> float:
    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / size if size else float("nan")


def lomb_scargle(series: Floats) -> float | None:
    """The strongest line of the periodogram of N. Lomb 1976 and J. Scargle 1982, if noise seldom has it.

    Scargle's test: of n/2 independent frequencies of white noise the strongest exceeds z with the chance
    1 - (1 - exp(-z))^(n/2).
    """
    n = series.size
    level = scipy.signal.detrend(series)
    # At even distances theirs is the usual periodogram, and a padded transform has it between the lines, too.
    padded = PADDED * n
    power = np.abs(np.fft.rfft(level, padded)[2 * PADDED :]) ** 2 / (n * level.var())
    best = int(np.argmax(power))
    limit = -np.log(1 - (1 - CHANCE) ** (2 / n))
    return padded / (best + 2.0 * PADDED) if power[best] > limit else None


def peaks(series: Floats) -> float | None:
    """What a dashboard does: peaks that stand out by a standard deviation, and the time between them.

    ``scipy.signal.find_peaks``; at least four peaks, whose gaps differ by less than 30 % of their mean.
    """
    level = scipy.signal.detrend(series)
    found, _ = scipy.signal.find_peaks(level, prominence=level.std())
    gaps = np.diff(found)
    if gaps.size < 3 or gaps.std() > UNEVEN * gaps.mean():
        return None
    return float(np.median(gaps))


def _quiet(detector: Detector) -> Detector:
    """``detector``, which is not asked about what does not vary."""

    def asked(series: Floats) -> float | None:
        return detector(series) if np.ptp(series) > 0 else None

    return asked


DETECTORS: dict[str, Detector] = {
    name: _quiet(one)
    for name, one in {
        "FFT + ACF": fft_acf, "Autoperiod": autoperiod, "CFD-Autoperiod": cfd_autoperiod, "GPOEO": gpoeo,
        "Alnair": ancestor, "Lomb-Scargle": lomb_scargle, "find_peaks": peaks,
    }.items()
}  # fmt: skip
"""By the name in the tables."""
