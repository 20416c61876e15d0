"""Rules that tell a pod's kind from its last minute: what a dashboard shows, and the simplest learner."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bench.generators_jobs import KINDS, Pod
from streams.operators.workload.channels import CHANNEL_ROW

Floats = npt.NDArray[np.float64]
WINDOW = 60
IDLE_PCT, BUSY_PCT = 5.0, 60.0
UTIL, MEM, READ, RX = (
    CHANNEL_ROW[name] for name in ("busiest_gpu_util_pct", "gpu_mem_pct", "read_kb_per_s", "rx_kb_per_s")
)
COMING_KB, COMING_MEM_PCT = 10_000.0, 2.0


def threshold(window: Floats) -> str:
    """Mean utilization: under 5 % idle (loading if data comes or memory fills), from 60 % training,
    between them inference. ``window`` has the shape (channels, seconds)."""
    util = np.nanmean(window[UTIL])
    if util >= IDLE_PCT:
        return "training" if util >= BUSY_PCT else "inference"
    coming = np.nanmean(window[READ]) + np.nan_to_num(np.nanmean(np.nan_to_num(window[RX])))
    filling = np.nanmax(window[MEM]) - np.nanmin(window[MEM])
    return "loading" if coming > COMING_KB and filling > COMING_MEM_PCT else "idle"


def statistics(window: Floats) -> Floats:
    """Logarithms of mean, spread and largest change of each channel; absent is 0."""
    filled = np.nan_to_num(window)
    changes = np.abs(np.diff(filled, axis=1))
    parts = (filled.mean(axis=1), filled.std(axis=1), changes.max(axis=1))
    return np.asarray(np.log1p(np.abs(np.concatenate(parts))))


class NearestCentroid:
    """The kind whose mean statistics lie nearest, each in units of its spread (T. Hastie and others 2009,
    4.3: discriminant analysis with a diagonal covariance)."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        known: list[Floats] = []
        kinds: list[int] = []
        for one in pods:
            for second in range(WINDOW, one.kind.size + 1, WINDOW):
                if len(set(one.kind[second - WINDOW : second].tolist())) == 1 and one.kind[second - 1] >= 0:
                    known.append(statistics(one.matrix()[:, second - WINDOW : second]))
                    kinds.append(int(one.kind[second - 1]))
        table, truth = np.array(known), np.array(kinds)
        self._kinds = sorted(set(kinds))
        self._centres = np.array([table[truth == kind].mean(axis=0) for kind in self._kinds])
        apart = np.concatenate(
            [table[truth == kind] - centre for kind, centre in zip(self._kinds, self._centres, strict=True)]
        )
        self._spread = apart.std(axis=0) + 1e-6

    def __call__(self, window: Floats) -> str:
        """The kind of a window, shape (channels, seconds)."""
        far = (((statistics(window) - self._centres) / self._spread) ** 2).sum(axis=1)
        return KINDS[self._kinds[int(np.argmin(far))]]
