"""Fits ``streams/operators/workload/kinds/classifier_weights.py`` to the tuned shapes, seeds 0-159 of
``bench/generators_jobs.py``.

python -m bench.fit_kind
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.generators_jobs import KINDS, TUNED, Floats, Pod, pod
from streams.operators.workload.channels import CGROUP_CHANNELS, NVML_CHANNELS, dequantize
from streams.operators.workload.kinds import classifier_weights
from streams.operators.workload.kinds.features import NAMES, features
from tests.support.streams.codes import quantize

Ints = npt.NDArray[np.int64]
SEEDS, CALIBRATION = range(120), range(120, 160)
ENDS = (30, 40, 60, 90, 120, 180, 240, 300, 400, 500, 600)
WINDOW_S = 240
RIDGE = 1e-3
PAGE = Path(classifier_weights.__file__)


def seen(one: Pod) -> Floats:
    """A pod's channels after they were coded and decoded again."""
    matrix, split = one.matrix(), len(NVML_CHANNELS)
    codes = [
        quantize("nvml", matrix[:split].T).T,
        quantize("cgroup", matrix[split : split + len(CGROUP_CHANNELS)].T).T,
    ]
    return dequantize(np.concatenate(codes))


def examples(seeds: range) -> tuple[Floats, Ints]:
    """Features at several moments of each pod, at least half a minute after a kind began; and the truth."""
    rows: list[Floats] = []
    truth: list[int] = []
    for shape in TUNED:
        for one in (pod(shape, seed) for seed in seeds):
            values = seen(one)
            for end in ENDS:
                began = max(start for start in one.starts if start < end)
                if one.kind[end - 1] >= 0 and end - began >= ENDS[0]:
                    found = features(values[:, max(0, end - WINDOW_S) : end], 0.0)
                    assert found is not None
                    rows.append(found)
                    truth.append(int(one.kind[end - 1]))
    return np.array(rows), np.array(truth)


def knots_of(rows: Floats) -> tuple[tuple[float, ...], ...]:
    """Where each feature's curve may bend: at its quantiles."""
    quantiles = np.quantile(rows, (0.1, 0.3, 0.5, 0.7, 0.9), axis=0).T
    return tuple(tuple(np.unique(one.round(2)).tolist()) for one in quantiles)


def basis(features: Floats, knots: tuple[tuple[float, ...], ...] = classifier_weights.KNOTS) -> Floats:
    """The terms that the scores are sums of: one, and of each feature its value and how far it is beyond each
    of its knots; last axis (1 + all of them,)."""
    columns = [np.ones(features.shape[:-1])]
    for place, bends in enumerate(knots):
        one = features[..., place]
        columns += [one, *(np.maximum(one - bend, 0.0) for bend in bends)]
    return np.stack(columns, axis=-1)


def fit(terms: Floats, truth: Ints, counts: Floats | None = None) -> Floats:
    """Multinomial logistic regression by accelerated gradient steps (Y. Nesterov 1983). ``counts``: how much
    each example counts, 1 in all; None: kinds are balanced."""
    size = np.maximum(terms.std(axis=0), 1e-6)
    size[0] = 1.0
    scaled, wanted = terms / size, np.eye(len(KINDS))[truth]
    if counts is None:
        counts = (1 / np.bincount(truth, minlength=len(KINDS)))[truth] / len(KINDS)
    balance = counts[:, np.newaxis]
    step = 1 / (0.5 * float(np.linalg.norm(scaled * np.sqrt(balance), 2)) ** 2 + RIDGE)
    weights = ahead = np.zeros((terms.shape[1], len(KINDS)))
    for turn in range(4000):
        scores = scaled @ ahead
        grown = np.exp(scores - scores.max(axis=1, keepdims=True))
        slope = scaled.T @ (balance * (grown / grown.sum(axis=1, keepdims=True) - wanted)) + RIDGE * ahead
        newer = ahead - step * slope
        ahead = newer + turn / (turn + 3) * (newer - weights)
        weights = newer
    return np.asarray(weights / size[:, np.newaxis])


def temperature(scores: Floats, truth: Ints, counts: Floats | None = None) -> float:
    """What to divide scores by so that the truth is as likely as can be; ``counts`` as in ``fit``."""

    def surprise(by: float) -> float:
        scaled = scores / by
        total = np.log(np.exp(scaled - scaled.max(axis=1, keepdims=True)).sum(axis=1)) + scaled.max(axis=1)
        return float(np.average(total - scaled[np.arange(truth.size), truth], weights=counts))

    tried: list[float] = np.linspace(0.2, 3.0, 281).tolist()
    return min(tried, key=surprise)


def write_module(
    page: Path,
    of: tuple[str, str, str, str],
    knots: Mapping[str, tuple[float, ...]],
    weights: Floats,
    by: float,
) -> None:
    """Write curves and weights as a module. ``of``: this program, whose curves they are, the names of its
    features, and what makes its terms; ``by``: the temperature."""
    program, classifier, names, terms = of
    lines = [
        f'"""Written by ``python -m {program}``: the curves of ``{classifier}``."""', "",
        f"TEMPERATURE = {by:.2f}", "", "KNOTS = (",
        *(f"    {knot!r},  # {name}" for name, knot in knots.items()), ")",
        f'"""Where each feature\'s curve bends, in the order of ``{names}``."""', "",
        "WEIGHTS = (",
    ]  # fmt: skip
    lines += [f"    {tuple(row)!r}," for row in (weights + 0.0).tolist()]
    lines += [")", f'"""By term of ``{terms}`` and kind."""', ""]
    page.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    """Fit, and write the module."""
    rows, truth = examples(SEEDS)
    knots = knots_of(rows)
    weights = fit(basis(rows, knots), truth).round(3)
    other, also = examples(CALIBRATION)
    by = temperature(basis(other, knots) @ weights, also)
    right = float(np.mean(np.argmax(basis(other, knots) @ weights, axis=1) == also))
    of = ("bench.fit_kind", "workload.classifier", "features.NAMES", "bench.fit_kind.basis")
    write_module(PAGE, of, dict(zip(NAMES, knots, strict=True)), weights, by)
    print(
        f"{truth.size} examples; {right:.4f} of {also.size} calibration examples right; temperature {by:.2f}"
    )


if __name__ == "__main__":
    main()
