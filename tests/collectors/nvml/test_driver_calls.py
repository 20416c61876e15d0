"""A call is asked first and read later: what it says is of when it was asked, and is said once."""

from collections.abc import Callable
from ctypes import POINTER, c_uint, cast, sizeof
from typing import Any

import pynvml
import pytest

from collectors.nvml import gate
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import NoDataError, RunningProcess, UnsupportedError
from dutycycle.telemetry.events import NOT_MEASURED, Telemetry

Library = dict[str, Callable[..., int]]
"""Functions of a driver by name: an answer for each call that is made."""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    functions: Library = {}

    def function(name: str) -> Callable[..., int]:
        if name not in functions:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return functions[name]

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", function)
    return functions


def clocks(library: Library, *mhz: int) -> None:
    """Let the driver tell these clocks, one at each call."""
    following = iter(mhz)

    def tell(_handle: Any, _kind: Any, place: Any) -> int:
        place._obj.value = next(following)
        return 0

    library["nvmlDeviceGetClockInfo"] = tell


def test_what_was_asked_is_read_once(library: Library) -> None:
    clocks(library, 100, 200, 300)
    question = gate.sm_clock_mhz()
    question.ask(None)
    assert [question(None) for _ in range(2)] == [100, 200], "the second time nothing was asked before"


def test_what_was_not_read_is_no_answer_of_the_next_tick(library: Library) -> None:
    """A GPU that is lost in the middle of a tick leaves answers behind."""
    clocks(library, 100, 200)
    query, question = DeviceQuery(None, "GPU 0", Telemetry("test")), gate.sm_clock_mhz()
    query.begin("sm_clock", question)
    query.begin("sm_clock", question)
    assert query.ask("sm_clock", question) == 200


def test_a_refused_call_is_not_asked_ahead_either(library: Library) -> None:
    codes = iter([pynvml.NVML_ERROR_NOT_SUPPORTED])  # a second call would find no more
    library["nvmlDeviceGetClockInfo"] = lambda *_: int(next(codes))
    query, question = DeviceQuery(None, "GPU 0", Telemetry("test")), gate.sm_clock_mhz()
    for _ in range(3):
        query.begin("sm_clock", question)
        assert query.ask("sm_clock", question) is None


def test_a_function_that_the_driver_lacks(library: Library) -> None:
    assert library == {}
    with pytest.raises(UnsupportedError, match="driver_too_old"):
        gate.sm_clock_mhz()(None)


def processes(library: Library, *answers: tuple[int, list[int]]) -> None:
    """Let the driver count so many rows, and write these pids; one answer at each call."""
    following = iter(answers)

    def tell(_handle: Any, count: Any, rows: Any) -> int:
        room = count._obj.value
        count._obj.value, pids = next(following)
        if count._obj.value > room:
            return int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
        for number, pid in enumerate(pids):
            rows[number].pid = pid
        return 0

    library["nvmlDeviceGetComputeRunningProcesses_v2"] = tell


def test_more_rows_than_there_was_room_for(library: Library) -> None:
    """They are asked for once more at the first time, and at once from then on."""
    pids = [*range(1, 101)]
    processes(library, (100, []), (100, pids), (100, pids))
    question = gate.compute_processes(2)
    for _ in range(2):
        question.ask(None)
        assert [process.pid for process in question(None)] == pids


def test_rows_that_the_driver_counts_and_does_not_write(library: Library) -> None:
    """They are no processes, and not those of the tick before."""
    processes(library, (2, [7, 8]), (2, [9]), (0, []))
    question = gate.compute_processes(2)
    assert [[process.pid for process in question(None)] for _ in range(3)] == [[7, 8], [9], []]


def test_fields_that_the_driver_leaves_as_they_are(library: Library) -> None:
    """The ids are there at each call, and nothing of the call before."""
    seen, said = [], iter([5, None])

    def tell(_handle: Any, count: Any, values: Any) -> int:
        row = cast(values, POINTER(pynvml.c_nvmlFieldValue_t))[0]
        seen.append((count.value, row.fieldId, row.valueType))
        if (value := next(said)) is None:
            row.nvmlReturn = pynvml.NVML_ERROR_NO_DATA
        else:
            row.valueType, row.value.uiVal = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, value
        return 0

    library["nvmlDeviceGetFieldValues"] = tell
    question = gate.field_values([82])
    ((first,), (second,)) = question(None), question(None)
    assert first == (5, 32)
    assert isinstance(second, NoDataError)
    assert seen == [(1, 82, 0)] * 2


def test_a_process_of_unknown_memory(library: Library) -> None:
    def tell(_handle: Any, count: Any, rows: Any) -> int:
        count._obj.value = 1
        rows[0].pid, rows[0].usedGpuMemory = 7, 2 ** (8 * sizeof(c_uint) * 2) - 1
        return 0

    library["nvmlDeviceGetComputeRunningProcesses_v2"] = tell
    assert gate.compute_processes(2)(None) == [RunningProcess(7, None, (0, 0))]


def test_a_name_that_is_no_text_is_not_told(library: Library) -> None:
    """It costs nothing else of the GPU."""

    def tell(_handle: Any, place: Any, _size: Any) -> int:
        place.value = b"\xf8\x0c"
        return 0

    library["nvmlDeviceGetSerial"] = tell
    telemetry = Telemetry("test")
    query = DeviceQuery(None, "GPU 0", telemetry)
    assert [query.ask("serial", gate.serial) for _ in range(2)] == [None, None]
    assert telemetry.count(NOT_MEASURED) == 1
