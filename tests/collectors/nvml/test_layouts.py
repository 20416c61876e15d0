"""The driver's arrays, decoded by their layouts, say what the binding's structures say of the same bytes."""

from ctypes import sizeof
from struct import Struct
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nvml import gate

_MEMBERS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
LAYOUTS = [
    (gate.PROCESS_UTILIZATION, pynvml.c_nvmlProcessUtilizationSample_t, "pid timeStamp smUtil memUtil"),
    (gate.PROCESS_INFO, pynvml.c_nvmlProcessInfo_v3_t, "pid usedGpuMemory gpuInstanceId computeInstanceId"),
    (gate.GPM_METRIC, pynvml.c_nvmlGpmMetric_t, "nvmlReturn value"),
    *(
        (gate.SAMPLE[kind], pynvml.c_nvmlSample_t, f"timeStamp sampleValue.{member}")
        for kind, member in _MEMBERS.items()
    ),
]


def test_every_type_of_value_has_a_layout() -> None:
    """None is left to a guess."""
    assert gate.SAMPLE.keys() == _MEMBERS.keys()


@pytest.mark.parametrize(("layout", "structure", "members"), LAYOUTS)
@given(content=st.binary(min_size=64, max_size=64))
def test_a_row(layout: Struct, structure: Any, members: str, content: bytes) -> None:
    """Each member of a row of any bytes."""
    assert layout.size == sizeof(structure)
    row = structure.from_buffer_copy(content)
    assert repr(layout.unpack(content[: layout.size])) == repr(tuple(_member(row, members.split())))


@given(content=st.binary(min_size=64, max_size=64), kind=st.sampled_from(sorted(_MEMBERS)))
def test_a_field(content: bytes, kind: int) -> None:
    """The type, the return code and the value of its type."""
    row = pynvml.c_nvmlFieldValue_t.from_buffer_copy(content)
    assert gate.FIELD_VALUE.size == sizeof(row)
    said, code, value = gate.FIELD_VALUE.unpack(content[: sizeof(row)])
    assert (said, code) == (row.valueType, row.nvmlReturn)
    number = gate.SAMPLE[kind].unpack(bytes(8) + value)[1]
    assert repr(number) == repr(getattr(row.value, _MEMBERS[kind]))


def _member(row: Any, members: list[str]) -> list[Any]:
    values = []
    for path in members:
        value = row
        for name in path.split("."):
            value = getattr(value, name)
        values.append(value)
    return values
