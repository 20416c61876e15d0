"""Fits the curves by which kinds of jobs are told (``streams/operators/workload/kinds/curves.py``).

    python -m bench.fit_kinds pod    # of all that is measured: the tuned shapes of bench/generators_jobs.py
    python -m bench.fit_kinds gpu    # of the GPU alone: those, and the wide ones of bench/generators_gpu.py

Both learn from some seeds, and are calibrated on others.
"""

import argparse
import json
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.generators import Floats
from bench.generators_gpu import SHARES, WIDE, at_ticks, gpu_pod
from bench.generators_jobs import KINDS, TUNED, Pod
from bench.generators_jobs import pod as make_pod
from streams.operators.workload.channels import (
    ABSENT_CODE,
    CGROUP_CHANNELS,
    CHANNELS,
    NVML_CHANNELS,
    SPAN_S,
    dequantize,
)
from streams.operators.workload.kinds.curves import GPU_CURVES, POD_CURVES, Curves
from streams.operators.workload.kinds.features import NAMES, features
from streams.operators.workload.kinds.gpu_features import GPU_NAMES, gpu_features
from streams.operators.workload.kinds.history import GpuHistory
from tests.support.streams.codes import quantize

Ints = npt.NDArray[np.int64]
Examples = tuple[Floats, Ints, Floats]
"""Features, shape (examples, features), NaN for absent; the kind of each; and how much each counts, 1 in
all."""
POD_ENDS = (30, 40, 60, 90, 120, 180, 240, 300, 400, 500, 600)
GPU_ENDS = (20, 30, 40, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1500, 1800)
"""Moments (s) at which a pod is looked at; of those of a GPU ``MOMENTS``, by chance."""
MOMENTS = 6
WINDOW_S = 240
RIDGE = 1e-3
WIDE_WEIGHT, LOOP_WEIGHT = 2.0, 0.7
"""The shapes that logs show count for more than those that were thought of; a kernel in a loop is rare."""


def pod_examples(seeds: range) -> Examples:
    """Give several moments of each pod, at least half a minute after a kind began; kinds are balanced."""
    rows: list[Floats] = []
    kinds: list[int] = []
    for shape in TUNED:
        for pod in (make_pod(shape, seed) for seed in seeds):
            values = _as_decoded(pod)
            for end in POD_ENDS:
                began = max(start for start in pod.starts if start < end)
                if pod.kind[end - 1] >= 0 and end - began >= POD_ENDS[0]:
                    row = features(values[:, max(0, end - WINDOW_S) : end], 0.0)
                    assert row is not None
                    rows.append(row)
                    kinds.append(int(pod.kind[end - 1]))
    truth = np.array(kinds)
    return np.array(rows), truth, (1 / np.bincount(truth, minlength=len(KINDS)))[truth] / len(KINDS)


def _as_decoded(pod: Pod) -> Floats:
    """Return a pod's channels after they were coded and decoded again."""
    matrix, split = pod.matrix(), len(NVML_CHANNELS)
    codes = [
        quantize("nvml", matrix[:split].T).T,
        quantize("cgroup", matrix[split : split + len(CGROUP_CHANNELS)].T).T,
    ]
    return dequantize(np.concatenate(codes))


def gpu_examples(seeds: range) -> Examples:
    """Give some moments of each pod of all shapes; kinds have their ``SHARES``."""
    shapes = [*TUNED, *WIDE]
    with ProcessPoolExecutor(2) as pool:
        parts = list(pool.map(_gpu_examples_of, shapes, [seeds] * len(shapes)))
    rows = np.array([row for part in parts for row in part[0]])
    truth = np.array([kind for part in parts for kind in part[1]])
    counts = np.concatenate(
        [
            np.full(len(part[1]), LOOP_WEIGHT if shape == "loop" else WIDE_WEIGHT if shape in WIDE else 1.0)
            for shape, part in zip(shapes, parts, strict=True)
        ]
    )
    for number, kind in enumerate(KINDS):
        of_kind = truth == number
        counts[of_kind] *= SHARES[kind] / max(counts[of_kind].sum(), 1e-9)
    return rows, truth, np.asarray(counts / counts.sum())


def _gpu_examples_of(shape: str, seeds: range) -> tuple[list[Floats], list[int]]:
    """Give features and kinds of one shape."""
    rows: list[Floats] = []
    kinds: list[int] = []
    for seed in seeds:
        pod = gpu_pod(shape, seed)
        rng = np.random.default_rng([seed, 11, *shape.encode()])
        values, tick = at_ticks(pod, rng)
        codes = np.full((len(CHANNELS), values.shape[1]), ABSENT_CODE, np.uint8)
        codes[: len(NVML_CHANNELS)] = quantize("nvml", values.T).T
        for end in sorted(rng.choice(GPU_ENDS, MOMENTS, replace=False).tolist()):
            end = end // tick * tick // 10 * 10
            if end < max(20, tick) or pod.kind[end - 1] < 0:
                continue
            began = max(start for start in pod.starts if start < end)
            if end - began < max(20, tick) and began:
                continue
            history = GpuHistory()
            history.add(codes[:, :end], end // SPAN_S)
            fine = features(dequantize(codes[:, max(0, end - WINDOW_S) : end]), 0.0) if tick == 1 else None
            row = gpu_features(history.values(), float(tick), pod.gpus, fine)
            if row is not None:
                rows.append(row)
                kinds.append(int(pod.kind[end - 1]))
    return rows, kinds


def fit(terms: Floats, truth: Ints, counts: Floats) -> Floats:
    """Return the weights, shape (terms, kinds): multinomial logistic regression by accelerated gradient steps
    (Y. Nesterov 1983)."""
    size = np.maximum(terms.std(axis=0), 1e-6)
    size[0] = 1.0
    scaled, wanted = terms / size, np.eye(len(KINDS))[truth]
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


def temperature(scores: Floats, truth: Ints, counts: Floats | None) -> float:
    """Return what to divide scores by so that the truth is as likely as can be. ``counts``: how much each
    example counts; None: all alike."""

    def surprise(by: float) -> float:
        scaled = scores / by
        total = np.log(np.exp(scaled - scaled.max(axis=1, keepdims=True)).sum(axis=1)) + scaled.max(axis=1)
        return float(np.average(total - scaled[np.arange(truth.size), truth], weights=counts))

    tried: list[float] = np.linspace(0.2, 3.0, 281).tolist()
    return min(tried, key=surprise)


def write(path: Path, by: float, knots: Mapping[str, tuple[float, ...]], weights: Floats) -> None:
    """Write a file of ``FittedCurves``, a feature and a term a line."""
    of_features = ",\n".join(f"    {json.dumps(name)}: {json.dumps(bends)}" for name, bends in knots.items())
    of_terms = ",\n".join(f"    {json.dumps(row)}" for row in (weights + 0.0).tolist())
    text = f'"temperature": {by:.2f},\n"knots": {{\n{of_features}\n}},\n"weights": [\n{of_terms}\n]'
    path.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def main() -> None:
    """Fit the model of the command line, and write its file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=("pod", "gpu"))
    parser.add_argument("--out", type=Path, help="another file than that of the product")
    args = parser.parse_args()
    of_gpu = args.model == "gpu"
    learned, calibration = (range(90), range(90, 120)) if of_gpu else (range(120), range(120, 160))
    examples, names = (gpu_examples, GPU_NAMES) if of_gpu else (pod_examples, NAMES)
    rows, truth, counts = examples(learned)
    # A curve may bend at quantiles of what is known of its feature.
    quantiles = np.nanquantile(rows, (0.1, 0.3, 0.5, 0.7, 0.9), axis=0).T
    knots = tuple(tuple(np.unique(of_feature.round(2)).tolist()) for of_feature in quantiles)
    curves = Curves(knots, may_be_absent=of_gpu)
    weights = fit(curves.terms(rows), truth, counts).round(3)
    calibrating, kinds, shares = examples(calibration)
    scores = curves.terms(calibrating) @ weights
    by = temperature(scores, kinds, shares if of_gpu else None)
    write(
        args.out or (GPU_CURVES if of_gpu else POD_CURVES), by, dict(zip(names, knots, strict=True)), weights
    )
    right = float(np.average(np.argmax(scores, axis=1) == kinds, weights=shares if of_gpu else None))
    print(f"{truth.size} examples; {right:.4f} of calibration examples right; temperature {by:.2f}")


if __name__ == "__main__":
    main()
