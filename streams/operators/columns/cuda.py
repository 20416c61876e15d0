"""Reads a ``cuda-samples`` record into columns: the CUDA calls of each pod."""

from operator import attrgetter

import numpy as np

from dutycycle.contract.catalogue import POD_CUDA_METRICS
from dutycycle.contract.records.samples import CudaPod, CudaSample
from streams.operators.columns.arrays import Floats
from streams.operators.columns.series import Series, TallySeries
from streams.operators.columns.template import Cells, GapValues, TickReader
from streams.operators.columns.tick import make_layout

_cells_of_pod = attrgetter(*POD_CUDA_METRICS)


class CudaReader(TickReader[CudaSample]):
    """Reads the pods of a node."""

    def __init__(self) -> None:
        super().__init__(CudaSample, "cuda-samples", _cells)
        self._lay_out(())

    def _take(self, sample: CudaSample) -> GapValues:
        if (names := tuple(_pods(sample))) != self._names:
            self._lay_out(names)
        return GapValues(sample.seq, sample.ts_ms, np.array(_cells(sample), np.float64))

    def _row(self, record: GapValues) -> Floats:
        return record.cells

    def _lay_out(self, pods: tuple[str, ...]) -> None:
        """Lay out columns anew, for other pods than before."""
        self._names = pods
        series = [Series("pod", uid, metric) for uid in pods for metric in POD_CUDA_METRICS]
        self._layout = make_layout(
            series, (TallySeries(column.member, "", column.metric) for column in series)
        )


def _pods(sample: CudaSample) -> dict[str, CudaPod]:
    return {pod.uid: pod for pod in sample.pods}


def _cells(sample: CudaSample) -> Cells:
    return [cell for pod in _pods(sample).values() for cell in _cells_of_pod(pod)]
