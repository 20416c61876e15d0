"""Goal: totals of launches, bursts, copies and memory from either form of a log; garbage is counted."""

import pytest

from collectors.cuda.collector import PodName, pod_name
from collectors.cuda.log_file import CudaLog

STATUS = "pid:-2\nkernel-cnt:97068\nmem-used:1048576\ntoken-cnt:0\nburst-tm:500\n"
CALLS = (
    "name:cuInit\ncount:4\nburst:4213891\nname:cuLaunchKernel\ncount:186804\nburst:1414970\n"
    "name:cuMemcpyH2D\ncount:4\nburst:134\nname:cuMemcpyD2H\ncount:2\nburst:0\n"
)
Totals = tuple[int | None, int | None, int | None, int | None]


def read(*texts: str) -> tuple[Totals, int]:
    log = CudaLog()
    for text in texts:
        log.read(text)
    return (log.launches, log.burst_us, log.copies, log.mem_used_bytes), log.bad_lines


@pytest.mark.parametrize(
    ("text", "totals"),
    [
        (STATUS, (97068, 500, None, 1048576)),
        (CALLS, (186804, 1414970, 6, None)),
        ("name:cuLaunchKernel,count:7,burst:9\n", (7, 9, None, None)),
        ("name:cuLaunchKernel start:1662497122263345556 burst:9\n", (None, 9, None, None)),
        ("name:cuLaunchKernel,count:7\nname:cuLaunchKernelEx,count:2\n", (9, None, None, None)),
        (STATUS + "kernel-cnt:97070\n", (97070, 500, None, 1048576)),
        ("kernel-cnt:5\nname:cuLaunchKernel,count:7\n", (7, None, None, None)),
        ("new-key:x\nkernel-cnt:5\n\n", (5, None, None, None)),
        ("", (None, None, None, None)),
    ],
)
def test_totals(text: str, totals: Totals) -> None:
    assert read(text) == (totals, 0)


@pytest.mark.parametrize(
    "line",
    [
        "garbage", "kernel-cnt:", "kernel-cnt:many", "kernel-cnt:-1", "kernel-cnt:1.5",
        "kernel-cnt:" + "9" * 30,
        "mem-used:9999999999999999999", "count:7", ":5", "\x00\x01\x02", "�:1", "name:,count:7", "name:a b",
    ],
)  # fmt: skip
def test_garbage_is_counted_and_the_rest_is_used(line: str) -> None:
    assert read(f"{line}\nkernel-cnt:5\n") == ((5, None, None, None), 1)


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("podname:sharing-pod-1\nnamespace:default\n", PodName("default", "sharing-pod-1")),
        ("podname: a\nnamespace: b\ngpu_uuid:GPU-1\nuid: u-1", PodName("b", "a", "u-1")),
        ("podname:a\n", None),
        ("podname:\nnamespace:b", None),
        ("\x00\xff", None),
        ("", None),
    ],
)
def test_whose_it_is(text: str, who: PodName | None) -> None:
    assert pod_name(text) == who
