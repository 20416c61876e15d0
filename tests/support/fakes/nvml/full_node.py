"""A full node: eight busy GPUs of six processes each."""

from collections.abc import Sequence

from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Scenario, Signal, sine, square

GPUS = 8
PROCESSES = 6
COUNTERS: dict[int, Signal] = {
    2: sine(5, 60, 90), 3: sine(6, 20, 45), 5: sine(7, 30, 70), 10: sine(8, 20, 60), 11: 0, 12: sine(9, 3, 8),
    13: 0, 60: sine(10, 60_000, 140_000), 61: sine(11, 60_000, 140_000),
}  # fmt: skip
"""Of GPM, by its numbers: a training on tensor cores that talks over NVLink, in percent and MiB/s."""


def full_node(pids: Sequence[int] = range(1000, 1000 + GPUS * PROCESSES)) -> Scenario:
    """Eight busy GPUs; six processes on each, buffers as a data centre GPU's (power every 20 ms)."""
    return Scenario(gpus=[_gpu(number, pids[number::GPUS][:PROCESSES]) for number in range(GPUS)])


def _gpu(number: int, pids: Sequence[int]) -> FakeGpu:
    processes = [FakeProcess(pid=pid, util=10 + n, mem_util=3) for n, pid in enumerate(pids)]
    values = {"util": square(0.5, 0.7, 20, 98), "mem_util": sine(7, 10, 60), "power_w": sine(5, 200, 690)}
    return FakeGpu(
        uuid=f"GPU-{number}",
        values={**values, "pcie_rx": 2e9, "pcie_tx": 1e9, "power_hz": 50, "throttle": 4},
        processes=processes,
        counters=COUNTERS,
    )
