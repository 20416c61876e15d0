"""A machine with two GPUs, of which one process uses the first."""

from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Scenario

GIB = 1024.0**3


def one_used(pid: int | None) -> Scenario:
    """Before the process is there (None), and with it: 88 % and 3 GiB. Another one is on the second GPU."""
    total = {"mem_total": 141 * GIB}
    used = total | {"util": 88, "mem_util": 30, "mem_used": 3 * GIB, "power_w": 400}
    mine = [] if pid is None else [FakeProcess(pid=pid, util=88, mem_util=30, mem=3 * GIB)]
    idle = total | {"util": 0, "power_w": 70}
    return Scenario(
        gpus=[
            FakeGpu(uuid="GPU-1", values=used if mine else idle, processes=mine),
            FakeGpu(uuid="GPU-2", values=idle, processes=[FakeProcess(pid=1)]),
        ]
    )
