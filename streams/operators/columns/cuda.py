"""Reads a ``cuda-samples`` record into columns: the CUDA calls of each pod."""

from operator import attrgetter

import numpy as np

from dutycycle.contract.catalogue import POD_CUDA_METRICS
from dutycycle.contract.records.samples import CudaPod, CudaSample
from streams.operators.columns.arrays import Floats
from streams.operators.columns.series import Series, TallySeries
from streams.operators.columns.template import Cells, Templates
from streams.operators.columns.tick import TickRow, make_layout

_cells_of_pod = attrgetter(*POD_CUDA_METRICS)


class CudaReader:
    """Keeps the layout from tick to tick, as ``CgroupReader``."""

    def __init__(self) -> None:
        self._templates = Templates(CudaSample, "cuda-samples", _cells)
        self._collector, self._interval_ms = "", 0
        self._lay_out(())

    def read(self, sample: CudaSample, data: bytes = b"") -> TickRow:
        """Return the tick in columns."""
        self._templates.learn(data, sample)
        if (names := tuple(_pods(sample))) != self._names:
            self._lay_out(names)
        self._collector, self._interval_ms = sample.collector, sample.interval_ms
        return self._tick(sample.seq, sample.ts_ms, np.array(_cells(sample), np.float64))

    def read_unchanged(self, data: bytes | None) -> TickRow | None:
        """Return the tick of a record like the last one."""
        record = self._templates.read(data)
        return None if record is None else self._tick(record.seq, record.ts_ms, record.cells)

    def _tick(self, seq: int, ts_ms: int, values: Floats) -> TickRow:
        return TickRow(self._collector, seq, ts_ms, self._interval_ms, self._layout, values)

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
