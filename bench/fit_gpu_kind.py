"""Fits ``streams/operators/workload/kinds/gpu_weights.py``, what a pod's GPU alone says of its kind, to the
tuned and the wide shapes of ``bench/generators_gpu.py``.

python -m bench.fit_gpu_kind
"""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from bench.fit_kind import Ints, fit, temperature, write_module
from bench.generators_gpu import SHARES, WIDE, at_ticks, gpu_pod
from bench.generators_jobs import KINDS, TUNED, Floats
from streams.operators.workload.channels import (
    ABSENT_CODE,
    CHANNELS,
    NVML_CHANNELS,
    SPAN_S,
    dequantize,
)
from streams.operators.workload.kinds import gpu_classifier, gpu_weights
from streams.operators.workload.kinds.features import features
from streams.operators.workload.kinds.gpu_features import GPU_NAMES, gpu_features
from streams.operators.workload.kinds.history import GpuHistory
from tests.support.streams.codes import quantize

SEEDS, CALIBRATION = range(90), range(90, 120)
ENDS = (20, 30, 40, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1500, 1800)
MOMENTS = 6
WINDOW_S = 240
WIDE_WEIGHT, LOOP_WEIGHT = 2.0, 0.7
"""The shapes that logs show count for more than those that were thought of; a kernel in a loop is rare."""
PAGE = Path(gpu_weights.__file__)


def examples_of(shape: str, seeds: range) -> tuple[list[Floats], list[int]]:
    """Features at some moments of each pod of a shape, and the truth."""
    rows: list[Floats] = []
    truth: list[int] = []
    for seed in seeds:
        one = gpu_pod(shape, seed)
        rng = np.random.default_rng([seed, 11, *shape.encode()])
        values, tick = at_ticks(one, rng)
        codes = np.full((len(CHANNELS), values.shape[1]), ABSENT_CODE, np.uint8)
        codes[: len(NVML_CHANNELS)] = quantize("nvml", values.T).T
        for end in sorted(rng.choice(ENDS, MOMENTS, replace=False).tolist()):
            end = end // tick * tick // 10 * 10
            if end < max(20, tick) or one.kind[end - 1] < 0:
                continue
            began = max(start for start in one.starts if start < end)
            if end - began < max(20, tick) and began:
                continue
            history = GpuHistory()
            history.add(codes[:, :end], end // SPAN_S)
            fine = features(dequantize(codes[:, max(0, end - WINDOW_S) : end]), 0.0) if tick == 1 else None
            found = gpu_features(history.values(), float(tick), one.gpus, fine)
            if found is not None:
                rows.append(found)
                truth.append(int(one.kind[end - 1]))
    return rows, truth


def examples(seeds: range) -> tuple[Floats, Ints, Floats]:
    """Of all shapes: features, truth, and how much each example counts."""
    shapes = [*TUNED, *WIDE]
    with ProcessPoolExecutor(2) as pool:
        parts = list(pool.map(examples_of, shapes, [seeds] * len(shapes)))
    rows = np.array([row for part in parts for row in part[0]])
    truth = np.array([kind for part in parts for kind in part[1]])
    counts = np.concatenate(
        [
            np.full(len(part[1]), LOOP_WEIGHT if shape == "loop" else WIDE_WEIGHT if shape in WIDE else 1.0)
            for shape, part in zip(shapes, parts, strict=True)
        ]
    )
    return rows, truth, shared(truth, counts)


def shared(truth: Ints, counts: Floats) -> Floats:
    """How much each example counts, so that kinds have their ``SHARES``; 1 in all."""
    weights = counts.copy()
    for place, kind in enumerate(KINDS):
        mine = truth == place
        weights[mine] *= SHARES[kind] / max(weights[mine].sum(), 1e-9)
    return np.asarray(weights / weights.sum())


def knots_of(rows: Floats) -> tuple[tuple[float, ...], ...]:
    """Where each feature's curve may bend: at quantiles of what is known of it."""
    quantiles = np.nanquantile(rows, (0.1, 0.3, 0.5, 0.7, 0.9), axis=0).T
    return tuple(tuple(np.unique(one.round(2)).tolist()) for one in quantiles)


def main() -> None:
    """Fit, and write the module."""
    rows, truth, counts = examples(SEEDS)
    knots = knots_of(rows)
    curves = gpu_classifier.Curves(knots)
    weights = fit(curves.terms(rows), truth, counts).round(3)
    other, also, other_counts = examples(CALIBRATION)
    scores = curves.terms(other) @ weights
    by = temperature(scores, also, other_counts)
    of = ("bench.fit_gpu_kind", "kinds.gpu_classifier", "gpu_features.GPU_NAMES", "gpu_classifier.terms")
    write_module(PAGE, of, dict(zip(GPU_NAMES, knots, strict=True)), weights, by)
    right = float(((np.argmax(scores, axis=1) == also) * other_counts).sum())
    print(f"{truth.size} examples; {right:.4f} of calibration examples right; temperature {by:.2f}")


if __name__ == "__main__":
    main()
