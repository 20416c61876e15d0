"""Codes values as a node codes the ticks of its pods."""

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import CODINGS, Codes
from streams.operators.workload.loops import codes_by_second


def quantize(source: str, values: Floats) -> Codes:
    """Return codes of values, shape (rows, channels of ``source``), each row a tick of a second; NaN is
    absent."""
    codes = np.empty((*values.shape, 1), np.uint8)
    ticks = np.ascontiguousarray(values)[np.newaxis]
    codes_by_second(ticks, np.zeros((1, 2), np.int64), CODINGS[source], codes)
    return codes[..., 0]
