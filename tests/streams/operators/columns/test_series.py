"""Which column a series has, while series come and go."""

import numpy as np
import pytest

from streams.operators.columns.nvml import NvmlReader
from streams.operators.columns.series import ColumnIndex
from streams.operators.node.operator import NodeConfig, NodeOperator
from tests.support.data.samples import gpu, nvml, record


@pytest.mark.parametrize("keep", [[], [1], [0, 1]])
def test_an_empty_layout_has_no_columns_also_after_series_were_retired(keep: list[int]) -> None:
    a, b = ("a/0", "power_w"), ("a/1", "power_w")
    index = ColumnIndex([a, b])
    assert index.columns((a, b)).tolist() == [0, 1]
    index.retain(np.array(keep, np.int64))
    assert index.spread((), np.zeros((3, 0))).shape == (3, len(keep))
    assert index.columns(()).tolist() == []


def test_a_node_whose_gpus_are_all_retired_goes_on() -> None:
    config = NodeConfig(topic="nvml-samples", source="nvml", retire_ms=40_000)
    operator = NodeOperator(config, "a", NvmlReader("a"))
    sizes = []
    for second in range(120):
        gpus = [gpu(0, gpu_util_pct=50, power_w=100)] if second < 10 or second == 119 else []
        operator.update(record("nvml-samples", "a", nvml(second, gpus), second))
        sizes.append(len(operator.snapshot()["series"]))
    assert sizes[118] == 0 < sizes[119] == sizes[0]
