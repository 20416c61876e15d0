"""Machines of which one process uses a GPU."""

from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Scenario, Signal, square

GIB = 1024.0**3


def one_used(pid: int | None) -> Scenario:
    """Two GPUs, before the process is there (None), and with it: 88 % and 3 GiB. One is used by another."""
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


def used_in_steps(pid: int) -> Scenario:
    """One GPU, which the process uses in steps of 4 s."""
    process = FakeProcess(pid=pid, util=square(4, 0.5, 3, 91), mem=19e9)
    values: dict[str, Signal] = {"util": square(4, 0.5, 5, 95), "mem_total": 80e9, "mem_used": 20e9}
    return Scenario(gpus=[FakeGpu(uuid="GPU-1", values=values, processes=[process])])
