"""Reads a ``cuda-samples`` record into columns: the CUDA calls of each pod."""

from operator import attrgetter

import numpy as np

from contract.records.samples import CudaSample
from streams.operators.columns.series import POD_CUDA_METRICS, Series, TallySeries
from streams.operators.columns.tick import Tick, make_layout

_cells_of_pod = attrgetter(*POD_CUDA_METRICS)


class CudaReader:
    """Keeps the layout from tick to tick, as ``CgroupReader``."""

    def __init__(self) -> None:
        self._lay_out(())

    def read(self, sample: CudaSample) -> Tick:
        """The tick in columns."""
        pods = {pod.uid: pod for pod in sample.pods}
        if (names := tuple(pods)) != self._names:
            self._lay_out(names)
        values = np.array([cell for pod in pods.values() for cell in _cells_of_pod(pod)], np.float64)
        return Tick(
            sample.collector,
            sample.seq,
            sample.ts_ms,
            sample.interval_ms,
            self._layout,
            values,
            values,
            values,
        )

    def _lay_out(self, pods: tuple[str, ...]) -> None:
        """Other pods than before."""
        self._names = pods
        series = [Series("pod", uid, metric) for uid in pods for metric in POD_CUDA_METRICS]
        self._layout = make_layout(series, (TallySeries(one.member, "", one.metric) for one in series))
